"""State of topics with 10,000 partitions and 100 layouts: what ZooKeeper is sent and keeps stays below 1 MB."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from kazoo.client import TransactionRequest
from kazoo.protocol.serialization import Transaction

from spark_ordered_kafka.controller.change.protocol import Change
from spark_ordered_kafka.controller.settings import ZooKeeperSettings
from spark_ordered_kafka.controller.state.paths import FIXED_PATHS
from spark_ordered_kafka.controller.state.records import CreationRecord, LayoutRecord, TopicRecord
from spark_ordered_kafka.controller.state.topics import Znodes
from spark_ordered_kafka.controller.zk.records import dump, parse
from spark_ordered_kafka.controller.zk.session import ROOT, ConflictError, Session
from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.updates import updated
from tests.servers import TIMEOUT, unique_name

PARTITIONS = 10_000
LAYOUTS = 100
JUTE_MAX_BUFFER = 0xFFFFF
# The longest name that Kafka allows is in every path.
TOPIC = "t" * 249
WORST = 2**63 - 2, 2**31 - 1


class Measured(Session):
    """Notes the size of the greatest transaction."""

    largest = 0

    def commit(self, transaction: TransactionRequest, path: str) -> None:
        sent = len(Transaction(transaction.operations).serialize())
        self.largest = max(self.largest, sent)
        super().commit(transaction, path)

    def data_length(self, path: str) -> int:
        return int(self.wait(self.client.exists_async(path), path).dataLength)


@contextmanager
def znodes_on(cluster: LocalCluster) -> Iterator[tuple[Measured, Znodes]]:
    # Megabytes of JSON keep the process from its heartbeats.
    settings = ZooKeeperSettings(f"{cluster.zookeeper}/{unique_name('big')}", session_timeout=30.0)
    session = Measured(settings, timeout=TIMEOUT)
    session.connect(TIMEOUT, FIXED_PATHS)
    try:
        assert session.claim("test", "http://test", threading.Event()) is not None
        yield session, Znodes(session)
    finally:
        session.close()


def layout(rng: random.Random, count: int, offset: int, leader_epoch: int) -> LayoutRecord:
    """Random digits are what compresses least."""
    return LayoutRecord(
        undeleted_partition_count=count,
        starts=[rng.randint(offset // 10, offset) for _ in range(PARTITIONS)],
        leader_epochs=[rng.randint(leader_epoch // 10, leader_epoch) for _ in range(PARTITIONS)],
        committed_at=1.8e9 + rng.random(),
    )


def five_brokers(rng: random.Random) -> list[int]:
    return rng.sample(range(2**31 - 1001, 2**31 - 1), 5)


def change(rng: random.Random) -> Change:
    """An expansion whose caller says where each of 10,000 partitions goes."""
    assignments = tuple(tuple(five_brokers(rng)) for _ in range(PARTITIONS))
    return Change("c" * 12, TOPIC, "expand", 1, PARTITIONS, 1, 1.8e9, assignments=assignments)


def grown(record: TopicRecord, count: int) -> TopicRecord:
    return updated(record, layout_epoch=record.layout_epoch + 1, undeleted_partition_count=count)


@pytest.mark.long
def test_znodes_of_the_largest_topics_stay_small(kafka_cluster: LocalCluster) -> None:
    offset, leader_epoch = WORST
    rng = random.Random(7)
    record = TopicRecord(
        topic_id="i" * 22,
        initial_partition_count=1,
        undeleted_partition_count=PARTITIONS,
        layout_epoch=0,
        hash="murmur3",
        ordered_delivery=True,
        change=change(rng),
    )
    with znodes_on(kafka_cluster) as (session, znodes):
        znodes.create_topic(TOPIC, record, layout(rng, PARTITIONS, 0, leader_epoch))
        plain = 0
        for _ in range(LAYOUTS - 1):
            new = layout(rng, PARTITIONS, offset, leader_epoch)
            plain = max(plain, len(new.model_dump_json()))
            znodes.commit_layout(TOPIC, lambda current: grown(current, PARTITIONS), new)
        now = znodes.topic(TOPIC)
        assert now is not None
        path = f"{ROOT}/topics/{TOPIC}"
        largest = max(session.data_length(f"{path}/layouts/{epoch}") for epoch in range(LAYOUTS))
        began = time.monotonic()
        read = Znodes(session).layouts(TOPIC, now)
        seconds = time.monotonic() - began
        assert [len(one.starts) for one in read] == [PARTITIONS] * LAYOUTS
        assert read[-1] == new
        figures = {
            "a layout as JSON": plain,
            "a layout's znode": largest,
            "the topic's znode": session.data_length(path),
            "the largest transaction": session.largest,
        }
        print(f"offsets to {offset}: {figures}; all {LAYOUTS} layouts read in {seconds:.1f} s")  # noqa: T201 - to be read with "pytest -s"
        assert all(size < JUTE_MAX_BUFFER // 2 for size in figures.values()), figures


@pytest.mark.long
def test_ten_thousand_marks_are_written_and_removed(kafka_cluster: LocalCluster) -> None:
    """A shrink from 10,000 partitions to 1 and an expansion back, each some transactions of at most 1,000 marks."""
    rng = random.Random(7)
    record = TopicRecord(
        topic_id="i" * 22,
        initial_partition_count=1,
        undeleted_partition_count=PARTITIONS,
        layout_epoch=0,
        hash="murmur3",
        ordered_delivery=True,
    )
    with znodes_on(kafka_cluster) as (session, znodes):
        znodes.create_topic(TOPIC, record, layout(rng, PARTITIONS, 0, 1))
        znodes.commit_layout(TOPIC, lambda current: grown(current, 1), layout(rng, 1, *WORST))
        began = time.monotonic()
        statuses = znodes.partition_statuses(TOPIC)
        seconds = time.monotonic() - began
        assert statuses == dict.fromkeys(range(1, PARTITIONS), "marked")
        _, version = znodes.read_topic(TOPIC)
        deleted = dict.fromkeys(range(1, PARTITIONS), "deleted")
        znodes.set_partition_statuses(TOPIC, version, deleted, statuses.keys(), 1.8e9)  # type: ignore[arg-type]
        names = session.client.get_children(f"{ROOT}/topics/{TOPIC}/partitions")
        znodes.commit_layout(
            TOPIC, lambda current: grown(current, PARTITIONS), layout(rng, PARTITIONS, *WORST)
        )
        assert znodes.partition_statuses(TOPIC) == {}
        # A list of strings, each with its length before it.
        answer = 4 + sum(4 + len(name) for name in names)
        figures = {"the names of 9,999 marks": answer, "the largest transaction": session.largest}
        print(f"{figures}; all marks read in {seconds:.1f} s")  # noqa: T201 - to be read with "pytest -s"
        assert all(size < JUTE_MAX_BUFFER // 2 for size in figures.values()), figures


def test_a_creation_with_ten_thousand_assignments_is_recorded(kafka_cluster: LocalCluster) -> None:
    rng = random.Random(7)
    creation = CreationRecord(
        partitions=PARTITIONS,
        replication_factor=5,
        hash="murmur3",
        ordered_delivery=True,
        configs={f"config.{number}": "v" * 100 for number in range(50)},
        assignments=[five_brokers(rng) for _ in range(PARTITIONS)],
    )
    with znodes_on(kafka_cluster) as (session, znodes):
        znodes.record_creation(TOPIC, creation)
        assert znodes.creation(TOPIC) == creation
        size = session.data_length(f"{ROOT}/admin/create_topics/{TOPIC}")
        print(f"as JSON {len(creation.model_dump_json())}, znode {size}")  # noqa: T201 - to be read with "pytest -s"
        assert max(size, session.largest) < JUTE_MAX_BUFFER // 2


@pytest.mark.long
def test_folding_forgets_any_number_of_layouts(kafka_cluster: LocalCluster) -> None:
    """2,500 of them, more than one transaction deletes; and never of a topic that is being changed or was replaced."""
    small = LayoutRecord(undeleted_partition_count=1, starts=[0], leader_epochs=[0], committed_at=0.0)
    record = TopicRecord(
        topic_id="one",
        initial_partition_count=1,
        undeleted_partition_count=1,
        layout_epoch=0,
        hash="murmur3",
        ordered_delivery=True,
    )
    epochs, busy = 2_501, Change("c", "orders", "expand", 1, 2, 1, 1.8e9)
    with znodes_on(kafka_cluster) as (session, znodes):
        znodes.create_topic("orders", record, small)
        path = f"{ROOT}/topics/orders/layouts"
        for first in range(1, epochs, 500):
            transaction = session.transaction()
            for epoch in range(first, min(epochs, first + 500)):
                transaction.create(f"{path}/{epoch}", dump(small))
            session.commit(transaction, path)
        znodes.update_topic("orders", lambda now: updated(now, layout_epoch=epochs - 1))
        before = znodes.topic("orders")
        assert before is not None
        assert len(znodes.layouts("orders", before)) == epochs
        for refused in (before.management + 1, before.management):
            if refused == before.management:
                znodes.update_topic("orders", lambda now: updated(now, change=busy))
            with pytest.raises(ConflictError):
                znodes.fold("orders", refused, 2_400)
        znodes.update_topic("orders", lambda now: updated(now, change=None))
        assert len(session.client.get_children(path)) == epochs
        znodes.fold("orders", before.management, 2_400)
        assert sorted(map(int, session.client.get_children(path))) == list(range(2_400, epochs))
        after = znodes.topic("orders")
        assert after is not None
        assert (after.first_layout_epoch, after.layout_epoch) == (2_400, epochs - 1)
        assert len(Znodes(session).layouts("orders", after)) == len(znodes.layouts("orders", after)) == 101
        assert len(znodes.layouts("orders", after, 2_450)) == 51
        assert len(znodes.layouts("orders", after, 3)) == 101
        for again in (2_400, 7, epochs):
            with pytest.raises(ConflictError):
                znodes.fold("orders", before.management, again)


def test_plain_and_compressed_znodes_are_both_read() -> None:
    record = layout(random.Random(7), 3, 10**8, 9)
    compressed = dump(record)
    assert compressed.startswith(b"\x1f\x8b")
    assert parse(LayoutRecord, compressed, "/x") == record
    assert parse(LayoutRecord, record.model_dump_json().encode(), "/x") == record
    small = LayoutRecord(undeleted_partition_count=1, starts=[0], leader_epochs=[0], committed_at=0.0)
    assert json.loads(dump(small))["starts"] == [0]
