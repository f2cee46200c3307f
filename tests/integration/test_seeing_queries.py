"""What a query shows while it runs: its progress, metrics for Prometheus, its group's lag, and lines in the driver's log."""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from spark_ordered_kafka import OrderedKafkaListener
from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.local import LocalCluster
from tests.integration.test_cli_topics import Cli
from tests.integration.test_lifecycle import produce
from tests.queries import Query, await_stable, everything
from tests.servers import TIMEOUT, await_true, unique_name
from tests.streams import FORMAT, NumberedWriter, change, create, written_through

ROOT = Path(__file__).parents[2]
# Seconds: several queries start at once, on a machine that may be busy.
START_TIMEOUT = 120.0


@pytest.fixture
def listener(spark: SparkSession) -> Iterator[OrderedKafkaListener]:
    listener = OrderedKafkaListener(port=0, addr="127.0.0.1")
    spark.streams.addListener(listener)
    yield listener
    spark.streams.removeListener(listener)
    listener.close()


def scraped(listener: OrderedKafkaListener, query: str) -> dict[str, float]:
    """What Prometheus gets of a query: metric -> value."""
    with urlopen(f"http://127.0.0.1:{listener.port}/metrics", timeout=TIMEOUT) as answer:
        text = answer.read().decode()
    return {
        sample.name.removeprefix("ordered_kafka_query_"): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.labels.get("query") == query
    }


def reports(query: StreamingQuery) -> list[dict[str, Any]]:
    """What the source reported with each micro-batch that has read something."""
    return [
        json.loads(progress.sources[0].latestOffset or "null")
        for progress in query.recentProgress
        if progress.numInputRows
    ]


def started(
    spark: SparkSession, cluster: LocalCluster, topic: str, home: Path, name: str, **more: Any
) -> StreamingQuery:
    rows = spark.readStream.format(FORMAT).options(**everything(cluster, topic, **more)).load()
    writer = rows.writeStream.format("noop").queryName(name).option("checkpointLocation", str(home / name))
    return writer.trigger(processingTime="100 milliseconds").start()


@pytest.mark.long
def test_progress_metrics_and_the_groups_lag_agree(
    cluster: LocalCluster,
    spark: SparkSession,
    listener: OrderedKafkaListener,
    topic_name: str,
    tmp_path: Path,
) -> None:
    writer = written_through(cluster, topic_name, 2, 4)
    await_stable(cluster, topic_name)
    name, group = unique_name("copy"), unique_name("copies")
    limit = {"maxOffsetsPerTrigger": 60, "kafka.group.id": group}
    query = started(spark, cluster, topic_name, tmp_path, name, **limit)
    try:
        query.processAllAvailable()
        found = reports(query)
        behind = [report["offsetsBehindLatest"] for report in found]
        assert len(behind) >= 3
        assert behind == sorted(behind, reverse=True)
        assert behind[-1] == 0
        assert {len(report["topics"]) for report in found} == {1}
        first = found[0]["topics"][topic_name]
        assert (first["layoutEpoch"], first["oldestUnreadLayoutEpoch"], first["partitions"]) == (1, 0, 4)
        assert first["partitionsHeldBack"] == len(first["heldBack"]) == 2
        for held in first["heldBack"].values():
            assert (held["at"], held["layoutEpoch"]) == (0, 1)
            (wait,) = held["waitsFor"]
            assert (wait["partition"] in (0, 1), wait["position"]) == (True, 0)
        assert found[-1]["topics"][topic_name]["partitionsHeldBack"] == 0

        # To its group the query commits a micro-batch when it begins the next one.
        code, out, error = Cli(cluster.controller_url)(
            "groups", "describe", "--group", group, "--output", "json"
        )
        assert code == 0, error
        (described,) = json.loads(out)["topics"]
        lags = {str(row["partition"]): row["lag"] for row in described["partitions"] if row["lag"]}
        assert lags == found[-2]["topics"][topic_name]["mostBehind"]
        assert sum(lags.values()) == behind[-2]

        # Events come after the progress that a query shows itself.
        await_true(
            lambda: scraped(listener, name).get("batch_duration_seconds_count") == len(found), "all events"
        )
        metrics = scraped(listener, name)
        assert metrics["input_rows_total"] == writer.written
        assert metrics["batch_duration_seconds_sum"] > 0
        assert (metrics["offsets_behind_latest"], metrics["partitions_held_back"]) == (0, 0)
        assert (metrics["layout_epoch"], metrics["partitions"], metrics["stalled"]) == (1, 4, 0)
        assert {"input_rows_per_second", "processed_rows_per_second"} <= metrics.keys()
    finally:
        query.stop()
    await_true(lambda: scraped(listener, name) == {}, "the metrics of an ended query are gone")


