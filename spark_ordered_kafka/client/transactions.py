"""Consume-transform-produce: what a producer's transaction must know of the consumer whose offsets it commits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable
from weakref import WeakSet

from confluent_kafka import Consumer, KafkaException

from spark_ordered_kafka.client.backlog import CommitRequest
from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.kafka.clients import translate
from spark_ordered_kafka.kafka.sent_offsets import TransactionOffsets

__all__ = ["OffsetSource", "PlainSource", "ReadSide", "TransactionOffsets", "offset_source"]


@runtime_checkable
class OffsetSource(Protocol):
    """A consumer whose offsets a producer's transaction can commit."""

    def transaction_offsets(self, oldest: float | None) -> TransactionOffsets:
        """The offsets behind what was delivered.

        ``oldest``: when the first record of the transaction was produced, in ``time.monotonic()`` seconds; None without
        any. Raises RebalancedError when something delivered is others' by now, or was to be delivered again since then.
        """

    def transaction_committed(self, sent: TransactionOffsets) -> None:
        """They are committed. Called by the thread that commits."""

    def transaction_aborted(self) -> None:
        """A transaction was given up: what was delivered and is not committed is to be delivered again."""


@dataclass(frozen=True)
class PlainSource:
    """confluent-kafka's own consumer, which needs no telling: its positions are those of its assignment."""

    consumer: Consumer

    def transaction_offsets(self, oldest: float | None) -> TransactionOffsets:
        """The positions of the partitions that something was read from."""
        try:
            positions = self.consumer.position(self.consumer.assignment())
            group = self.consumer.consumer_group_metadata()
        except KafkaException as error:
            raise translate(error.args[0], "asking the consumer for its positions") from error
        except RuntimeError as error:
            raise ConfigError("consumer", self.consumer, f"must be open, but: {error}") from error
        return TransactionOffsets([one for one in positions if one.offset >= 0], group)

    def transaction_committed(self, sent: TransactionOffsets) -> None:
        """Nothing to do: a later transaction commits later positions."""

    def transaction_aborted(self) -> None:
        """Nothing to do: what to read again is the application's choice, as with confluent-kafka's producer."""


class ReadSide:
    """The consumers whose offsets a producer has been asked to commit, and what it owes to them.

    ``sent``: the offsets that the next commit takes along. ``committing``: those that a commit is under way for.
    ``has_met``: whether there was any consumer yet.
    """

    def __init__(self) -> None:
        self.sent: dict[OffsetSource, TransactionOffsets] = {}
        self.committing: list[tuple[Mapping[OffsetSource, TransactionOffsets], CommitRequest]] = []
        self.has_met = False
        # Weak: a producer may outlive many consumers, and what is gone needs no telling.
        self._met: WeakSet[OffsetSource] = WeakSet()

    def meet(self, source: OffsetSource) -> None:
        """From now on a transaction that is given up concerns this consumer, too."""
        self.has_met = True
        self._met.add(source)

    def offsets(self) -> tuple[TransactionOffsets, ...]:
        """What the next commit takes along."""
        return tuple(one for one in self.sent.values() if one.offsets)

    def begin(self, request: CommitRequest) -> None:
        """The commit of what was sent is under way."""
        self.committing.append((self.sent, request))
        self.sent = {}

    def committed(self) -> None:
        """What was sent is committed."""
        _tell_committed(self.sent)
        self.sent = {}

    def conclude(self) -> bool:
        """Tell the consumers what is committed by now; whether something else was given up."""
        waiting, self.committing = self.committing, []
        given_up = False
        for sent, request in waiting:
            if not request.done:
                self.committing.append((sent, request))
            elif request.error is None:
                _tell_committed(sent)
            else:
                given_up = True
        return given_up

    def aborted(self) -> None:
        """All that was not committed is given up."""
        self.sent = {}
        for source in list(self._met):
            source.transaction_aborted()


def _tell_committed(sent: Mapping[OffsetSource, TransactionOffsets]) -> None:
    for source, offsets in sent.items():
        source.transaction_committed(offsets)


def offset_source(consumer: Any) -> OffsetSource:
    """What ``consumer`` is to a transaction; raises ConfigError when it is no consumer."""
    if isinstance(consumer, OffsetSource):
        return consumer
    if isinstance(consumer, Consumer):
        return PlainSource(consumer)
    raise ConfigError("consumer", consumer, "an OrderedConsumer, or a Consumer of confluent-kafka")
