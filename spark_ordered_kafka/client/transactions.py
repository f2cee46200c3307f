"""Consume-transform-produce: what a producer's transaction must know of the consumer whose offsets it commits."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from confluent_kafka import Consumer, KafkaException

from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.kafka.clients import translate
from spark_ordered_kafka.kafka.producer import TransactionOffsets

__all__ = ["OffsetSource", "PlainSource", "TransactionOffsets", "offset_source"]


@runtime_checkable
class OffsetSource(Protocol):
    """A consumer whose offsets a producer's transaction can commit."""

    def transaction_offsets(self) -> TransactionOffsets:
        """The offsets behind what was delivered.

        Raises RebalancedError when the group has given what was delivered to others by now.
        """

    def transaction_committed(self, sent: TransactionOffsets) -> None:
        """They are committed. Called by the thread that commits."""

    def transaction_aborted(self) -> None:
        """The offsets asked for last were not committed."""


class PlainSource:
    """confluent-kafka's own consumer, which needs no telling: its positions are those of its assignment."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    def transaction_offsets(self) -> TransactionOffsets:
        """The positions of the partitions that something was read from."""
        try:
            positions = self._consumer.position(self._consumer.assignment())
            group = self._consumer.consumer_group_metadata()
        except KafkaException as error:
            raise translate(error.args[0], "asking the consumer for its positions") from error
        except RuntimeError as error:
            raise ConfigError("consumer", self._consumer, f"must be open, but: {error}") from error
        return TransactionOffsets([one for one in positions if one.offset >= 0], group)

    def transaction_committed(self, sent: TransactionOffsets) -> None:
        """Nothing to do: a later transaction commits later positions."""

    def transaction_aborted(self) -> None:
        """Nothing to do: what to read again is the application's choice, as with confluent-kafka's producer."""


def offset_source(consumer: Any) -> OffsetSource:
    """What ``consumer`` is to a transaction; raises ConfigError when it is no consumer."""
    if isinstance(consumer, OffsetSource):
        return consumer
    if isinstance(consumer, Consumer):
        return PlainSource(consumer)
    raise ConfigError("consumer", consumer, "an OrderedConsumer, or a Consumer of confluent-kafka")
