"""Numbered records: writing them with the ordered writer, and collecting what a reader delivers for the checker."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pyarrow as pa
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, SparkSession

from spark_ordered_kafka.checker import Report, check
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.layout_answers import LayoutHistoryView
from spark_ordered_kafka.client.schemas import CreateTopicRequest, PartitionCountsRequest, TopicPartitionCount
from spark_ordered_kafka.client.topic_layouts import layout_history
from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.kafka.buffer import Memory
from spark_ordered_kafka.kafka.clients import STALE_METADATA
from spark_ordered_kafka.kafka.pool import ProducerPool
from spark_ordered_kafka.kafka.task import TaskTransaction, WriterContext
from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.ordering import bucket, key_hash
from tests.servers import TIMEOUT, await_decided

FORMAT = "ordered-kafka"
CHANGE_TIMEOUT = 60.0


def options(cluster: LocalCluster, **more: Any) -> dict[str, str]:
    """Options of a source or sink on the cluster; underscores of ``more`` are not touched."""
    servers = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "controller.url": cluster.controller_url}
    return servers | {name: str(value) for name, value in more.items()}


def conf(cluster: LocalCluster, **more: Any) -> dict[str, Any]:
    """Configuration of a plain client of the cluster; in the names of ``more`` an underscore stands for a dot."""
    servers = {"bootstrap.servers": cluster.bootstrap_servers, "controller.url": cluster.controller_url}
    return servers | {name.replace("_", "."): value for name, value in more.items()}


def create(cluster: LocalCluster, topic: str, partitions: int, **configs: str) -> str:
    """Create a managed topic and return its name."""
    with ControllerClient(cluster.controller_url) as controller:
        controller.create_topic(
            CreateTopicRequest(topic=topic, partitions=partitions, replication_factor=1, configs=configs)
        )
    return topic


def delete_records(cluster: LocalCluster, topic: str, before: Mapping[int, int]) -> None:
    """Delete the records below an offset, by partition, as another tool does."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    wanted = [TopicPartition(topic, partition, offset) for partition, offset in before.items()]
    for future in admin.delete_records(wanted).values():
        future.result(TIMEOUT)


def change(cluster: LocalCluster, topic: str, count: int) -> None:
    """Change the partition count and wait for the end of the change."""
    with ControllerClient(cluster.controller_url) as controller:
        request = PartitionCountsRequest(topics=[TopicPartitionCount(topic=topic, partition_count=count)])
        (result,) = controller.alter_partition_counts(request, wait=CHANGE_TIMEOUT).topics
        assert result.error == "NONE", result
        ended = controller.change(topic).last_change
        assert ended is not None
        assert (ended.outcome, ended.target) == ("done", count), ended


def writer_context(cluster: LocalCluster, timeout: float = 30.0) -> WriterContext:
    """What a worker process of the sink has. ``timeout``: seconds for each call to a server, and for a layout."""
    connection = Connection({"bootstrap.servers": cluster.bootstrap_servers}, cluster.controller_url)
    return WriterContext(
        connection,
        ControllerClient(cluster.controller_url).wait_for_layout,
        ProducerPool(),
        timeout=timeout,
    )


def numbered(keys: int, first: int, count: int) -> pa.RecordBatch:
    """``count`` records of each key, numbered from ``first``, the keys taking turns."""
    rows = [(f"k{key}", number) for number in range(first, first + count) for key in range(keys)]
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array([key.encode() for key, _ in rows], pa.binary()),
            "value": pa.array([f"{key}:{number}".encode() for key, number in rows], pa.binary()),
        }
    )


# Seconds between transactions: with none, a test reads for minutes what was written in seconds.
_PAUSE = 0.04


@dataclass
class NumberedWriter:
    """Writes numbered records in transactions of ``step`` records a key, each by the sink's own task transaction."""

    cluster: LocalCluster
    topic: str
    keys: int = 20
    step: int = 5
    name: str = field(default_factory=lambda: uuid.uuid4().hex)
    first: int = 0
    written: int = 0
    replays: int = 0
    timeout: float = 30.0

    def __post_init__(self) -> None:
        self._context = writer_context(self.cluster, self.timeout)
        self._number = self.first

    def write(self, transactions: int = 1) -> None:
        """Write some transactions."""
        for _ in range(transactions):
            batch = numbered(self.keys, self._number, self.step)
            task = self.task()
            task.write(batch)
            # False is fine: a commit in doubt that the ledger has then confirmed.
            task.commit()
            self.replays += task.replays
            self._number += self.step
            self.written += batch.num_rows

    def task(self) -> TaskTransaction:
        """The next transaction, with nothing in it."""
        name = f"ordered:{self.topic}:{self.name}:0"
        return TaskTransaction(self._context, self.topic, name, self._number, Memory(10_000))

    @contextmanager
    def under_load(self) -> Iterator[NumberedWriter]:
        """Write in a thread until the block ends, some twenty transactions a second; its error is raised at the end."""
        stop = threading.Event()
        failures: list[Exception] = []

        def run() -> None:
            try:
                while not stop.wait(_PAUSE):
                    self.write()
            except Exception as error:  # noqa: BLE001 - raised in the test's own thread below
                failures.append(error)

        thread = threading.Thread(target=run, name=f"load on {self.topic}")
        thread.start()
        try:
            yield self
        finally:
            stop.set()
            thread.join(120)
        assert not thread.is_alive(), "the load did not stop within 120 s"
        if failures:
            raise failures[0]


