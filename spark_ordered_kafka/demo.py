"""The demo: the main job on embedded real servers, while both topics grow and shrink under it.

A stream writes records to an input topic; a second one copies them, re-keyed, to an output topic; the controller
changes the partition counts of both meanwhile. At the end the whole output is checked.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import javaproperties
import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from spark_ordered_kafka.checker import Report, check
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.schemas import (
    CreateTopicRequest,
    FinishedChangeView,
    PartitionCountsRequest,
    TopicPartitionCount,
)
from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError, refusal
from spark_ordered_kafka.local.java import file_names
from spark_ordered_kafka.spark.datasource import FORMAT, register

INPUT, OUTPUT = "demo-input", "demo-output"
_POLL_INTERVAL = 0.2
_LOG4J = """rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {path}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d %p %c: %m%n%ex
"""


@dataclass(frozen=True)
class DemoPlan:
    """How much, and which changes: (fraction of the records written, topic, new partition count)."""

    records: int = 500_000
    keys: int = 10_000
    output_keys: int = 500
    rows_per_batch: int = 20_000
    input_count: int = 2
    output_count: int = 3
    replication_factor: int = 1
    changes: tuple[tuple[float, str, int], ...] = (
        (0.12, INPUT, 4),
        (0.24, OUTPUT, 5),
        (0.36, INPUT, 8),
        (0.54, INPUT, 3),
        (0.66, OUTPUT, 4),
        (0.78, INPUT, 6),
    )


@dataclass
class Progress:
    """Progress of the demo; the display gets this object after each change."""

    written: int = 0
    copied: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    change: str = ""


@dataclass(frozen=True)
class DemoReport:
    """The result. ``delivered``: order as a batch read delivers it; ``recovered``: by (layout_epoch, offset)."""

    written: int
    changes: tuple[tuple[str, FinishedChangeView], ...]
    delivered: Report
    recovered: Report

    @property
    def violations(self) -> int:
        """All violations found; 0 means exact."""
        return self.delivered.violations + self.recovered.violations


@contextmanager
def spark_session(
    directory: Path, options: Mapping[str, str], conf: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """A local Spark session that logs to ``directory``/spark.log.

    ``options`` are the format's defaults in it, ``conf`` is further configuration of Spark.
    """
    directory.mkdir(parents=True, exist_ok=True)
    log4j = directory.absolute() / "spark-log4j2.properties"
    path = javaproperties.escape(str(directory / "spark.log"))
    log4j.write_text(_LOG4J.format(path=path), encoding="ascii")
    # Python workers must run with this interpreter, also outside an activated environment.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.update(file_names())
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("ordered-kafka-demo")
        # As a URI: options with blanks would be several.
        .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={log4j.as_uri()}")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.adaptive.streaming.stateless.enabled", "false")
    )
    for name, value in options.items():
        builder = builder.config(f"spark.ordered-kafka.{name}", value)
    for name, value in (conf or {}).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        register(spark)
        yield spark
    finally:
        spark.stop()


class Demo:
    """One run against running servers, in an empty ``directory`` for checkpoints."""

    def __init__(
        self,
        spark: SparkSession,
        controller: ControllerClient,
        directory: Path,
        plan: DemoPlan,
        on_progress: Callable[[Progress], None],
    ) -> None:
        self._spark = spark
        self._controller = controller
        self._directory = directory
        self._plan = plan
        self._on_progress = on_progress
        self._progress = Progress()
        self._finished: list[tuple[str, FinishedChangeView]] = []
        self._following: tuple[str, str | None] | None = None

    def run(self) -> DemoReport:
        """Write, copy and change at the same time, then check. Raises the error of a query that fails."""
        for topic, count in ((INPUT, self._plan.input_count), (OUTPUT, self._plan.output_count)):
            self._controller.create_topic(
                CreateTopicRequest(
                    topic=topic, partitions=count, replication_factor=self._plan.replication_factor
                )
            )
            self._progress.counts[topic] = count
        queries = [self._write(), self._copy()]
        try:
            self._drive(*queries)
        finally:
            for query in queries:
                query.stop()
        return self._check()

    # -- the two streams ----------------------------------------------------------------------------------------

    def _write(self) -> StreamingQuery:
        plan = self._plan
        rows = (
            self._spark.readStream.format("rate-micro-batch")
            .option("rowsPerBatch", plan.rows_per_batch)
            .option("numPartitions", 1)
            .load()
            .where(f"value < {plan.records}")
            .selectExpr(f"concat('user-', value % {plan.keys}) AS key", f"value div {plan.keys} AS number")
            .selectExpr("key", "concat(key, ':', number) AS value")
            # One task would do; two show that order needs only all rows of a key in one task.
            .repartition(2, "key")
        )
        return self._start(rows, INPUT, "write", "1 second")

    def _copy(self) -> StreamingQuery:
        rows = (
            self._spark.readStream.format(FORMAT)
            .option("subscribe", INPUT)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", 2 * self._plan.rows_per_batch)
            .load()
            .selectExpr(f"concat('region-', crc32(key) % {self._plan.output_keys}) AS key", "value")
            .repartition(2, "key")
        )
        return self._start(rows, OUTPUT, "copy", "500 milliseconds")

    def _start(self, rows: DataFrame, topic: str, name: str, interval: str) -> StreamingQuery:
        return (
            rows.writeStream.format(FORMAT)
            .queryName(name)
            .option("topic", topic)
            .option("checkpointLocation", str(self._directory / f"checkpoint-{name}"))
            .trigger(processingTime=interval)
            .start()
        )

    # -- driving ------------------------------------------------------------------------------------------------

    def _drive(self, write: StreamingQuery, copy: StreamingQuery) -> None:
        plan, changes = self._plan, list(self._plan.changes)
        written, copied = _Counter(write), _Counter(copy)
        while True:
            # Both wait for a change of state and raise the error of a query that has failed.
            write.awaitTermination(_POLL_INTERVAL)  # type: ignore[arg-type] # it takes fractions of seconds
            copy.awaitTermination(_POLL_INTERVAL)  # type: ignore[arg-type] # it takes fractions of seconds
            rows, batches = written.totals()
            self._show(written=min(rows, plan.records), copied=copied.totals()[0])
            idle = self._follow_changes()
            if changes and idle and self._progress.written >= changes[0][0] * plan.records:
                self._request(changes.pop(0))
            # One batch behind the last record: nothing is in flight when the query is stopped.
            done = batches * plan.rows_per_batch > plan.records
            if done and not changes and idle and self._progress.copied >= plan.records:
                return

    def _request(self, change: tuple[float, str, int]) -> None:
        _, topic, count = change
        request = PartitionCountsRequest(topics=[TopicPartitionCount(topic=topic, partition_count=count)])
        result = self._controller.alter_partition_counts(request).topics[0]
        if result.error_code != ErrorCode.NONE:
            raise refusal(result.error_code, result.error, result.error_message)
        self._following = (topic, result.change_id)

    def _follow_changes(self) -> bool:
        """Check the change in progress; True when there is none."""
        if self._following is None:
            return True
        topic, change_id = self._following
        view = self._controller.change(topic)
        if view.change is not None and view.change.id == change_id:
            change = view.change
            self._show(change=f"{topic} {change.source} → {change.target} partitions: {change.step}")
            return False
        last = view.last_change
        if last is None or last.id != change_id or last.outcome != "done":
            reason = "it is unknown" if last is None or last.error is None else last.error.error_message
            raise OrderedKafkaError(f"change {change_id} of {topic} did not end well: {reason}")
        self._finished.append((topic, last))
        self._progress.counts[topic] = last.target
        self._following = None
        pause = f"writers paused {last.writer_pause_seconds * 1000:.0f} ms"
        self._show(change=f"{topic} {last.source} → {last.target} partitions: done, {pause}")
        return True

    def _show(self, **counts: object) -> None:
        for name, value in counts.items():
            setattr(self._progress, name, value)
        self._on_progress(self._progress)

    # -- checking -----------------------------------------------------------------------------------------------

    def _check(self) -> DemoReport:
        output = (
            self._spark.read.format(FORMAT)
            .option("subscribe", OUTPUT)
            .load()
            .selectExpr(
                "split_part(CAST(value AS STRING), ':', 1) AS key",
                "CAST(split_part(CAST(value AS STRING), ':', 2) AS BIGINT) AS number",
                "layout_epoch",
                "offset",
            )
            .toArrow()
        )
        keys, numbers = output["key"].to_numpy(), output["number"].to_numpy()
        total_order = np.lexsort((output["offset"].to_numpy(), output["layout_epoch"].to_numpy()))
        records = self._plan.records
        return DemoReport(
            records,
            tuple(self._finished),
            check(keys, numbers, records),
            check(keys[total_order], numbers[total_order], records),
        )


class _Counter:
    """Rows and micro-batches a query has finished, from its recent progress reports."""

    def __init__(self, query: StreamingQuery) -> None:
        self._query = query
        self._rows: dict[int, int] = {}

    def totals(self) -> tuple[int, int]:
        for report in self._query.recentProgress:
            self._rows[report["batchId"]] = max(report["numInputRows"], self._rows.get(report["batchId"], 0))
        return sum(self._rows.values()), len(self._rows)
