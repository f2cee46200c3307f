"""Consume-transform-produce: what a producer's transaction must know of the consumer whose offsets it commits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol, runtime_checkable
from weakref import WeakSet

from confluent_kafka import Consumer, KafkaException, TopicPartition

from spark_ordered_kafka.client.arguments import partitions_of
from spark_ordered_kafka.client.backlog import CommitRequest
from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.kafka.clients import translate
from spark_ordered_kafka.kafka.sent_offsets import TransactionOffsets

__all__ = ["GivenOffsets", "OffsetSource", "PlainSource", "ReadSide", "TransactionOffsets", "offset_source"]


@runtime_checkable
class OffsetSource(Protocol):
    """A consumer whose offsets a producer's transaction can commit."""

    def transaction_offsets(self, oldest: float | None) -> TransactionOffsets:
        """The offsets behind what was delivered.

        ``oldest``: when the first record of the transaction was produced, in ``time.monotonic()`` seconds; None without
        any. Raises RebalancedError when something delivered is others' by now, or was to be delivered again since then.
        """

    def transactions_before(self) -> Sequence[CommitRequest]:
        """The commits that one of those offsets has to follow, of whatever producer."""

    def transaction_begun(self, request: CommitRequest) -> None:
        """The commit of those offsets is under way, also when no call waits for it any more."""

    def transaction_committed(self, sent: TransactionOffsets) -> None:
        """They are committed. Called by the thread that commits."""

    def transaction_aborted(self) -> None:
        """A transaction was given up: what was delivered and is not committed is to be delivered again."""


class _Foreign:
    """Of confluent-kafka's own consumer, which needs no calls: where it reads is the application's choice."""

    def transactions_before(self) -> Sequence[CommitRequest]:
        """None but the producer's own."""
        return ()

    def transaction_begun(self, request: CommitRequest) -> None:
        """Nothing to do."""

    def transaction_committed(self, sent: TransactionOffsets) -> None:
        """Nothing to do: a later transaction commits later positions."""

    def transaction_aborted(self) -> None:
        """Nothing to do, as with confluent-kafka's producer."""


@dataclass(frozen=True)
class PlainSource(_Foreign):
    """confluent-kafka's own consumer: its positions are those of its assignment."""

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


class GivenOffsets(_Foreign):
    """Offsets that the application has from confluent-kafka's own consumer, with its group's metadata."""

    def __init__(self, offsets: Sequence[TopicPartition], group: Any) -> None:
        if not isinstance(group, bytes):
            raise ConfigError(
                "group_metadata", group, "what consumer_group_metadata() of a consumer returned"
            )
        given = partitions_of(offsets, "positions")
        self._sent = TransactionOffsets([one for one in given if one.offset >= 0], group)

    def transaction_offsets(self, oldest: float | None) -> TransactionOffsets:
        """Those that were given."""
        return self._sent


class ReadSide:
    """The consumers whose offsets a producer has been asked to commit, and what it is to report to them.

    ``sent``: the offsets that the next commit takes along. ``committing``: those that a commit is under way for.
    ``has_any``: whether there was any consumer yet.
    """

    def __init__(self) -> None:
        self.sent: dict[OffsetSource, TransactionOffsets] = {}
        # What those have to follow, as of when they were sent.
        self._earlier: dict[OffsetSource, Sequence[CommitRequest]] = {}
        self.committing: list[tuple[Mapping[OffsetSource, TransactionOffsets], CommitRequest]] = []
        self.has_any = False
        # Weak: a producer may outlive many consumers.
        self._sources: WeakSet[OffsetSource] = WeakSet()

    def add(self, source: OffsetSource) -> None:
        """From now on a transaction that is given up concerns this consumer, too."""
        self.has_any = True
        self._sources.add(source)

    def send(self, source: OffsetSource, oldest: float | None) -> None:
        """Let the next commit take along what the consumer has delivered; raises as its ``transaction_offsets``."""
        self.sent[source] = source.transaction_offsets(oldest)
        self._earlier[source] = source.transactions_before()

    def offsets(self) -> tuple[TransactionOffsets, ...]:
        """What the next commit takes along."""
        return tuple(one for one in self.sent.values() if one.offsets)

    def requests(self) -> list[CommitRequest]:
        """The commits that are under way."""
        return [request for _, request in self.committing]

    def before(self, sender: object) -> list[CommitRequest]:
        """The commits that one of what was sent has to follow, if ``sender`` does it (D-436)."""
        if not self.sent:
            return []
        theirs = [(*self._earlier[source], *source.transactions_before()) for source in self.sent]
        return [one for one in chain(self.requests(), *theirs) if one.sender is not sender]

    def begin(self, request: CommitRequest) -> None:
        """The commit of what was sent is under way."""
        self.committing.append((self.sent, request))
        for source in self.sent:
            source.transaction_begun(request)
        self.sent, self._earlier = {}, {}

    def committed(self) -> None:
        """What was sent is committed."""
        _pass_committed(self.sent)
        self.sent, self._earlier = {}, {}

    def conclude(self) -> bool:
        """Pass to the consumers what is committed by now; whether anything else was given up."""
        waiting, self.committing = self.committing, []
        given_up = False
        for sent, request in waiting:
            if not request.done:
                self.committing.append((sent, request))
            elif request.error is None:
                _pass_committed(sent)
            else:
                given_up = True
        return given_up

    def aborted(self) -> None:
        """All that was not committed is given up, or will be; consumers wait for a commit that is under way by themselves."""
        self.sent, self._earlier = {}, {}
        for request in self.requests():
            request.dropped.set()
        self.committing = []
        for source in list(self._sources):
            source.transaction_aborted()


def _pass_committed(sent: Mapping[OffsetSource, TransactionOffsets]) -> None:
    for source, offsets in sent.items():
        source.transaction_committed(offsets)


def offset_source(consumer: Any) -> OffsetSource:
    """What ``consumer`` is to a transaction; raises ConfigError when it is no consumer."""
    if isinstance(consumer, OffsetSource):
        return consumer
    if isinstance(consumer, Consumer):
        return PlainSource(consumer)
    raise ConfigError("consumer", consumer, "an OrderedConsumer, or a Consumer of confluent-kafka")
