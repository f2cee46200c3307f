"""The sink: one transaction per task and topic, exactly once across retries, restarts and partition changes."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from spark_ordered_kafka.client.layouts import Layouts
from spark_ordered_kafka.client.writer_names import LeasedName
from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.kafka.buffer import Memory
from spark_ordered_kafka.kafka.ids import transactional_id
from spark_ordered_kafka.kafka.ledger import Origin
from spark_ordered_kafka.kafka.pool import ProducerPool
from spark_ordered_kafka.kafka.replay import Claim
from spark_ordered_kafka.kafka.task import TaskTransaction, WriterContext
from spark_ordered_kafka.parsing import topic_name
from spark_ordered_kafka.spark.options import SinkOptions
from spark_ordered_kafka.spark.replays import TaskLook, TaskReport, check_attempt
from spark_ordered_kafka.spark.versions import SameVersion

# As a multiple of the columns that are written: beyond it they are copied, so that the others can go.
_MOST_HELD = 1.5
_BATCH_ID = "streaming.sql.batchId"
_QUERY_ID = "sql.streaming.queryId"
# Spark runs the jobs of a query in a group named like the query's run, and with a tag of the session that each run has of its
# own. A job may set another group; the tag is of the micro-batch, and what a job adds stands beside it (D-391).
_RUN_ID = "spark.jobGroup.id"
_TAGS = "spark.job.tags"
_OF_SESSION = re.compile(r"spark-session-([0-9a-f-]{36})-execution-root-id-([0-9]+)")
_ROOT_ID = "spark.sql.execution.root.id"


class OrderedStreamWriter(SameVersion, DataSourceStreamArrowWriter):
    """Spark's streaming writer; the writer name is the query's id, the sequence the batch id."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._execution = uuid.uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task."""
        task = _task()
        query, batch = task.getLocalProperty(_QUERY_ID), task.getLocalProperty(_BATCH_ID)
        if query is None or batch is None:
            raise ConfigError(
                "streaming sink", None, f"Spark set neither {_QUERY_ID} nor {_BATCH_ID} in the task"
            )
        claim = _claim(self._options, self._options.writer or query, int(batch), self._execution)
        return write_task(self._options, claim, task.partitionId(), iterator, is_only_write=True)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """All tasks have committed: refuse the batch if an earlier attempt had others."""
        if None in messages:
            # Spark 4.3 starts such a query, runs no task of a sink that is written in Python, and asks to commit it.
            raise ConfigError(
                "trigger", "continuous", "nothing is written; use another, such as processingTime='1 second'"
            )
        check_attempt(self._options.connection, cast(Sequence[TaskReport], messages))


