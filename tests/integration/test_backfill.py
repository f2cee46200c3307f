"""``jobs/backfill.py``: a dataset in a topic, each key in order, each record once, whatever is killed or run again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import backfill
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from spark_ordered_kafka import register
from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.local import LocalCluster
from tests.integration.job_runs import running, servers, submit
from tests.integration.test_killed_driver import await_batches
from tests.queries import await_stable
from tests.streams import change, create, records_in_order

ROWS, KEYS = 3000, 13
CHECKPOINT = "check[1]point"  # to Spark's readers a pattern


def dataset(spark: SparkSession, path: Path) -> DataFrame:
    """Rows in no order, in files of any rows; ``made`` orders them, and equals for two rows of different keys."""
    rows = spark.range(ROWS).selectExpr(
        f"concat('k', id % {KEYS}) AS who",
        "CAST(id AS STRING) AS what",
        "timestamp_seconds(1600000000 + id DIV 2) AS made",
    )
    rows.repartition(3).write.parquet(str(path))
    return rows


def conf(cluster: LocalCluster, topic: str, directory: Path) -> dict[str, str]:
    """Settings of the job."""
    own = {
        "path": str(directory / "data"),
        "checkpoint": str(directory / CHECKPOINT),
        "order": "made",
        "key": "who",
        "value": "what",
        "batchRecords": "500",
        "tasks": "2",
    }
    named = {f"spark.backfill.{name}": value for name, value in own.items()}
    return servers(cluster) | named | {"spark.ordered-kafka.topic": topic}


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    """What the tests set in the conf is taken out again."""
    yield spark
    for name in dict(spark.conf.getAll):
        if name.startswith(("spark.backfill.", "spark.ordered-kafka.")):
            spark.conf.unset(name)
    spark.conf.unset(backfill.TIME_ZONE)
    register(spark)


def run(spark: SparkSession, entries: Mapping[str, str]) -> None:
    """The job in the session of the tests."""
    for name, value in entries.items():
        spark.conf.set(name, value)
    backfill.main()


def assert_whole(cluster: LocalCluster, topic: str) -> None:
    """All rows are there once, each key in order."""
    await_stable(cluster, topic)
    found: dict[str, list[int]] = {f"k{key}": [] for key in range(KEYS)}
    for message in records_in_order(cluster, topic):
        found[(message.key() or b"").decode()].append(int(message.value() or b""))
    assert found == {f"k{key}": list(range(key, ROWS, KEYS)) for key in range(KEYS)}


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_a_killed_backfill_goes_on(
    cluster: LocalCluster, spark: SparkSession, topic_name: str, tmp_path: Path
) -> None:
    topic = create(cluster, topic_name, 2)
    dataset(spark, tmp_path / "data")
    # Many micro-batches: it is to be in the midst of one of them whenever the test looks.
    entries = conf(cluster, topic, tmp_path) | {"spark.backfill.batchRecords": "200"}
    with running("backfill", entries, tmp_path / "job.log") as process:
        await_batches(process, tmp_path / CHECKPOINT / "query", 2, 400)
        change(cluster, topic, 4)
    change(cluster, topic, 3)
    result = submit("backfill", entries)
    assert result.returncode == 0, result.stderr[-3000:]
    assert_whole(cluster, topic)


@pytest.mark.long
def test_what_is_written_is_not_written_again(
    cluster: LocalCluster, session: SparkSession, topic_name: str, tmp_path: Path
) -> None:
    topic = create(cluster, topic_name, 2)
    dataset(session, tmp_path / "data")
    entries = conf(cluster, topic, tmp_path)
    run(session, entries)
    plan = session.read.parquet(str(tmp_path / CHECKPOINT / "plan").replace("[", "\\["))
    assert plan.count() == ROWS / 500
    assert_whole(cluster, topic)
    # The driver died after its tasks, before it noted the batch as done; and then it is started once too often.
    for name in ("5", ".5.crc"):
        (tmp_path / CHECKPOINT / "query" / "commits" / name).unlink()
    for _ in range(2):
        run(session, entries)
    assert_whole(cluster, topic)
    with pytest.raises(
        ConfigError, match=r"the checkpoint was begun with .*order=made, .*; keep that, or set another"
    ):
        run(session, entries | {"spark.backfill.order": "unix_seconds(made)"})


@pytest.mark.long
def test_a_dataset_that_cannot_be_ordered_is_refused(
    cluster: LocalCluster, session: SparkSession, topic_name: str, tmp_path: Path
) -> None:
    topic = create(cluster, topic_name, 1)
    rows = dataset(session, tmp_path / "data")
    entries = conf(cluster, topic, tmp_path)
    for name, value, why in (
        ("order", "what", "a number, date or timestamp, not string"),
        ("order", "when_made", "a dataset and expressions over its columns .*UNRESOLVED_COLUMN"),
        ("path", str(tmp_path / "nowhere"), "a dataset and expressions over its columns .*PATH_NOT_FOUND"),
        ("key", "length(who)", "column key has the value 'int'"),
    ):
        with pytest.raises(ConfigError, match=why):
            run(session, entries | {f"spark.backfill.{name}": value})
    rows.where("false").write.parquet(str(tmp_path / "empty"))
    with pytest.raises(ConfigError, match="a dataset that has rows"):
        run(session, entries | {"spark.backfill.path": str(tmp_path / "empty")})
    for name in ("order", "key"):
        null = {"order": "IF(what = '7', NULL, made)", "key": "nullif(who, 'k3')"}[name]
        other = {f"spark.backfill.{name}": null, "spark.backfill.checkpoint": str(tmp_path / name)}
        with pytest.raises(Exception, match=f"spark.backfill.{name} is null for a row"):
            run(session, entries | other)
    assert records_in_order(cluster, topic) == []


def test_times_without_a_zone_order_rows(session: SparkSession, tmp_path: Path) -> None:
    """As other tools write them to Parquet."""
    made = "TIMESTAMP_NTZ'2026-03-01 00:00:00' + make_dt_interval(id)"
    session.range(10).selectExpr("'k' AS who", f"{made} AS made").write.parquet(str(tmp_path / "data"))
    found = {"path": str(tmp_path / "data"), "format": "parquet", "key": "who", "value": "who"}
    rows = backfill.records(session, found | {"order": "made"})
    plan = backfill.plan(rows, found | {"order": "made", "batchRecords": 5, "tasks": 1, "topic": "orders"})
    (end,) = (row["upto"] for row in plan.where("batch = 0").collect())
    assert rows.where(fn.col(backfill.ORDER) <= end).count() == 5


@pytest.mark.long
def test_a_plan_is_of_one_time_zone(session: SparkSession, tmp_path: Path) -> None:
    """Its bounds are instants: in another zone rows whose times are text would be left out, or written twice."""
    session.range(10).selectExpr(
        "'k' AS who", "'v' AS what", "concat('2026-03-01 0', id, ':00:00') AS made"
    ).write.parquet(str(tmp_path / "data"))
    found = {name: setting.default for name, setting in backfill.SETTINGS.items()} | {
        "path": str(tmp_path / "data"),
        "checkpoint": str(tmp_path / CHECKPOINT),
        "order": "to_timestamp(made)",
        "key": "who",
        "value": "what",
        "batchRecords": 5,
        "topic": "orders",
    }
    session.conf.set(backfill.TIME_ZONE, "UTC")
    noted = backfill.planned(backfill.records(session, found), found).collect()
    assert sorted(row["batch"] for row in noted) == [0, 1]
    assert backfill.planned(backfill.records(session, found), found).collect() == noted
    session.conf.set(backfill.TIME_ZONE, "America/New_York")
    with pytest.raises(
        ConfigError,
        match=r"timeZone=America/New_York.*the checkpoint was begun with .*timeZone=UTC; keep that, or set",
    ):
        backfill.planned(backfill.records(session, found), found)
