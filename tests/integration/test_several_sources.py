"""One query of several ordered sources: each keeps its place in the checkpoint, and each key its order."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from spark_ordered_kafka.local import LocalCluster
from tests.integration.producing import values, written
from tests.queries import await_stable, everything
from tests.streams import FORMAT, NumberedWriter, change, create, judged, misrouted, options


def stream(spark: SparkSession, source: Mapping[str, str]) -> DataFrame:
    return spark.readStream.format(FORMAT).options(**source).load()


def run(rows: DataFrame, target: Mapping[str, str], checkpoint: Path) -> None:
    """Write all that there is, by a query that begins where the last one ended."""
    query = (
        rows.writeStream.format(FORMAT)
        .options(**target)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(180), "the stream did not catch up within 180 s"


@pytest.mark.long
def test_a_union_copies_each_source_in_order_through_changes_and_restarts(
    cluster: LocalCluster, spark: SparkSession, topic_name: str, tmp_path: Path
) -> None:
    """One topic twice, too: with other limits, and under another name for its keys."""
    first, second, target = (
        create(cluster, f"{topic_name}-{name}", count) for name, count in (("a", 2), ("b", 3), ("out", 2))
    )
    writers = [NumberedWriter(cluster, topic) for topic in (first, second)]
    of_first = everything(cluster, first, maxOffsetsPerTrigger=70)
    again = f.expr("concat('again-', CAST(value AS STRING))").alias("value")
    renamed = f.expr("concat('again-', CAST(key AS STRING))").alias("key")
    other = f.expr("concat('b-', CAST(value AS STRING))").alias("value")
    other_key = f.expr("concat('b-', CAST(key AS STRING))").alias("key")
    for counts in ((4, 5, 3), (2, 6, 5), (3, 4, 2)):
        for writer in writers:
            writer.write(2)
        for topic, count in zip((first, second, target), counts, strict=True):
            change(cluster, topic, count)
        for writer in writers:
            writer.write(2)
            await_stable(cluster, writer.topic)
        rows = (
            stream(spark, of_first)
            .select(f.col("key").cast("string"), f.col("value").cast("string"))
            .union(stream(spark, everything(cluster, first)).select(renamed, again))
            .union(stream(spark, everything(cluster, second)).select(other_key, other))
        )
        run(rows, options(cluster, topic=target), tmp_path / "checkpoint")
    report = judged(written(cluster, target), 2 * writers[0].written + writers[1].written)
    assert report.violations == 0, report
    assert misrouted(cluster, target) == []


@pytest.mark.long
def test_a_join_of_two_topics_meets_every_pair_once_through_changes_and_restarts(
    cluster: LocalCluster, spark: SparkSession, topic_name: str, tmp_path: Path
) -> None:
    left, right, target = (create(cluster, f"{topic_name}-{name}", 2) for name in ("l", "r", "out"))
    writers = [NumberedWriter(cluster, topic) for topic in (left, right)]
    for counts in ((4, 3, 3), (2, 6, 5)):
        for writer, count in zip(writers, counts, strict=False):
            writer.write(2)
            change(cluster, writer.topic, count)
            writer.write(2)
            await_stable(cluster, writer.topic)
        change(cluster, target, counts[2])
        sides = [
            stream(spark, everything(cluster, writer.topic, maxOffsetsPerTrigger=150))
            .select(f.col("key").alias(f"{name}key"), f.col("value").alias(f"{name}value"), "timestamp")
            .withWatermark("timestamp", "1 hour")
            .drop("timestamp")
            for name, writer in zip("lr", writers, strict=True)
        ]
        pairs = sides[0].join(sides[1], f.expr("lvalue = rvalue"))
        run(
            pairs.selectExpr("lkey AS key", "lvalue AS value"),
            options(cluster, topic=target),
            tmp_path / "checkpoint",
        )
    found = values(cluster, target)
    assert len(found) == len(set(found)) == writers[0].written
