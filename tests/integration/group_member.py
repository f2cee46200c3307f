"""A member of a group under test: ``python -m tests.integration.group_member PORT NAME TOPIC FAULT CONF_AS_JSON``.

Every record is reported to the judge as processed; keys are held from their first record until they are given up.
FAULT is ``none``, ``ungated`` (reads on where it should wait) or ``deaf`` (gives nothing up when keys are revoked).
"""

from __future__ import annotations

import json
import signal
import sys
import threading

from confluent_kafka import Message, TopicPartition

from spark_ordered_kafka.client.consumer import OrderedConsumer
from spark_ordered_kafka.client.listener import PartitionKeyRebalanceListener
from spark_ordered_kafka.client.progress import TopicProgress
from tests.integration.group_judge import Record, Reports

MOST = 40
"""Records that are processed at a time."""


def numbers(partitions: list[TopicPartition]) -> list[int]:
    return [one.partition for one in partitions]


class Holder(PartitionKeyRebalanceListener):
    """Tells the judge which keys come and go."""

    def __init__(self, reports: Reports, *, deaf: bool = False) -> None:
        self._reports = reports
        self._deaf = deaf

    def on_partition_key_maybe_revoked(self, partitions: list[TopicPartition]) -> None:
        if not self._deaf:
            self._reports.tell("gave up", numbers(partitions))

    def on_partition_key_assigned(self, partitions: list[TopicPartition]) -> None:
        self._reports.tell("told", numbers(partitions))

    def on_assign(self, _: OrderedConsumer, partitions: list[TopicPartition]) -> None:
        self._reports.tell("told", numbers(partitions))

    def on_revoke(self, _: OrderedConsumer, partitions: list[TopicPartition]) -> None:
        self._reports.tell("gave up", numbers(partitions))

    def on_lost(self, _: OrderedConsumer, partitions: list[TopicPartition]) -> None:
        self._reports.tell("lost", numbers(partitions))


def record_of(message: Message) -> Record:
    key, _, number = (message.value() or b"").decode().partition(":")
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    assert (message.key() or b"").decode() == key
    return Record(partition, offset, key, int(number))


def read_on(self: TopicProgress) -> None:
    """A gate that is always open."""
    for progress in self.own.values():
        progress.limit = progress.validated


def main(port: str, name: str, topic: str, fault: str, conf: str) -> None:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    if fault == "ungated":
        TopicProgress.gate = read_on  # type: ignore[method-assign]
    reports = Reports(int(port), name)
    holder = Holder(reports, deaf=fault == "deaf")
    with OrderedConsumer(json.loads(conf)) as consumer:
        consumer.subscribe(
            [topic], holder.on_assign, holder.on_revoke, holder.on_lost, partition_key_listener=holder
        )
        while not stop.is_set():
            messages = consumer.consume(MOST, 0.05)
            if messages:
                reports.tell("processed", [tuple(record_of(message)) for message in messages])
    reports.goodbye()


if __name__ == "__main__":
    main(*sys.argv[1:])
