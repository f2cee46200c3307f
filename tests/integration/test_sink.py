"""The sink on real servers: exactly once through fences, replays, restarts; types; refusals."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_ordered_kafka import ControllerClient
from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.errors import ConfigError, FencedError, UnavailableError
from spark_ordered_kafka.kafka.buffer import Memory
from spark_ordered_kafka.kafka.producer import TransactionalProducer
from spark_ordered_kafka.kafka.task import TaskTransaction, WriterContext
from spark_ordered_kafka.kafka.writer_layout import WriterLayout
from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.native.loading import kernel
from tests.integration.producing import instances_in_memory
from tests.queries import await_stable
from tests.servers import TIMEOUT
from tests.streams import (
    FORMAT,
    Collector,
    NumberedWriter,
    change,
    create,
    delivered,
    misrouted,
    numbered,
    options,
    writer_context,
)

KEEP_OLD = {"retention.ms": "-1"}
"""Of a topic whose records have old timestamps, by which Kafka deletes."""


def read(spark: SparkSession, cluster: LocalCluster, topic: str, **more: str) -> DataFrame:
    # A commit returns before its markers let readers pass.
    await_stable(cluster, topic)
    return spark.read.format(FORMAT).options(**options(cluster, subscribe=topic, **more)).load()


def collected(spark: SparkSession, cluster: LocalCluster, topic: str) -> Collector:
    collector = Collector()
    collector.add(read(spark, cluster, topic))
    return collector


def test_round_trip_of_nulls_headers_and_strings(
    cluster: LocalCluster, spark: SparkSession, topic_name: str
) -> None:
    create(cluster, topic_name, 3)
    rows = spark.sql(
        """SELECT * FROM VALUES
           ('a', 'one', array(named_struct('key', 'h', 'value', CAST('x' AS BINARY)))),
           (NULL, 'two', NULL), ('', NULL, array(named_struct('key', 'n', 'value', CAST(NULL AS BINARY)))),
           ('ключ', 'four', array()) AS t(key, value, headers)"""
    )
    rows.write.format(FORMAT).options(**options(cluster, topic=topic_name)).mode("append").save()
    found = read(spark, cluster, topic_name, includeHeaders="true").selectExpr(
        "CAST(key AS STRING)",
        "CAST(value AS STRING)",
        "transform(headers, h -> concat(h.key, ':', CAST(h.value AS STRING))) h",
    )
    assert {(row.key, row.value, tuple(row.h or ())) for row in found.collect()} == {
        ("a", "one", ("h:x",)),
        (None, "two", ()),
        ("", None, (None,)),
        ("ключ", "four", ()),
    }


def test_timestamps_are_kept_when_that_is_asked_for(
    cluster: LocalCluster, spark: SparkSession, topic_name: str
) -> None:
    """With headers and without, null keys and values; null is the time of sending."""
    create(cluster, topic_name, 3, **KEEP_OLD)
    rows = spark.sql(
        """SELECT key, value, timestamp_millis(ms) AS timestamp, headers FROM VALUES
           ('a', 'one', 1700000000123L, array(named_struct('key', 'h', 'value', CAST('x' AS BINARY)))),
           (NULL, 'two', 1600000000456L, NULL), ('', NULL, 1L, NULL), ('now', 'three', NULL, NULL)
           AS t(key, value, ms, headers)"""
    )
    before = time.time_ns() // 1_000_000
    for written in (rows, rows.drop("headers")):
        sink = options(cluster, topic=topic_name, keepTimestamps="true")
        written.write.format(FORMAT).options(**sink).mode("append").save()
    rows.write.format(FORMAT).options(**options(cluster, topic=topic_name)).mode("append").save()
    found = [
        (row.key, row.value, row.ms)
        for row in read(spark, cluster, topic_name)
        .selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)", "unix_millis(timestamp) AS ms")
        .collect()
    ]
    kept = [("a", "one", 1700000000123), (None, "two", 1600000000456), ("", None, 1)]
    assert Counter(row for row in found if row[2] < before) == Counter(kept * 2), found
    assert len(found) == 12


def test_a_column_names_the_topic(cluster: LocalCluster, spark: SparkSession, topic_name: str) -> None:
    names = [create(cluster, f"{topic_name}-{i}", 2) for i in range(2)]
    rows = spark.range(100).selectExpr(
        f"concat('{topic_name}-', id % 2) AS topic", "CAST(id AS STRING) AS value"
    )
    rows.write.format(FORMAT).options(**options(cluster)).mode("append").save()
    for i, name in enumerate(names):
        values = {int(row.value) for row in read(spark, cluster, name).select("value").collect()}
        assert values == set(range(i, 100, 2))


@pytest.mark.long
def test_rows_that_come_for_longer_than_a_transaction_lives(
    cluster: LocalCluster, spark: SparkSession, topic_name: str
) -> None:
    """Brokers abort it; the next one begins when all rows are there, so nothing is sent a third time."""
    create(cluster, topic_name, 2)
    context = with_timeout(cluster, 3000)
    task = TaskTransaction(context, topic_name, f"ordered:{topic_name}:w:0", 0, Memory(1_000_000))
    written = 0
    deadline = time.monotonic() + 2 * TIMEOUT
    while task.replays == 0:
        task.write(numbered(10, written, 1))
        written += 1
        assert time.monotonic() < deadline, "the transaction is not aborted"
        time.sleep(0.05)
    begun = time.monotonic()
    while time.monotonic() < begun + 3.5:
        task.write(numbered(10, written, 1))
        written += 1
        time.sleep(0.05)
    assert task.commit()
    assert task.replays == 1
    report = collected(spark, cluster, topic_name).report(10 * written)
    assert report.violations == 0, report


def test_rows_that_take_longer_than_a_transaction_lives_are_refused_with_the_remedy(
    cluster: LocalCluster, topic_name: str
) -> None:
    create(cluster, topic_name, 2)
    context, name = with_timeout(cluster, 1000), f"ordered:{topic_name}:w:0"
    # Two seconds pass between any two looks at it.
    clock = itertools.count(step=2.0)

    def fenced(topic: str, timeout: float) -> WriterLayout:
        """The layout for a producer that brokers refuse from now on, as they do one whose transaction was too old."""
        TransactionalProducer(context.connection, topic, name, TIMEOUT)
        return context.layout_of(topic, timeout)

    slow = replace(context, layout_of=fenced, clock=lambda: next(clock))
    task = TaskTransaction(slow, topic_name, name, 0, Memory(1_000_000))

    def write() -> None:
        for number in range(3):
            task.write(numbered(10, number, 1))
        task.commit()

    with pytest.raises(ConfigError) as caught:
        write()
    task.abort()
    text = str(caught.value)
    assert (
        "option kafka.transaction.timeout.ms has the value 1000: brokers abort a transaction after that"
        in text
    )
    assert "the 30 rows" in text
    assert "maxOffsetsPerTrigger" in text
    assert isinstance(caught.value.__cause__, FencedError)
    assert str(caught.value.__cause__) in text


def with_timeout(cluster: LocalCluster, milliseconds: int) -> WriterContext:
    context = writer_context(cluster)
    kafka = {**context.connection.kafka, "transaction.timeout.ms": str(milliseconds)}
    return replace(context, connection=Connection(kafka, cluster.controller_url))


@pytest.mark.parametrize(
    ("first", "second", "buffer_bytes"),
    [
        pytest.param(2, 5, 1, id="expansion, spilled"),
        pytest.param(5, 2, 10_000_000, id="shrink, in memory", marks=pytest.mark.long),
        pytest.param(2, 5, 10_000_000, id="expansion, in memory", marks=pytest.mark.long),
        pytest.param(5, 2, 1, id="shrink, spilled", marks=pytest.mark.long),
    ],
)
def test_a_change_in_the_middle_of_a_task(
    cluster: LocalCluster, spark: SparkSession, topic_name: str, first: int, second: int, buffer_bytes: int
) -> None:
    create(cluster, topic_name, 2)
    if first != 2:
        change(cluster, topic_name, first)
    task = TaskTransaction(
        writer_context(cluster), topic_name, f"ordered:{topic_name}:w:0", 0, Memory(buffer_bytes)
    )
    task.write(numbered(50, 0, 40))
    change(cluster, topic_name, second)
    task.write(numbered(50, 40, 40))
    assert task.commit()
    assert task.replays == 1
    assert misrouted(cluster, topic_name) == []
    rows = read(spark, cluster, topic_name)
    epochs = {row.layout_epoch for row in rows.select("layout_epoch").distinct().collect()}
    assert epochs == {1 if first == 2 else 2}, "all rows of the transaction are written under the new layout"
    report = collected(spark, cluster, topic_name).report(4000)
    assert report.violations == 0, report


@pytest.mark.skipif(kernel() is None, reason="without the kernel no producer is used again")
def test_a_change_between_two_transactions_of_a_cached_producer(
    cluster: LocalCluster, spark: SparkSession, topic_name: str
) -> None:
    create(cluster, topic_name, 2)
    writer = NumberedWriter(cluster, topic_name)
    writer.write(2)
    # A producer that had to send something again is not kept; where that happened, the next change meets another.
    for count in (4, 2) * 5:
        change(cluster, topic_name, count)
        writer.write(2)
        if writer.replays > 0:
            break
    assert writer.replays == 1, "the idle producer was fenced, too"
    assert misrouted(cluster, topic_name) == []
    assert collected(spark, cluster, topic_name).report(writer.written).violations == 0


def test_what_the_source_reads_is_written_back(
    cluster: LocalCluster, spark: SparkSession, topic_name: str
) -> None:
    source, target = create(cluster, f"{topic_name}-in", 2), create(cluster, f"{topic_name}-out", 3)
    writer = NumberedWriter(cluster, source)
    writer.write()
    rows = read(spark, cluster, source)
    rows.write.format(FORMAT).options(**options(cluster, topic=target)).mode("append").save()
    assert misrouted(cluster, target) == []
    assert collected(spark, cluster, target).report(writer.written).violations == 0


@pytest.mark.long
def test_a_stream_writes_while_its_target_changes(
    cluster: LocalCluster, spark: SparkSession, topic_name: str, tmp_path: Path
) -> None:
    source, target = create(cluster, f"{topic_name}-in", 2), create(cluster, f"{topic_name}-out", 3)
    writer = NumberedWriter(cluster, source)
    query = (
        spark.readStream.format(FORMAT)
        .options(**options(cluster, subscribe=source, startingOffsets="earliest"))
        .load()
        .select("key", "value")
        .writeStream.format(FORMAT)
        .options(**options(cluster, topic=target))
        .option("checkpointLocation", str(tmp_path / "copy"))
        .start()
    )
    try:
        with writer.under_load():
            for topic, count in ((target, 5), (source, 5), (target, 3), (source, 2)):
                change(cluster, topic, count)
        await_stable(cluster, source)
        query.processAllAvailable()
    finally:
        query.stop()
    assert misrouted(cluster, source) + misrouted(cluster, target) == []
    report = collected(spark, cluster, target).report(writer.written)
    assert report.violations == 0, report
    lagging = options(
        cluster, subscribe=target, startingOffsets="earliest", maxOffsetsPerTrigger=writer.written // 4
    )
    report = delivered(spark, lagging, str(tmp_path / "check")).report(writer.written)
    assert report.violations == 0, report


@pytest.mark.parametrize(
    ("columns", "changes", "message"),
    [
        (
            "1 AS value, 'k' AS key",
            {"kafka.acks": "1", "kafka.retries": "0", "writer": "a:b"},
            "option kafka.acks.*option writer|option writer.*option kafka.acks",
        ),
        ("1.5D AS key, 'v' AS value", {}, "column key has the value 'double'.*binary or string"),
        ("'v' AS value", {"topic": "no-such-topic"}, "no-such-topic.*does not exist"),
        ("'v' AS value", {"controller.url": "http://127.0.0.1:1"}, "no controller answered"),
        *(
            pytest.param(*row, marks=pytest.mark.long)
            for row in [
                (
                    "'v' AS value",
                    {"kafka.max.in.flight.requests.per.connection": "9"},
                    "option kafka.max.in.flight",
                ),
                (
                    "'v' AS value",
                    {"kafka.retries": "0"},
                    "option kafka.retries has the value '0': librdkafka says",
                ),
                ("'v' AS value", {"kafka.receive.message.max.bytes": "1000"}, "must be >= `fetch.max.bytes`"),
                (
                    "'v' AS value",
                    {"kafka.linger.ms": "900000"},
                    "option kafka.linger.ms has the value '900000'",
                ),
                ("'k' AS key", {}, "column value is missing"),
                ("'v' AS value", {"topic": None}, "option topic is missing"),
                ("'v' AS value", {"subscribe": "x"}, "it is not an option of the sink"),
                (
                    "'v' AS value",
                    {"kafka.bootstrap.servers": "127.0.0.1:1"},
                    "asking 127.0.0.1:1 for the cluster id",
                ),
            ]
        ),
    ],
)
def test_bad_input_is_refused_before_any_task_runs(
    cluster: LocalCluster,
    spark: SparkSession,
    topic_name: str,
    columns: str,
    changes: dict[str, str | None],
    message: str,
) -> None:
    create(cluster, topic_name, 1)
    wanted = options(cluster, topic=topic_name) | changes
    given = {name: value for name, value in wanted.items() if value is not None}
    rows = spark.range(1).selectExpr(*(part.strip() for part in columns.split(",")))
    with pytest.raises(Exception, match=f"(?s){message}") as caught:
        rows.write.format(FORMAT).options(**given).mode("append").save()
    assert "Job aborted" not in str(caught.value)


def test_a_topic_not_under_management_is_named(
    cluster: LocalCluster, spark: SparkSession, make_topic: object
) -> None:
    name = make_topic()  # type: ignore[operator]
    rows = spark.range(1).selectExpr("'v' AS value")
    with pytest.raises(Exception, match=f"(?s){name}.*not under management"):
        rows.write.format(FORMAT).options(**options(cluster, topic=name)).mode("append").save()


def test_a_writer_gives_up_when_no_controller_answers(cluster: LocalCluster, topic_name: str) -> None:
    create(cluster, topic_name, 1)
    context = writer_context(cluster)
    lost = replace(context, layout_of=ControllerClient("http://127.0.0.1:1").wait_for_layout, timeout=1.0)
    task = TaskTransaction(lost, topic_name, f"ordered:{topic_name}:w:0", 0, Memory(1000))
    with pytest.raises(UnavailableError, match="gave up writing"):
        task.write(numbered(1, 0, 1))


@pytest.mark.skipif(kernel() is None, reason="without the kernel no producer is used again")
def test_a_fenced_producer_is_freed(cluster: LocalCluster, topic_name: str) -> None:
    """Each has connections and threads; a writer in a changing topic must not gather them."""
    create(cluster, topic_name, 1)
    writer = NumberedWriter(cluster, topic_name, keys=3)
    writer.write()
    # A producer that had to send something again is not kept; where that happened, the next change meets another.
    for partitions in (2, 1) * 6:
        change(cluster, topic_name, partitions)
        writer.write()
        # Half of the fences come with a line of librdkafka's log, in whose handling confluent-kafka's error is another one.
        if writer.replays == 6:
            break
    assert writer.replays == 6
    name = f"ordered:{topic_name}:{writer.name}:0"
    assert [one.transactional_id for one in instances_in_memory()].count(name) == 1
