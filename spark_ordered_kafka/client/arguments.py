"""What an application gives to methods of the clients, checked before anything is done with it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from confluent_kafka import Message, TopicPartition

from spark_ordered_kafka.client.waits import limit_of
from spark_ordered_kafka.errors import ConfigError

# librdkafka counts milliseconds in 32 bits.
_LONGEST = 2_000_000.0


def partitions_of(given: Any, name: str = "partitions") -> list[TopicPartition]:
    """The partitions of the argument ``name``. Raises ConfigError for anything else than partitions of topics."""
    expected = "a list of TopicPartition, such as [TopicPartition('orders', 0)]"
    if isinstance(given, TopicPartition) or not isinstance(given, Iterable):
        raise ConfigError(name, given, expected)
    # Once: an iterator would be empty at the second look.
    found = list(given)
    for one in found:
        if not isinstance(one, TopicPartition):
            raise ConfigError(name, given, expected)
        if one.partition < 0:
            raise ConfigError(name, f"{one.topic} without a partition", expected)
    return found


def partition_of(given: Any) -> TopicPartition:
    """As :func:`partitions_of`, of the argument ``partition``."""
    if not isinstance(given, TopicPartition):
        raise ConfigError("partition", given, "a TopicPartition, such as TopicPartition('orders', 0)")
    return partitions_of([given], "partition")[0]


def wanted_offsets(message: Any, offsets: Any) -> list[TopicPartition] | None:
    """What is to be committed or stored: the arguments of ``commit`` and ``store_offsets``.

    Raises ConfigError for both of them, and for what is no message, and no offsets.
    """
    if message is not None and offsets is not None:
        raise ConfigError("offsets", offsets, "give message or offsets, not both")
    if message is None:
        return None if offsets is None else partitions_of(offsets, "offsets")
    if not isinstance(message, Message):
        raise ConfigError("message", message, "a record that was delivered")
    error = message.error()
    if error is not None:
        raise ConfigError("message", error.str(), "a record, not an event")
    return [TopicPartition(message.topic() or "", message.partition() or 0, (message.offset() or 0) + 1)]


def seconds_of(timeout: Any) -> float:
    """A ``timeout`` as confluent-kafka takes it. Raises ConfigError as :func:`limit_of`."""
    limit = limit_of(timeout)
    return -1.0 if limit is None else min(limit, _LONGEST)