def written_through(cluster: LocalCluster, topic: str, *counts: int, keys: int = 20) -> NumberedWriter:
    """Creates a topic and takes it through these partition counts, with a transaction written under each; its writer."""
    create(cluster, topic, counts[0])
    writer = NumberedWriter(cluster, topic, keys=keys)
    writer.write()
    for count in counts[1:]:
        change(cluster, topic, count)
        writer.write()
    return writer


class Collector:
    """Collects numbered records in the order of delivery."""

    def __init__(self) -> None:
        self.keys: list[Any] = []
        self.numbers: list[Any] = []
        self.batches = 0

    def add(self, rows: DataFrame, _batch_id: int = 0) -> None:
        """Take a batch; rows of a key are in one Spark partition, and ``toArrow`` keeps the order in it."""
        table = rows.selectExpr(
            "split_part(CAST(value AS STRING), ':', 1) AS key",
            "CAST(split_part(CAST(value AS STRING), ':', 2) AS BIGINT) AS number",
        ).toArrow()
        self.batches += 1
        self.numbers.append(table["number"].to_numpy())
        # Last: who waits for so many keys in another thread looks at their numbers then.
        self.keys.append(table["key"].to_numpy())

    def report(self, expected: int | None = None) -> Report:
        """The checker's verdict."""
        if not self.keys:
            return check(np.array([]), np.array([]), expected)
        return check(np.concatenate(self.keys), np.concatenate(self.numbers), expected)


def delivered(
    spark: SparkSession, source: Mapping[str, str], checkpoint: str, collector: Collector | None = None
) -> Collector:
    """All that a stream delivers until it has caught up (``Trigger.AvailableNow``)."""
    found = Collector() if collector is None else collector
    rows = spark.readStream.format(FORMAT).options(**source).load()
    query = (
        rows.writeStream.foreachBatch(found.add)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    try:
        assert query.awaitTermination(180), "the stream did not catch up within 180 s"
    finally:
        query.stop()
    return found


def raw_records(
    cluster: LocalCluster, topic: str, partitions: int, *, decided: bool = True
) -> Iterator[Message]:
    """Every committed record that the logs of the first ``partitions`` partitions hold, read by a plain consumer.

    ``decided`` false: those before the first open transaction.
    """
    if decided:
        await_decided(cluster.bootstrap_servers, topic)
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "judge",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
        }
    )
    unfinished = set(range(partitions))
    try:
        # Without it the consumer asks for the first offset before it knows a leader, and again only after 0.5 s.
        consumer.list_topics(topic, 30)
        consumer.assign(
            [TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(partitions)]
        )
        while unfinished:
            message = consumer.poll(30)
            assert message is not None, f"no end of {topic}, partitions {unfinished}, within 30 s"
            error = message.error()
            if error is None:
                yield message
            elif error.code() == KafkaError._PARTITION_EOF:
                unfinished.discard(cast(int, message.partition()))
            else:
                assert error.retriable() or error.code() in STALE_METADATA, error
    finally:
        consumer.close()


def records_in_order(cluster: LocalCluster, topic: str) -> list[Message]:
    """All committed records of a topic, those of a key in the order of writing."""
    history = layout_history(_layout(cluster, topic))

    def place(message: Message) -> tuple[int, int]:
        offset = message.offset() or 0
        return history.epoch_of(message.partition() or 0, offset), offset

    return sorted(raw_records(cluster, topic, history.partition_count), key=place)


def judged(messages: Iterable[Message], written: int) -> Report:
    """Whether numbered records are there once each, in the order of their keys."""
    return judged_values((message.value() or b"" for message in messages), written)


def judged_values(values: Iterable[bytes], written: int | None = None) -> Report:
    """The shared checker's verdict on the values of numbered records, in the order of delivery."""
    rows = [value.decode().split(":") for value in values]
    return check(np.array([key for key, _ in rows]), np.array([int(number) for _, number in rows]), written)


def misrouted(cluster: LocalCluster, topic: str) -> list[str]:
    """Records that lie in another partition than their key's under their segment's layout; reads the raw topic.

    Records without a key belong nowhere and are left out.
    """
    answer = _layout(cluster, topic)
    history = layout_history(answer)
    wrong = []
    for message in raw_records(cluster, topic, history.partition_count):
        key, partition, offset = message.key(), message.partition(), message.offset()
        if key is None:
            continue
        assert partition is not None
        assert offset is not None
        epoch = history.epoch_of(partition, offset)
        right = bucket(key_hash(answer.hash, key), history.initial_count, history.counts[epoch])
        if right != partition:
            wrong.append(f"{topic}-{partition}@{offset} epoch {epoch}: key {key!r} belongs to {right}")
    return wrong


def _layout(cluster: LocalCluster, topic: str) -> LayoutHistoryView:
    with ControllerClient(cluster.controller_url) as controller:
        return controller.layout(topic)
