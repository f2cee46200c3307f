"""``jobs/ordered_copy.py`` under spark-submit, with the properties file that users start from."""

from __future__ import annotations

from pathlib import Path

import pytest
from ordered_copy import rekeyed
from pyspark.errors import SparkRuntimeException
from pyspark.sql import SparkSession

from spark_ordered_kafka.local import LocalCluster
from tests.integration.job_runs import properties, servers, submit
from tests.queries import await_stable
from tests.streams import FORMAT, Collector, NumberedWriter, change, create, options


def copying(cluster: LocalCluster, directory: Path, source: str, target: str) -> dict[str, str]:
    """Settings of a job that copies what is there and ends."""
    return servers(cluster) | {
        "spark.ordered-kafka.subscribe": source,
        "spark.ordered-kafka.topic": target,
        "spark.ordered_copy.checkpoint": str(directory / "checkpoint"),
        "spark.ordered_copy.trigger": "availableNow",
    }


@pytest.mark.long
@pytest.mark.timeout(400)
def test_the_job_copies_under_a_new_key(
    cluster: LocalCluster, spark: SparkSession, topic_name: str, tmp_path: Path
) -> None:
    source, target = create(cluster, f"{topic_name}-in", 2), create(cluster, f"{topic_name}-out", 2)
    writer = NumberedWriter(cluster, source)
    writer.write(2)
    change(cluster, source, 5)
    writer.write(2)
    await_stable(cluster, source)
    conf = copying(cluster, tmp_path, source, target)
    result = submit("ordered_copy", conf | {"spark.ordered_copy.key": "concat('group-', crc32(key) % 3)"})
    assert result.returncode == 0, result.stderr[-3000:]
    await_stable(cluster, target)
    rows = spark.read.format(FORMAT).options(**options(cluster, subscribe=target)).load()
    collector = Collector()
    collector.add(rows)
    assert collector.report(writer.written).violations == 0
    assert {bytes(row.key)[:6] for row in rows.select("key").distinct().collect()} == {b"group-"}


KEYLESS = "spark.ordered_copy.key is null for {}-0, offset 0: records without a key have no order"


def test_a_key_that_is_null_is_an_error(cluster: LocalCluster, spark: SparkSession, topic_name: str) -> None:
    """The shipped expression is for values of JSON, and these are none: copied, they would have no order, silently."""
    topic = create(cluster, topic_name, 1)
    NumberedWriter(cluster, topic).write(1)
    await_stable(cluster, topic)
    rows = spark.read.format(FORMAT).options(**options(cluster, subscribe=topic)).load()
    expression = properties("ordered_copy")["spark.ordered_copy.key"]
    with pytest.raises(SparkRuntimeException, match=KEYLESS.format(topic)):
        rekeyed(rows, expression, "value", 2).collect()
    whole = f"coalesce({expression}, CAST(key AS STRING))"  # what the error advises
    assert {row.key for row in rekeyed(rows, whole, "value", 2).collect()} == {f"k{n}" for n in range(20)}


@pytest.mark.long
def test_a_key_that_is_null_ends_the_job(
    cluster: LocalCluster, spark: SparkSession, topic_name: str, tmp_path: Path
) -> None:
    source, target = create(cluster, f"{topic_name}-in", 1), create(cluster, f"{topic_name}-out", 1)
    NumberedWriter(cluster, source).write(1)
    await_stable(cluster, source)
    result = submit("ordered_copy", copying(cluster, tmp_path, source, target))
    assert result.returncode != 0
    assert KEYLESS.format(source) in result.stderr
    assert spark.read.format(FORMAT).options(**options(cluster, subscribe=target)).load().count() == 0


@pytest.mark.long
def test_a_wrong_setting_ends_the_job_with_one_line(cluster: LocalCluster, tmp_path: Path) -> None:
    wrong = {"spark.ordered_copy.tasks": "many"}
    result = submit("ordered_copy", copying(cluster, tmp_path, "orders", "copy") | wrong)
    assert result.returncode == 1
    assert (
        "error: spark.ordered_copy.tasks has the value 'many': a whole number of at least 1"
        in result.stdout + result.stderr
    )
