"""Taking messages from confluent-kafka's consumer, and looking at many of them: by the kernel, or by Python."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import cast

from confluent_kafka import Consumer, Message

from spark_ordered_kafka.native.loading import kernel
from spark_ordered_kafka.ordering.routing import NO_PARTITION, Routing


def fetch(consumer: Consumer, most: int, wait: float) -> list[Message]:
    """Up to ``most`` messages, waiting ``wait`` seconds for the first; what is behind it is taken without waiting.

    Those of the kernel are of a subclass of ``Message``, which Python's cyclic garbage collector does not track before
    a setter may put one into a cycle (D-116). Raises KafkaException as ``Consumer.poll``.
    """
    native = kernel()
    if native is not None:
        return cast(list[Message], native.fetch(consumer, most, wait))
    first = consumer.poll(wait)
    return [] if first is None else [first, *consumer.consume(most - 1, 0)]


def runs(messages: list[Message]) -> list[list[Message]]:
    """The messages in their order: records of one partition that follow each other, or one event, in each list."""
    native = kernel()
    if native is not None:
        return cast(list[list[Message]], native.runs(messages))
    return list(_runs(messages))


def misrouted(messages: list[Message], partition: int, routing: Routing) -> list[int]:
    """The indices of the messages whose keys belong to another partition than this one; a null key belongs to any."""
    native = kernel()
    if native is not None:
        return cast(
            list[int],
            native.misrouted(routing.hash, routing.initial_count, routing.count, partition, messages),
        )
    owners = routing.partitions([message.key() for message in messages]).tolist()
    return [row for row, owner in enumerate(owners) if owner not in (partition, NO_PARTITION)]


def _runs(messages: list[Message]) -> Iterator[list[Message]]:
    for (_, _, is_event), found in groupby(messages, _kind):
        if is_event:
            yield from ([event] for event in found)
        else:
            yield list(found)


def _kind(message: Message) -> tuple[str | None, int | None, bool]:
    return message.topic(), message.partition(), message.error() is not None