class OrderedBatchWriter(SameVersion, DataSourceArrowWriter):
    """Spark's batch writer.

    A ledger per write, because two writes of one batch must not take each other for a replay; its transactional ids have
    the name of an earlier write that has ended (D-075). With the option ``writer`` inside ``foreachBatch`` the name is
    kept and the batch id is the sequence: exactly once, too. ``name`` is None then.
    """

    def __init__(self, options: SinkOptions, name: LeasedName | None) -> None:
        self._options = options
        self._execution = uuid.uuid4().hex
        self._name = name

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task."""
        task = _task()
        if self._name is not None:
            claim = Claim(self._name.ledger, 0, replayable=False)
            return write_task(self._options, claim, task.partitionId(), iterator, ids=self._name.writer)
        batch = task.getLocalProperty(_BATCH_ID)
        if self._options.writer is None or batch is None:
            raise ConfigError(
                "option writer",
                self._options.writer,
                "only a write inside foreachBatch has a batch id, and another thread only by"
                " pyspark.inheritable_thread_target(batch.sparkSession); through Spark Connect none has: write by"
                ' writeStream.format("ordered-kafka") there for exactly once; elsewhere leave it out',
            )
        claim = _claim(self._options, self._options.writer, int(batch), self._execution)
        return write_task(self._options, claim, task.partitionId(), iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """All tasks have committed: refuse the write if an earlier attempt had others, and let the next have the name.

        After a failure the name is not used again, since some tasks may still be under way (D-075).
        """
        check_attempt(self._options.connection, cast(Sequence[TaskReport], messages))
        if self._name is not None:
            # Imported here: tasks have this class, too, and do without a whole client of the controllers.
            from spark_ordered_kafka.spark.targets import give_back

            give_back(self._options.connection, self._name)


def write_task(
    options: SinkOptions,
    claim: Claim,
    task: int,
    batches: Iterator[pa.RecordBatch],
    *,
    ids: str | None = None,
    is_only_write: bool = False,
) -> TaskReport:
    """Write all rows of a task; a transaction per topic, all committed at its end.

    ``ids``: the name in the transactional ids of a writer whose producers are not kept; by default the claim's (D-076).
    ``is_only_write``: of the query, so that what it has written under another name was the same batch.
    """
    worker = _worker(options.connection)
    context = replace(
        worker.context, controller_timeout=options.controller_timeout, spill_directory=_local_directory()
    )
    if ids is not None:
        context = replace(context, pool=ProducerPool(capacity=0))
    memory = Memory(options.replay_buffer_bytes)
    transactions: dict[str, TaskTransaction] = {}

    def transaction(topic: str) -> TaskTransaction:
        if topic not in transactions:
            transactions[topic] = TaskTransaction(
                context,
                topic,
                transactional_id(topic, ids or claim.writer, task),
                claim.sequence,
                memory,
                ledger=transactional_id(topic, claim.writer, task),
                origin=claim.origin,
                accepted=claim.accepted,
                replayable=claim.replayable,
            )
        return transactions[topic]

    if options.topic is not None:
        transaction(options.topic)
    failure: BaseException | None = None
    try:
        for batch in batches:
            for topic, rows in by_topic(batch, options.topic, timestamps=options.keep_timestamps):
                if rows.num_rows:
                    transaction(topic).write(rows)
        # All that can be checked before the first commit, which could not be taken back.
        for pending in transactions.values():
            pending.check()
        settled = any(pending.settled for pending in transactions.values())
        if claim.replayable and claim.origin.by_column and not settled:
            worker.look.check(claim, task, transactions)
        unwritten = [
            topic for topic, pending in transactions.items() if pending.rows and not pending.replayed
        ]
        if claim.replayable and not settled:
            worker.look.check_others(claim, task, unwritten, is_only_write=is_only_write)
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
        claim,
        frozenset(transactions),
        any(done.settled for done in transactions.values()),
    )


def by_topic(
    batch: pa.RecordBatch, topic: str | None, *, timestamps: bool = False
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows per topic with the columns key, value (binary) and headers if given, in their order.

    With ``timestamps`` there is the column timestamp, too, in milliseconds since 1970-01-01 UTC.

    The option ``topic`` wins over the column, as in Spark's own sink. Raises ConfigError for a row without a topic, and
    for a header without a key.
    """
    names = batch.schema.names
    columns = {
        "key": _binary(batch.column("key")) if "key" in names else pa.nulls(batch.num_rows, pa.binary()),
        "value": _binary(batch.column("value")),
    }
    if "headers" in names:
        columns["headers"] = batch.column("headers")
        entries = columns["headers"].flatten()
        if entries.null_count or entries.field("key").null_count:
            raise ConfigError(
                "column headers", None, "every header must have a key; only its value may be null"
            )
    if timestamps:
        milliseconds = pc.cast(batch.column("timestamp"), pa.timestamp("ms", "UTC"), safe=False)
        columns["timestamp"] = milliseconds.cast(pa.int64())
    rows = pa.RecordBatch.from_pydict(columns)
    if topic is not None:
        if batch.nbytes > _MOST_HELD * rows.nbytes:
            # All columns of a batch from Spark are in one buffer, which a reference to any of them keeps.
            rows = pa.ipc.read_record_batch(rows.serialize(), rows.schema)
        yield topic, rows
        return
    topics = batch.column("topic")
    if topics.null_count:
        raise ConfigError("column topic", None, "every row must name its topic, or the option topic be set")
    for name in pc.unique(topics).to_pylist():
        yield topic_name("column topic", name), rows.filter(pc.equal(topics, name))


def _binary(column: pa.Array) -> pa.Array:
    """Text as its bytes in UTF-8; nothing is copied."""
    if pa.types.is_string(column.type):
        return column.cast(pa.binary())
    return column.cast(pa.large_binary()) if pa.types.is_large_string(column.type) else column


@dataclass(frozen=True)
class _Worker:
    """What outlives a task in a worker process: connections, producers, and which ledgers were looked up."""

    context: WriterContext
    look: TaskLook


@lru_cache(maxsize=4)
def _worker(connection: Connection) -> _Worker:
    layouts = Layouts(connection)
    return _Worker(WriterContext(connection, layouts.wait_for_layout, ProducerPool()), TaskLook(connection))


def _local_directory() -> str | None:
    """One of the executor's local directories, which Spark gives to its Python workers; another one for each worker.

    Those of ``SPARK_LOCAL_DIRS``, ``spark.local.dir`` or the cluster manager. None: none is there.
    """
    directories = [path for path in os.environ.get("SPARK_LOCAL_DIRS", "").split(",") if os.path.isdir(path)]
    return directories[os.getpid() % len(directories)] if directories else None


def _claim(options: SinkOptions, writer: str, batch: int, execution: str) -> Claim:
    query = _identity(_task().getLocalProperty(_QUERY_ID))
    origin = Origin(query, _run(), execution, by_column=options.topic is None)
    return Claim(writer, batch, origin, accepted=options.accepted_mismatch == (writer, batch))


def _run() -> str:
    """What the tasks of a run of the query, and no others, have in common; empty where it is not known."""
    tags, root = (_task().getLocalProperty(name) or "" for name in (_TAGS, _ROOT_ID))
    for session, execution in _OF_SESSION.findall(tags):
        if execution == root:
            return _identity(session)
    return _identity(_task().getLocalProperty(_RUN_ID))


def _identity(name: str | None) -> str:
    """A plain UUID; empty where it is none, as where a job sets a group of its own."""
    try:
        return uuid.UUID(name or "").hex
    except ValueError:
        return ""


def _task() -> TaskContext:
    task = TaskContext.get()
    if task is None:
        raise ConfigError("sink", None, "rows are written inside a Spark task")
    return task
