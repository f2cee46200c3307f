"""Ordered consumers of a group, and what they deliver."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import Message

from spark_ordered_kafka import OrderedConsumer
from spark_ordered_kafka.local import LocalCluster
from tests.queries import Rows
from tests.servers import TIMEOUT, await_true


def rows_of(messages: Sequence[Message]) -> Rows:
    return [{"value": message.value()} for message in messages]


def taken(consumer: OrderedConsumer, count: int) -> Rows:
    messages: list[Message] = []

    def are_there() -> bool:
        messages.extend(consumer.consume(1000, 0.2))
        return len(messages) >= count

    await_true(are_there, f"{count} records", 2 * TIMEOUT)
    return rows_of(messages)


def consumer_of(front: LocalCluster, topic: str, group: str, reset: str = "earliest") -> OrderedConsumer:
    consumer = OrderedConsumer(
        {
            "bootstrap.servers": front.bootstrap_servers,
            "controller.url": front.controller_url,
            "group.id": group,
            "auto.offset.reset": reset,
        }
    )
    consumer.subscribe([topic])
    return consumer
