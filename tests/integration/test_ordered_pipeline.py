"""Consume, transform, produce with both plain clients: exactly once and in order while both topics change."""

from __future__ import annotations

import time

import pytest

from spark_ordered_kafka import OrderedConsumer, OrderedProducer
from spark_ordered_kafka.errors import RebalancedError
from spark_ordered_kafka.local import LocalCluster
from tests.integration.producing import Background, Load, check_numbered, manual
from tests.servers import TIMEOUT
from tests.streams import change, conf, create


class Copier(Background):
    """Copies a topic as one of a group, in a thread, until the block ends."""

    def __init__(self, cluster: LocalCluster, source: str, target: str) -> None:
        super().__init__()
        self.copied = 0
        self._cluster = cluster
        self._source = source
        self._target = target

    def work(self) -> None:
        group = {"group.id": self._target, "auto.offset.reset": "earliest", "enable.auto.commit": False}
        reading = conf(self._cluster, session_timeout_ms=30_000, heartbeat_interval_ms=200) | group
        with manual(self._cluster) as producer, OrderedConsumer(reading) as consumer:
            consumer.subscribe([self._source])
            while not self._stop.is_set():
                self._copy(consumer, producer)

    def _copy(self, consumer: OrderedConsumer, producer: OrderedProducer) -> None:
        messages = consumer.consume(100, 0.05)
        for message in messages:
            producer.produce(self._target, message.value(), message.key())
        if not messages:
            return
        try:
            producer.send_offsets(consumer)
            producer.commit()
            self.copied += len(messages)
        except RebalancedError:
            # Whoever has the partitions now gets the records again.
            producer.abort()

    def await_more(self) -> None:
        self.await_copied(self.copied + 1)

    def await_copied(self, enough: int) -> None:
        deadline = time.monotonic() + 2 * TIMEOUT
        while self.copied < enough:
            assert self._failure is None, self._failure
            assert time.monotonic() < deadline, f"it has copied {self.copied} of {enough} records"
            time.sleep(0.01)


@pytest.mark.long
def test_a_group_copies_exactly_once_while_both_topics_change(cluster: LocalCluster, topic_name: str) -> None:
    source, target = (create(cluster, f"{topic_name}-{name}", 2) for name in ("in", "out"))
    first, second = (Copier(cluster, source, target) for _ in range(2))
    with first:
        with (
            OrderedProducer(conf(cluster, commit_interval_ms=20)) as producer,
            Load(producer, source, pause=0.02) as load,
        ):
            first.await_more()
            change(cluster, source, 4)
            change(cluster, target, 3)
            first.await_more()
            with second:
                second.await_more()
                change(cluster, target, 5)
                change(cluster, source, 3)
                second.await_more()
            # The second has left: the first takes over what it had.
            change(cluster, target, 2)
        first.await_copied(load.produced - second.copied)
    assert first.copied + second.copied == load.produced
    check_numbered(cluster, source, load.produced)
    check_numbered(cluster, target, load.produced)