def test_partitions_held_back_are_those_that_the_group_waits_for(
    cluster: LocalCluster, topic_name: str
) -> None:
    """A micro-batch that has read less than partition 2 needs of partition 0."""
    create(cluster, topic_name, 2)
    produce(cluster, topic_name, {0: 10, 1: 5})
    change(cluster, topic_name, 3)
    produce(cluster, topic_name, {0: 4, 2: 3})
    group = unique_name("group")
    limited = everything(cluster, topic_name, maxOffsetsPerTrigger=6) | {"kafka.group.id": group}
    with Query(limited) as query:
        query.next_rows()
        query.reader.commit(json.loads(query.checkpoint))
        position = query.positions(topic_name)[0]
        query.plan()
        report = query.reader.reportLatestOffset()
        assert report is not None
    assert position < 10
    held = report["topics"][topic_name]["heldBack"]
    assert held == {
        "2": {
            "at": 0,
            "layoutEpoch": 1,
            "waitsFor": [{"partition": 0, "position": position, "toReach": 10}],
        }
    }
    code, out, _ = Cli(cluster.controller_url)("groups", "describe", "--group", group, "--output", "json")
    (described,) = json.loads(out)["topics"]
    waiting = {str(row["partition"]): row["waits_for"] for row in described["partitions"] if row["waits_for"]}
    assert (code, waiting) == (0, {"2": [{"partition": 0, "offset": 10}]})


