"""The settings of all jobs: shipped files name what exists, and wrong ones are refused by name, all at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import apply_changes
import backfill
import keyed_balance
import mirror
import ordered_copy
import pytest
from pyspark.sql import SparkSession

from spark_ordered_kafka import register
from spark_ordered_kafka.errors import ConfigError, ConfigErrors
from spark_ordered_kafka.spark.options import check_defaults, sink_options, source_options
from tests.integration.job_runs import properties

JOBS: dict[str, ModuleType] = {
    module.__name__: module for module in (apply_changes, backfill, keyed_balance, mirror, ordered_copy)
}
NO_INTERVAL = "availableNow, or an interval such as 1 second or 5 minutes"

Conf = Callable[..., None]


@pytest.fixture
def conf(spark: SparkSession) -> Iterator[Conf]:
    """``conf(job, name=value)`` gives the session the entries of a job's shipped file and others, which are taken out again."""
    given: dict[str, Any] = {}

    def give(job: str, **more: str | None) -> None:
        prefix = f"spark.{job}."
        entries = properties(job) | {prefix + name: value for name, value in more.items()}
        given.update(
            (name, value)
            for name, value in entries.items()
            if name.startswith(("spark.ordered", prefix[:-1]))
        )
        for name, value in given.items():
            if value is not None:
                spark.conf.set(name, value)

    yield give
    for name in given:
        spark.conf.unset(name)
    register(spark)


def names(errors: ConfigErrors) -> set[str]:
    return {error.option for error in errors.errors}


@pytest.mark.parametrize("job", JOBS)
def test_a_shipped_file_names_all_settings_and_no_other(job: str) -> None:
    entries = properties(job)
    prefix = f"spark.{job}."
    assert {name.removeprefix(prefix) for name in entries if name.startswith(prefix)} == set(
        JOBS[job].SETTINGS
    )
    check_defaults(under(entries, "spark.ordered-kafka."))


def test_the_shipped_options_of_a_mirror_are_whole() -> None:
    source_options(under(properties("mirror"), mirror.SOURCE))
    sink_options(under(properties("mirror"), mirror.TARGET))


def under(entries: dict[str, str], prefix: str) -> dict[str, str]:
    return {name.removeprefix(prefix): value for name, value in entries.items() if name.startswith(prefix)}


@pytest.mark.parametrize("job", ["apply_changes", "keyed_balance", "mirror", "ordered_copy"])
def test_all_that_is_wrong_is_said_at_once(spark: SparkSession, conf: Conf, job: str) -> None:
    conf(job, trigger="often", chekpoint="here", checkpoint=None)
    prefix = f"spark.{job}."
    with pytest.raises(ConfigErrors) as caught:
        JOBS[job].main()
    assert names(caught.value) == {
        f"{prefix}checkpoint",
        f"{prefix}trigger",
        f"unknown setting {prefix}chekpoint",
    }
    assert f"{prefix}trigger has the value 'often': {NO_INTERVAL}" in str(caught.value)
    assert f"{prefix}checkpoint is missing: set it to a directory of this query's own" in str(caught.value)


def test_errors_of_source_and_sink_come_with_those_of_the_job(spark: SparkSession, conf: Conf) -> None:
    conf("keyed_balance", trigger="0")
    spark.conf.set("spark.ordered-kafka.startingOffsets", "soon")
    spark.conf.set("spark.ordered-kafka.topic", "no topic")
    with pytest.raises(ConfigErrors) as caught:
        keyed_balance.main()
    wrong = {"spark.keyed_balance.trigger", "option startingOffsets", "option topic"}
    assert names(caught.value) == wrong


def test_what_a_table_can_be(spark: SparkSession, conf: Conf) -> None:
    conf("apply_changes", table="s3a://bucket/people", columns="name STRINGS", format="avro")
    spark.conf.set("spark.ordered-kafka.subscribe", "people,pets")
    with pytest.raises(ConfigErrors) as caught:
        apply_changes.main()
    prefix = "spark.apply_changes."
    assert names(caught.value) == {
        f"{prefix}table",
        f"{prefix}columns",
        f"{prefix}format",
        "option subscribe",
    }
    assert "one topic: a table has the rows of one" in str(caught.value)


@pytest.mark.parametrize("value", ["key STRING", "name STRING, KEY INT", "INT", "", "name"])
def test_columns_that_a_table_cannot_have(spark: SparkSession, value: str) -> None:
    with pytest.raises(ConfigError, match=r"^columns has the value .*: (another name|columns in SQL)"):
        apply_changes.columns("columns", value)


def test_sides_of_a_mirror_are_named(spark: SparkSession, conf: Conf) -> None:
    conf("mirror")
    with pytest.raises(ConfigErrors) as caught:
        mirror.side(mirror.TARGET, sink_options, {"kafka.bootstrap.servers": "one", "topics": "orders"})
    assert all(str(error).startswith("spark.mirror-target.*: ") for error in caught.value.errors)
    assert "spark.mirror-target.*: option controller.url is missing" in str(caught.value)


def test_what_a_backfill_needs(spark: SparkSession, conf: Conf) -> None:
    conf("backfill", batchRecords="0", tasks="many", path=None)
    with pytest.raises(ConfigErrors) as caught:
        backfill.main()
    assert names(caught.value) == {f"spark.backfill.{name}" for name in ("batchRecords", "tasks", "path")}
