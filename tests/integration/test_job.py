"""``jobs/ordered_copy.py`` under spark-submit, with the properties file that users start from."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from pyspark.errors import SparkRuntimeException
from pyspark.sql import SparkSession

from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.spark.datasource import CONF_PREFIX
from spark_ordered_kafka.spark.options import check_defaults
from tests.streams import FORMAT, Collector, NumberedWriter, change, create, options

ROOT = Path(__file__).parents[2]
PROPERTIES = ROOT / "conf" / "ordered_copy.properties"


def submit(cluster: LocalCluster, directory: Path, **conf: str) -> subprocess.CompletedProcess[str]:
    """Run the job with the shipped properties file; ``conf`` overrides entries, their dots written as ``__``."""
    overrides = {
        "spark.ordered-kafka.kafka.bootstrap.servers": cluster.bootstrap_servers,
        "spark.ordered-kafka.controller.url": cluster.controller_url,
        "spark.ordered_copy.checkpoint": str(directory / "checkpoint"),
        "spark.ordered_copy.trigger": "availableNow",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
    } | {name.replace("__", "."): value for name, value in conf.items()}
    arguments = [word for name, value in overrides.items() for word in ("--conf", f"{name}={value}")]
    spark_submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    return subprocess.run(
        [
            spark_submit,
            "--master",
            "local[2]",
            "--properties-file",
            PROPERTIES,
            *arguments,
            "jobs/ordered_copy.py",
        ],
        cwd=ROOT,
        env=os.environ | {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


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
    result = submit(
        cluster,
        tmp_path,
        **{
            "spark__ordered-kafka__subscribe": source,
            "spark__ordered-kafka__topic": target,
            "spark__ordered_copy__key": "concat('group-', crc32(key) % 3)",
        },
    )
    assert result.returncode == 0, result.stderr[-3000:]
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
    rows = spark.read.format(FORMAT).options(**options(cluster, subscribe=topic)).load()
    rekeyed = runpy.run_path(str(ROOT / "jobs" / "ordered_copy.py"))["rekeyed"]
    expression = properties()["spark.ordered_copy.key"]
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
    names = {"spark__ordered-kafka__subscribe": source, "spark__ordered-kafka__topic": target}
    result = submit(cluster, tmp_path, **names)
    assert result.returncode != 0
    assert KEYLESS.format(source) in result.stderr
    assert spark.read.format(FORMAT).options(**options(cluster, subscribe=target)).load().count() == 0


def test_a_wrong_setting_ends_the_job_with_one_line(cluster: LocalCluster, tmp_path: Path) -> None:
    result = submit(cluster, tmp_path, spark__ordered_copy__tasks="many")
    assert result.returncode == 1
    assert (
        "error: spark.ordered_copy.tasks has the value 'many': a whole number of at least 1"
        in result.stdout + result.stderr
    )


def test_the_properties_file_names_only_options_that_exist() -> None:
    entries = properties()
    check_defaults({k[len(CONF_PREFIX) :]: v for k, v in entries.items() if k.startswith(CONF_PREFIX)})
    own = {k for k in entries if k.startswith("spark.ordered_copy.")}
    assert own == {
        f"spark.ordered_copy.{name}" for name in ("checkpoint", "key", "value", "tasks", "trigger")
    }


def properties() -> dict[str, str]:
    """The shipped file's entries."""
    lines = [
        line.split(None, 1)
        for line in PROPERTIES.read_text().splitlines()
        if line and not line.startswith("#")
    ]
    return dict(lines)
