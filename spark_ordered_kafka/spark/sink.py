"""The sink: one transaction per task and topic, exactly once across retries, restarts and partition changes."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.topics import check_cluster
from spark_ordered_kafka.config import Connection, SinkOptions, topic_name
from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.kafka.clients import LogRanges, check_properties
from spark_ordered_kafka.kafka.ids import transactional_id
from spark_ordered_kafka.kafka.producer import ProducerPool
from spark_ordered_kafka.kafka.writer import TaskTransaction, WriterContext

_BATCH_ID = "streaming.sql.batchId"
_QUERY_ID = "sql.streaming.queryId"


@dataclass
class TaskReport(WriterCommitMessage):
    """What a task did: rows given, whether they had been committed before, restarts by partition changes."""

    task: int
    rows: int
    replays: int


class OrderedStreamWriter(DataSourceStreamArrowWriter):
    """Spark's streaming writer; the writer name is the query's id, the sequence the batch id."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        check_target(options.connection, options.topic)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task."""
        task = _task()
        query, batch = task.getLocalProperty(_QUERY_ID), task.getLocalProperty(_BATCH_ID)
        if query is None or batch is None:
            raise ConfigError(
                "streaming sink", None, f"Spark set neither {_QUERY_ID} nor {_BATCH_ID} in the task"
            )
        return write_task(
            self._options, self._options.writer or query, task.partitionId(), int(batch), iterator
        )


class OrderedBatchWriter(DataSourceArrowWriter):
    """Spark's batch writer.

    A fresh writer name per write, because two writes of one batch must not take each other for a replay. With the
    option ``writer`` inside ``foreachBatch`` the name is kept and the batch id is the sequence: exactly once, too.
    """

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._fresh_name = uuid.uuid4().hex
        check_target(options.connection, options.topic)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task."""
        task = _task()
        if self._options.writer is None:
            return write_task(self._options, self._fresh_name, task.partitionId(), 0, iterator)
        batch = task.getLocalProperty(_BATCH_ID)
        if batch is None:
            raise ConfigError(
                "option writer",
                self._options.writer,
                "only a write inside foreachBatch has a batch id; leave it out",
            )
        return write_task(self._options, self._options.writer, task.partitionId(), int(batch), iterator)


@lru_cache(maxsize=64)
def check_target(connection: Connection, topic: str | None) -> None:
    """Ask for the topic when the query is planned, so that a wrong one fails there and not in a task.

    Spark makes the writer anew for each micro-batch, in the same process: one check of a target is enough there.
    """
    check_properties(connection)
    cluster_id = LogRanges(connection).cluster_id()
    with ControllerClient.of(connection) as controller:
        if topic is None:
            controller.topics()
        else:
            check_cluster(connection, controller.topic(topic).cluster_id, cluster_id)


def write_task(
    options: SinkOptions, writer: str, task: int, sequence: int, batches: Iterator[pa.RecordBatch]
) -> TaskReport:
    """Write all rows of a task; a transaction per topic, all committed at its end."""
    context = _context(options.connection)
    transactions: dict[str, TaskTransaction] = {}

    def transaction(topic: str) -> TaskTransaction:
        if topic not in transactions:
            name = transactional_id(topic, writer, task)
            transactions[topic] = TaskTransaction(context, topic, name, sequence, options.replay_buffer_bytes)
        return transactions[topic]

    if options.topic is not None:
        transaction(options.topic)
    failure: BaseException | None = None
    try:
        for batch in batches:
            for topic, rows in by_topic(batch, options.topic):
                if rows.num_rows:
                    transaction(topic).write(rows)
        for pending in transactions.values():
            pending.commit()
    except BaseException as error:  # noqa: BLE001 - raised below: see kafka.writer for why not here
        failure = error
    if failure is not None:
        for pending in transactions.values():
            pending.abort()
        raise failure
    return TaskReport(
        task,
        sum(done.rows for done in transactions.values()),
        sum(done.replays for done in transactions.values()),
    )


def by_topic(batch: pa.RecordBatch, topic: str | None) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows per topic with the columns key, value (binary) and headers if given, in their order.

    The option ``topic`` wins over the column, as in Spark's own sink. Raises ConfigError for a row without a topic.
    """
    names = batch.schema.names
    key = batch.column("key").cast(pa.binary()) if "key" in names else pa.nulls(batch.num_rows, pa.binary())
    columns = {"key": key, "value": batch.column("value").cast(pa.binary())}
    if "headers" in names:
        columns["headers"] = batch.column("headers")
    rows = pa.RecordBatch.from_pydict(columns)
    if topic is not None:
        yield topic, rows
        return
    topics = batch.column("topic")
    if topics.null_count:
        raise ConfigError("column topic", None, "every row must name its topic, or the option topic be set")
    for name in pc.unique(topics).to_pylist():
        yield topic_name("column topic", name), rows.filter(pc.equal(topics, name))


@lru_cache(maxsize=4)
def _context(connection: Connection) -> WriterContext:
    # One per worker process and configuration: connections and producers outlive the task.
    controller = ControllerClient.of(connection)
    return WriterContext(connection, controller.wait_for_layout, ProducerPool())


def _task() -> TaskContext:
    task = TaskContext.get()
    if task is None:
        raise ConfigError("sink", None, "rows are written inside a Spark task")
    return task