@pytest.mark.long
def test_each_layout_is_logged_once_however_many_micro_batches_there_are(
    cluster: LocalCluster, topic_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    create(cluster, topic_name, 1)
    writer = NumberedWriter(cluster, topic_name)

    def lines() -> list[str]:
        found = [record for record in caplog.records if record.name == "spark_ordered_kafka.spark.stream"]
        caplog.clear()
        return [record.getMessage() for record in found if record.levelno == logging.INFO]

    def read(query: Query) -> list[str]:
        for _ in range(2):
            writer.write()
            await_stable(cluster, topic_name)
            query.all_rows()
        return lines()

    caplog.set_level(logging.INFO, "spark_ordered_kafka")
    with Query(everything(cluster, topic_name)) as query:
        assert read(query) == [f"topic {topic_name!r}: the query begins with layout epoch 0, 1 partitions"]
        change(cluster, topic_name, 3)
        (line,) = read(query)
        beginning = (
            rf"topic '{topic_name}': layout epoch 1, 3 partitions, before 1; it begins at 0: \d+, 1: 0, 2: 0"
        )
        assert re.fullmatch(beginning, line)
        checkpoint = query.checkpoint
    change(cluster, topic_name, 2)
    change(cluster, topic_name, 4)
    restarted = Query(everything(cluster, topic_name), checkpoint)
    with restarted:
        assert [line.partition(";")[0].partition(": ")[2] for line in read(restarted)] == [
            "layout epoch 2, 2 partitions, before 3",
            "layout epoch 3, 4 partitions, before 2",
        ]
        assert read(restarted) == []


@pytest.mark.long
def test_the_metrics_of_two_queries_and_one_without_a_source_of_ours(
    cluster: LocalCluster, spark: SparkSession, topic_name: str, tmp_path: Path
) -> None:
    """In a registry of the user's own."""
    create(cluster, topic_name, 1)
    NumberedWriter(cluster, topic_name).write()
    await_stable(cluster, topic_name)
    registry = CollectorRegistry()
    listener = OrderedKafkaListener(registry=registry)
    assert listener.port is None
    spark.streams.addListener(listener)
    first, second, rate = (unique_name(word) for word in ("first", "second", "rate"))
    queries = [started(spark, cluster, topic_name, tmp_path, name) for name in (first, second)]
    queries.append(spark.readStream.format("rate").load().writeStream.format("noop").queryName(rate).start())

    def behind(name: str) -> float | None:
        labels = {"query": name, "topic": topic_name}
        return registry.get_sample_value("ordered_kafka_query_offsets_behind_latest", labels)

    def rows(name: str) -> float | None:
        return registry.get_sample_value("ordered_kafka_query_input_rows_total", {"query": name})

    try:
        await_true(lambda: [rows(first), rows(second)] == [100, 100], "both have read all", START_TIMEOUT)
        await_true(lambda: (rows(rate) or 0) > 0, "rows of the other source", START_TIMEOUT)
        assert [behind(first), behind(second), behind(rate)] == [0, 0, None]
        queries[0].stop()
        await_true(lambda: rows(first) is None, "the ended query is gone")
        assert (behind(first), rows(second)) == (None, 100)
    finally:
        for query in queries:
            query.stop()
        spark.streams.removeListener(listener)
        listener.close()
    assert list(registry.collect()) == []


def test_the_block_of_the_docs_serves_metrics(spark: SparkSession) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "operating.md").read_text(), re.DOTALL)
    (block,) = [block for block in blocks if "OrderedKafkaListener" in block]
    names: dict[str, Any] = {"spark": spark}
    exec(block.replace("port=9400", "port=0"), names)
    listener, name = names["listener"], unique_name("rate")
    query = spark.readStream.format("rate").load().writeStream.format("noop").queryName(name).start()
    try:
        await_true(
            lambda: scraped(listener, name).get("input_rows_total", 0) > 0, "rows are counted", START_TIMEOUT
        )
    finally:
        query.stop()
        spark.streams.removeListener(listener)
        listener.close()


def test_a_wrong_port_is_refused(listener: OrderedKafkaListener) -> None:
    for wrong in (-1, 65536, "9400", True):
        with pytest.raises(ConfigError, match=r"port has the value .*0 \(any free port\) to 65535"):
            OrderedKafkaListener(port=wrong)  # type: ignore[arg-type]
    registry = CollectorRegistry()
    with pytest.raises(ConfigError, match=rf"port has the value {listener.port}: cannot be served"):
        OrderedKafkaListener(listener.port, registry, addr="127.0.0.1")
    assert list(registry.collect()) == []


@pytest.mark.long
def test_a_query_that_is_started_again_is_shown_once(spark: SparkSession) -> None:
    """Spark tells of a start at once, of the end before it when listeners have taken all that came before."""
    told, registry, name = threading.Event(), CollectorRegistry(), unique_name("again")
    slow = OrderedKafkaListener(registry=CollectorRegistry())
    slow.onQueryTerminated = lambda _: told.wait(TIMEOUT)  # type: ignore[method-assign,assignment]
    spark.streams.addListener(slow)
    listener = OrderedKafkaListener(registry=registry)
    spark.streams.addListener(listener)

    def shown() -> list[float]:
        (rows,) = (one for one in registry.collect() if one.name == "ordered_kafka_query_input_rows")
        return [
            one.value for one in rows.samples if one.name.endswith("_total") and one.labels["query"] == name
        ]

    def start() -> StreamingQuery:
        writer = spark.readStream.format("rate").load().writeStream.format("noop")
        return writer.queryName(name).start()

    try:
        first = start()
        await_true(lambda: sum(shown()) > 0, "rows of the first run", START_TIMEOUT)
        first.stop()
        second = start()
        try:
            assert shown() == [0]
            told.set()
            await_true(lambda: sum(shown()) > 0, "rows of the second run", START_TIMEOUT)
            assert len(shown()) == 1
        finally:
            second.stop()
    finally:
        told.set()
        for one in (listener, slow):
            spark.streams.removeListener(one)
            one.close()
