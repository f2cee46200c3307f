"""A compacted topic, what its keys must have in the end, and its log: cleaned, and read as it is."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ResourceType
from pyspark.sql import SparkSession

from spark_ordered_kafka import ControllerClient
from spark_ordered_kafka.client.schemas import LayoutHistoryView
from spark_ordered_kafka.client.topic_layouts import layout_history
from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.buffer import Memory
from spark_ordered_kafka.kafka.pool import ProducerPool
from spark_ordered_kafka.kafka.producer import TransactionalProducer
from spark_ordered_kafka.kafka.task import TaskTransaction, WriterContext
from spark_ordered_kafka.kafka.tombstones import Tombstones
from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.ordering import bucket, key_hash
from tests.integration.crash_control import CrashingController
from tests.servers import TIMEOUT, alter_configs
from tests.streams import FORMAT, change, create, options, writer_context

CLEANED_WITHIN = 240.0
NOT_YET = {"min.compaction.lag.ms": "3600000"}
COMPACT = {
    "cleanup.policy": "compact",
    "segment.ms": "50",
    "min.cleanable.dirty.ratio": "0.001",
    "delete.retention.ms": "100",
}

State = dict[bytes, bytes]


class Cleaning(LocalCluster):
    """A cluster whose log cleaner looks for work all the time, instead of every 15 s.

    Its controller soon fences the writers that these tests leave in the middle of a transaction.
    """

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, controllers=0, broker_config={"log.cleaner.backoff.ms": "100"})
        self.controller: CrashingController | None = None

    @property
    def controller_url(self) -> str:
        assert self.controller is not None
        return self.controller.url


class WatchedPool(ProducerPool):
    """Notes by which producer instance the last transaction was committed."""

    last: TransactionalProducer

    def give_back(self, connection: Connection, producer: TransactionalProducer) -> None:
        self.last = producer
        super().give_back(connection, producer)


@dataclass
class Instance:
    """What a producer instance has committed under the layout of ``epoch``."""

    epoch: int
    keys: set[bytes] = field(default_factory=set)
    transactions: int = 0


@dataclass
class Table:
    """A compacted topic and what it should hold: rows are written by writers that keep their producers."""

    cluster: LocalCluster
    topic: str
    state: State = field(default_factory=dict)
    deleted: set[bytes] = field(default_factory=set)
    written: int = 0
    replays: int = 0
    counts: list[int] = field(default_factory=list)
    instances: dict[Tombstones, Instance] = field(default_factory=dict)
    _open: dict[TaskTransaction, set[bytes]] = field(default_factory=dict)
    _pools: dict[str, WatchedPool] = field(default_factory=dict)
    _writers: dict[str, WriterContext] = field(default_factory=dict)
    _sequences: Counter[str] = field(default_factory=Counter)

    def begin(self, writer: str = "w") -> TaskTransaction:
        if writer not in self._writers:
            self._pools[writer] = WatchedPool()
            self._writers[writer] = replace(writer_context(self.cluster), pool=self._pools[writer])
        name = f"ordered:{self.topic}:{writer}:0"
        return TaskTransaction(
            self._writers[writer], self.topic, name, self._sequences[writer], Memory(1_000_000)
        )

    def put(self, keys: list[bytes], writer: str = "w", **how: bool) -> None:
        """Write a new value of each key."""
        task = self.begin(writer)
        self.add(task, keys, **how)
        self.commit(task, writer)

    def add(
        self, task: TaskTransaction, keys: list[bytes], *, delete: bool = False, headers: bool = False
    ) -> None:
        rows: list[tuple[bytes, bytes | None]] = []
        for key in keys:
            self.written += 1
            rows.append((key, None if delete else b"%s=%d" % (key, self.written)))
        task.write(_batch(rows, headers))
        self._open.setdefault(task, set()).update(keys)
        for key, value in rows:
            if value is None:
                self.state.pop(key, None)
                self.deleted.add(key)
            else:
                self.state[key] = value

    def commit(self, task: TaskTransaction, writer: str = "w") -> None:
        assert task.commit()
        self.replays += task.replays
        producer = self._pools[writer].last
        keys = self._open.pop(task)
        if producer.tombstones is not None and producer.layout is not None:
            instance = self.instances.setdefault(producer.tombstones, Instance(producer.layout.layout_epoch))
            instance.keys |= keys
            instance.transactions += 1
        self._sequences[writer] += 1

    def restart(self, writer: str) -> None:
        """Another process takes the writer over."""
        self._writers.pop(writer, None)

    def resize(self, count: int) -> None:
        change(self.cluster, self.topic, count)
        self.counts.append(count)

    def told(self) -> LayoutHistoryView:
        """The layouts as the controller tells them."""
        with ControllerClient(self.cluster.controller_url) as controller:
            return controller.layout(self.topic)

    def owed(self) -> Counter[tuple[int, int, bytes]]:
        """The tombstones that must be there, by brute force: each instance's own, once per key and partition.

        A partition to which nothing at all was sent before an epoch's end owes none for it.
        """
        ends = [layout.starts for layout in self.told().layouts[1:]]
        found: Counter[tuple[int, int, bytes]] = Counter()
        for instance in self.instances.values():
            for key in instance.keys:
                places = [bucket(key_hash("murmur3", key), self.counts[0], count) for count in self.counts]
                earlier = range(instance.epoch)
                held = {places[epoch] for epoch in earlier if ends[epoch][places[epoch]] > 0}
                found.update(
                    (self._shown(instance.epoch, was), was, key) for was in held - {places[instance.epoch]}
                )
        return found

    def _shown(self, epoch: int, partition: int) -> int:
        """The epoch under which a tombstone of ``epoch`` shows: a layout that leaves a partition out, as its predecessor
        did, keeps its start."""
        while epoch + 1 < len(self.counts) and partition >= max(self.counts[epoch : epoch + 2]):
            epoch += 1
        return epoch


def _batch(rows: list[tuple[bytes, bytes | None]], headers: bool) -> pa.RecordBatch:
    columns = {
        "key": pa.array([key for key, _ in rows], pa.binary()),
        "value": pa.array([value for _, value in rows], pa.binary()),
    }
    if headers:
        kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
        columns["headers"] = pa.array([[{"key": "h", "value": b"x"}]] * len(rows), kind)
    return pa.RecordBatch.from_pydict(columns)


def table(cluster: LocalCluster, topic: str, partitions: int = 2) -> Table:
    return Table(cluster, create(cluster, topic, partitions, **COMPACT, **NOT_YET), counts=[partitions])


def log_ends(cluster: LocalCluster, topic: str) -> dict[int, int]:
    """The high watermark of each partition."""
    admin = KafkaAdmin(cluster.bootstrap_servers, timeout=TIMEOUT)
    try:
        partitions = [one.partition for one in admin.describe_topics([topic])[topic].partitions]
        return {p: end.offset for p, end in admin.log_ends(topic, partitions).items()}
    finally:
        admin.close()


def raw(cluster: LocalCluster, topic: str) -> dict[int, list[Message]]:
    """All that each partition holds, without a thought about layouts.

    Kafka answers a commit before each partition has its marker: until then what was committed is not read.
    """
    ends = log_ends(cluster, topic)
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "raw",
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 10,
        }
    )
    try:
        found: dict[int, list[Message]] = {p: [] for p in ends}
        consumer.assign([TopicPartition(topic, partition, 0) for partition in found])
        unread = set(found)
        while unread:
            message = consumer.poll(TIMEOUT)
            assert message is not None, f"no end of {topic}, partitions {unread} within {TIMEOUT:g} s"
            partition, error = cast(int, message.partition()), message.error()
            if error is None:
                found[partition].append(message)
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                if cast(int, message.offset()) >= ends[partition]:
                    unread.discard(partition)
    finally:
        consumer.close()
    return found


def live_by_partition(records: Mapping[int, list[Message]]) -> dict[bytes, list[tuple[int, bytes]]]:
    """Per key the values left when every partition is compacted by itself."""
    left: dict[bytes, list[tuple[int, bytes]]] = {}
    for partition, messages in records.items():
        last = {message.key(): message.value() for message in messages}
        for key, value in last.items():
            if value is not None:
                left.setdefault(cast(bytes, key), []).append((partition, value))
    return left


def tombstones_by_epoch(table: Table) -> Counter[tuple[int, int, bytes]]:
    """Tombstones in partitions that their key does not belong to: (epoch, partition, key) -> how many."""
    told = table.told()
    history = layout_history(told)
    found: Counter[tuple[int, int, bytes]] = Counter()
    for partition, messages in raw(table.cluster, table.topic).items():
        for message in messages:
            key = cast(bytes, message.key())
            epoch = history.epoch_of(partition, cast(int, message.offset()))
            if bucket(key_hash(told.hash, key), history.initial_count, history.counts[epoch]) != partition:
                assert message.value() is None, (
                    f"a value of {key!r} is in partition {partition} in epoch {epoch}"
                )
                found[epoch, partition, key] += 1
    return found


def read(spark: SparkSession, table: Table) -> State:
    """The table as a batch reader builds it: rows applied in the order of delivery, null deletes."""
    rows = spark.read.format(FORMAT).options(**options(table.cluster, subscribe=table.topic)).load()
    state: State = {}
    # The rows of a key are in one Spark partition, and toArrow keeps the order in it.
    for row in rows.select("key", "value").toArrow().to_pylist():
        if row["value"] is None:
            state.pop(row["key"], None)
        else:
            state[row["key"]] = row["value"]
    return state


def roll(table: Table, partitions: int) -> None:
    """Let every partition begin a new segment, which is all the cleaner leaves alone: by an aborted transaction."""
    producer = Producer(
        {"bootstrap.servers": table.cluster.bootstrap_servers, "transactional.id": f"roll-{uuid.uuid4().hex}"}
    )
    producer.init_transactions(TIMEOUT)
    producer.begin_transaction()
    for partition in range(partitions):
        producer.produce(table.topic, key=b"roll", value=b"aborted", partition=partition)
    producer.flush(TIMEOUT)
    producer.abort_transaction(TIMEOUT)


def compact(table: Table) -> dict[int, list[Message]]:
    """Let the cleaner begin, and wait until nothing but the last value of each key is left anywhere."""
    admin = AdminClient({"bootstrap.servers": table.cluster.bootstrap_servers})
    alter_configs(admin, ResourceType.TOPIC, table.topic, dict.fromkeys(NOT_YET, "0"))
    deadline = time.monotonic() + CLEANED_WITHIN
    while True:
        records = raw(table.cluster, table.topic)
        old = [
            f"{table.topic}-{partition}@{message.offset()}: {message.value()!r}"
            for partition, messages in records.items()
            for message in messages
            if message.value() not in (None, table.state.get(cast(bytes, message.key())))
        ]
        if not old:
            return records
        assert time.monotonic() < deadline, f"not cleaned within {CLEANED_WITHIN:g} s: {old[:10]}"
        roll(table, len(records))


def check_all(table: Table, spark: SparkSession) -> None:
    """The table is what was written, in each partition by itself and to a reader, before and after compaction."""
    expected = {key: [value] for key, value in table.state.items()}
    before = live_by_partition(raw(table.cluster, table.topic))
    assert {key: [value for _, value in values] for key, values in before.items()} == expected
    assert read(spark, table) == table.state
    records = compact(table)
    left = sorted(cast(bytes, m.value()) for ms in records.values() for m in ms if m.value() is not None)
    assert left == sorted(table.state.values()), "each last value is there once"
    assert live_by_partition(records) == before
    assert read(spark, table) == table.state


def names(first: int, end: int) -> list[bytes]:
    return [b"k%d" % number for number in range(first, end)]
