"""Ordered consumers of a group, and what they deliver."""

from __future__ import annotations

import time
from collections.abc import Sequence

from confluent_kafka import Message

from spark_ordered_kafka import OrderedConsumer
from spark_ordered_kafka.local import LocalCluster
from tests.queries import Rows
from tests.servers import TIMEOUT


def rows_of(messages: Sequence[Message]) -> Rows:
    return [{"value": message.value()} for message in messages]


def taken(consumer: OrderedConsumer, count: int) -> Rows:
    messages: list[Message] = []
    deadline = time.monotonic() + 2 * TIMEOUT
    while True:
        messages += consumer.consume(1000, 0.2)
        if len(messages) >= count:
            return rows_of(messages)
        assert time.monotonic() < deadline, f"only {len(messages)} of {count} records"


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
