"""The source on real servers: order through changes, however far the reader lags; columns; starts; outages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from spark_ordered_kafka import register
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.kafka.buffer import Memory
from spark_ordered_kafka.kafka.task import TaskTransaction
from spark_ordered_kafka.local import LocalCluster
from tests.inside import producer_of
from tests.queries import await_stable
from tests.servers import await_true
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


@pytest.mark.parametrize("counts", [(3, 2), pytest.param((3, 6, 2, 5), marks=pytest.mark.long)])
def test_a_lagging_stream_reads_every_key_in_order_through_changes_under_load(
    cluster: LocalCluster, spark: SparkSession, topic_name: str, tmp_path: Path, counts: tuple[int, ...]
) -> None:
    create(cluster, topic_name, 1)
    writer = NumberedWriter(cluster, topic_name)
    with writer.under_load():
        for count in counts:
            change(cluster, topic_name, count)
    await_stable(cluster, topic_name)
    assert misrouted(cluster, topic_name) == []
    limit = writer.written // (2 * len(counts))
    source = options(cluster, subscribe=topic_name, startingOffsets="earliest", maxOffsetsPerTrigger=limit)
    found = delivered(spark, source, str(tmp_path))
    assert found.batches > len(counts), "the limit must make the reader lag through the changes"
    assert found.report(writer.written).violations == 0, found.report(writer.written)
    # The same query again, after more changes: it goes on where it stood.
    with writer.under_load():
        change(cluster, topic_name, 1)
        change(cluster, topic_name, 4)
    await_stable(cluster, topic_name)
    delivered(spark, source, str(tmp_path), found)
    assert found.report(writer.written).violations == 0, found.report(writer.written)


@pytest.mark.long
def test_empty_parent(cluster: LocalCluster, spark: SparkSession, topic_name: str, tmp_path: Path) -> None:
    """1 -> 2 with nothing written -> 4: partition 3 must wait for partition 0, not for its empty parent 1."""
    create(cluster, topic_name, 1)
    writer = NumberedWriter(cluster, topic_name, keys=50, step=20)
    writer.write()
    change(cluster, topic_name, 2)
    change(cluster, topic_name, 4)
    writer.write()
    await_stable(cluster, topic_name)
    source = options(cluster, subscribe=topic_name, startingOffsets="earliest", maxOffsetsPerTrigger=100)
    report = delivered(spark, source, str(tmp_path)).report(writer.written)
    assert report.violations == 0, report


def test_a_batch_read_is_ordered_and_has_sparks_columns(
    cluster: LocalCluster, spark: SparkSession, topic_name: str
) -> None:
    create(cluster, topic_name, 2)
    writer = NumberedWriter(cluster, topic_name)
    for count in (4, 3):
        writer.write(3)
        change(cluster, topic_name, count)
    writer.write(3)
    await_stable(cluster, topic_name)
    rows = spark.read.format(FORMAT).options(**options(cluster, subscribe=topic_name)).load()
    assert rows.columns == [
        "key",
        "value",
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestampType",
        "layout_epoch",
    ]
    assert rows.rdd.getNumPartitions() == 2
    assert {row.layout_epoch for row in rows.select("layout_epoch").distinct().collect()} == {0, 1, 2}
    collector = Collector()
    collector.add(rows)
    assert collector.report(writer.written).violations == 0
    shuffled = Collector()
    shuffled.add(rows.repartition(5).orderBy("layout_epoch", "offset").coalesce(1))
    assert shuffled.report(writer.written).violations == 0
    pieces = (
        spark.read.format(FORMAT).options(**options(cluster, subscribe=topic_name, ordering="none")).load()
    )
    assert pieces.rdd.getNumPartitions() > 2
    assert pieces.count() == writer.written
    with ControllerClient(cluster.controller_url) as controller:
        starts = dict(enumerate(controller.layout(topic_name).layouts[-1].starts))
    behind = (
        spark.read.format(FORMAT)
        .options(**options(cluster, subscribe=topic_name, startingOffsets=json.dumps({topic_name: starts})))
        .load()
    )
    assert behind.rdd.getNumPartitions() == 3, "no key is in two partitions any more"
    assert {row.layout_epoch for row in behind.select("layout_epoch").distinct().collect()} == {2}


def test_a_range_that_ends_in_aborted_records(
    cluster: LocalCluster, spark: SparkSession, topic_name: str
) -> None:
    create(cluster, topic_name, 1)
    writer = NumberedWriter(cluster, topic_name)
    writer.write()
    given_up = TaskTransaction(
        writer_context(cluster), topic_name, f"ordered:{topic_name}:other:0", 0, Memory(1000)
    )
    given_up.write(numbered(30, 0, 10))
    producer_of(given_up).flush()  # the records must be in the log before the abort
    given_up.abort()
    await_stable(cluster, topic_name)
    rows = spark.read.format(FORMAT).options(**options(cluster, subscribe=topic_name)).load()
    assert rows.count() == writer.written


@pytest.mark.long
def test_an_empty_topic_and_two_topics(
    cluster: LocalCluster, spark: SparkSession, topic_name: str, tmp_path: Path
) -> None:
    empty, full = create(cluster, f"{topic_name}-a", 3), create(cluster, f"{topic_name}-b", 2)
    assert spark.read.format(FORMAT).options(**options(cluster, subscribe=empty)).load().count() == 0
    writer = NumberedWriter(cluster, full)
    writer.write()
    await_stable(cluster, full)
    source = options(cluster, subscribe=f"{empty},{full}", startingOffsets="earliest")
    assert delivered(spark, source, str(tmp_path)).report(writer.written).violations == 0


@pytest.mark.long
def test_processed_offsets_are_committed_to_the_group(
    cluster: LocalCluster, spark: SparkSession, topic_name: str, tmp_path: Path
) -> None:
    create(cluster, topic_name, 1)
    writer = NumberedWriter(cluster, topic_name)
    group = f"lag-of-{topic_name}"
    source = options(cluster, subscribe=topic_name, startingOffsets="earliest") | {"kafka.group.id": group}
    writer.write()
    await_stable(cluster, topic_name)
    delivered(spark, source, str(tmp_path))
    # Spark tells a source of a finished batch when it plans the next one.
    writer.write()
    await_stable(cluster, topic_name)
    delivered(spark, source, str(tmp_path))
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    (found,) = (
        admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group]
        .result(30)
        .topic_partitions
    )
    assert found.offset >= writer.written // 2


@pytest.mark.long
def test_a_running_query_waits_for_the_controller(
    cluster: LocalCluster, spark: SparkSession, topic_name: str, tmp_path: Path
) -> None:
    create(cluster, topic_name, 1)
    writer = NumberedWriter(cluster, topic_name)
    writer.write()
    await_stable(cluster, topic_name)
    found = Collector()
    query = (
        spark.readStream.format(FORMAT)
        .options(**options(cluster, subscribe=topic_name, startingOffsets="earliest"))
        .load()
        .writeStream.foreachBatch(found.add)
        .option("checkpointLocation", str(tmp_path))
        .start()
    )
    try:
        query.processAllAvailable()
        before = found.report().records
        cluster.kill("controller-1")
        # A producer that checked its layout before needs no controller; the reader must not go on without one.
        writer.write()
        assert not query.awaitTermination(3), query.exception()
        assert found.report().records == before
        cluster.start("controller-1")

        def is_caught_up() -> bool:
            # Spark takes a look that failed for one that found nothing: that all is processed says little here.
            assert query.isActive, query.exception()
            return sum(map(len, found.numbers)) >= writer.written

        await_true(is_caught_up, "the query goes on", 120)
        assert found.report(writer.written).violations == 0
    finally:
        query.stop()
        cluster.start("controller-1")


def test_start_offsets_and_limits_of_a_batch(
    cluster: LocalCluster, spark: SparkSession, topic_name: str
) -> None:
    create(cluster, topic_name, 1)
    NumberedWriter(cluster, topic_name, keys=1, step=10).write()
    await_stable(cluster, topic_name)
    given = options(
        cluster,
        subscribe=topic_name,
        startingOffsets=f'{{"{topic_name}":{{"0":3}}}}',
        endingOffsets=f'{{"{topic_name}":{{"0":7}}}}',
    )
    offsets = [
        row.offset for row in spark.read.format(FORMAT).options(**given).load().select("offset").collect()
    ]
    assert offsets == [3, 4, 5, 6]


def test_defaults_from_spark_conf(cluster: LocalCluster, spark: SparkSession, topic_name: str) -> None:
    create(cluster, topic_name, 1)
    NumberedWriter(cluster, topic_name).write()
    await_stable(cluster, topic_name)
    defaults = options(cluster, subscribe=topic_name, includeHeaders="true")
    for name, value in defaults.items():
        spark.conf.set(f"spark.ordered-kafka.{name}", value)
    try:
        register(spark)
        assert "headers" in spark.read.format(FORMAT).load().columns
        assert spark.read.format(FORMAT).load().count() == 100
    finally:
        for name in defaults:
            spark.conf.unset(f"spark.ordered-kafka.{name}")
        register(spark)


def bad(**changes: str | None) -> dict[str, str | None]:
    return changes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (bad(subscribee="x"), "unknown option subscribee"),
        (bad(subscribe="no-such-topic"), "no-such-topic.*does not exist"),
        ({"controller.url": "http://127.0.0.1:1"}, "no controller answered.*127.0.0.1:1"),
        (bad(startingOffsets='{"TOPIC":{"0":3}}'), "TOPIC-0: 3.*the log holds the offsets 0 to 0"),
        *(
            pytest.param(*row, marks=pytest.mark.long)
            for row in [
                (bad(subscribe=None), "option subscribe is missing"),
                ({"controller.url": None}, "option controller.url is missing"),
                ({"kafka.bootstrap.servers": None}, "option kafka.bootstrap.servers is missing"),
                ({"kafka.bootstrap.servers": "127.0.0.1:1"}, "127.0.0.1:1"),
                ({"kafka.no.such.property": "1"}, "no.such.property"),
                (
                    bad(startingOffsets="latest"),
                    "option startingOffsets has the value 'latest': a batch read starts at",
                ),
                (
                    bad(subscribe=None, subscribePattern="no-such-.*"),
                    "option subscribePattern has the value 'no-such-.*': the whole name of at least one topic",
                ),
                (bad(subscribePattern="a"), "only one of subscribe, subscribePattern, assign"),
                (
                    bad(minPartitions="5"),
                    "option minPartitions has the value '5': splitting a partition breaks",
                ),
                (bad(endingTimestamp="-5"), "option endingTimestamp has the value '-5'"),
            ]
        ),
    ],
)
def test_bad_input_is_refused_when_a_batch_is_planned(
    cluster: LocalCluster, spark: SparkSession, topic_name: str, changes: dict[str, str | None], message: str
) -> None:
    create(cluster, topic_name, 1)
    wanted = options(cluster, subscribe=topic_name) | changes
    given = {name: value.replace("TOPIC", topic_name) for name, value in wanted.items() if value is not None}
    with pytest.raises(Exception, match=f"(?s){message.replace('TOPIC', topic_name)}") as caught:
        spark.read.format(FORMAT).options(**given).load().count()
    assert "Job aborted" not in str(caught.value), "the driver tells, before a task runs"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"subscribe": "no-such-topic"}, "no-such-topic.*does not exist"),
        ({"controller.url": "http://127.0.0.1:1"}, "no controller answered.*127.0.0.1:1"),
        *(
            pytest.param(*row, marks=pytest.mark.long)
            for row in [
                ({"startingOffsets": '{"TOPIC":{"0":7}}'}, "TOPIC-0: 7.*the log holds the offsets 0 to 0"),
                ({"endingOffsets": "latest", "kafka.group.id": ""}, "only a batch read has an end"),
                (
                    {"kafka.group.id": ""},
                    "option kafka.group.id has the value '': the name of a consumer group",
                ),
                (
                    {"endingTimestamp": "5"},
                    "option endingTimestamp has the value '5': only a batch read has an end",
                ),
                (
                    {"startingTimestamp": "9999999999999"},
                    "TOPIC-0: 9999999999999.*no record is as late as that",
                ),
                ({"startingOffsets": '{"TOPIC":{"5":0}}'}, "TOPIC-5.*has the partitions 0 to 0"),
            ]
        ),
    ],
)
def test_bad_input_ends_a_stream_at_its_start(
    cluster: LocalCluster,
    spark: SparkSession,
    topic_name: str,
    tmp_path: Path,
    changes: dict[str, str],
    message: str,
) -> None:
    create(cluster, topic_name, 1)
    given = options(cluster, subscribe=topic_name) | changes
    given = {name: value.replace("TOPIC", topic_name) for name, value in given.items()}
    message = message.replace("TOPIC", topic_name)
    with pytest.raises(Exception, match=f"(?s){message}") as caught:
        delivered(spark, given, str(tmp_path))
    assert "UnboundLocalError" not in str(caught.value)
