"""Options in Spark conf that a session does not read are an error, however Spark was launched."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from spark_ordered_kafka.local import LocalCluster
from tests.streams import FORMAT, NumberedWriter, create, options

PROGRAM = Path(__file__).parent / "unread_conf.py"
SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"


@pytest.mark.long
@pytest.mark.parametrize("launched", ["by python", "by spark-submit"])
def test_conf_that_is_not_read(cluster: LocalCluster, topic_name: str, tmp_path: Path, launched: str) -> None:
    create(cluster, topic_name, 1)
    NumberedWriter(cluster, topic_name).write()
    conf = options(cluster, subscribe=topic_name, failOnDataLoss="false")
    if launched == "by python":
        command: list[str | Path] = [sys.executable, PROGRAM, topic_name, json.dumps(conf)]
    else:
        properties = tmp_path / "job.properties"
        properties.write_text(
            "".join(f"spark.ordered-kafka.{name} {value}\n" for name, value in conf.items())
        )
        command = [
            SUBMIT,
            "--master",
            "local[1]",
            "--properties-file",
            properties,
            PROGRAM,
            topic_name,
            "launched",
        ]
    python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    done = subprocess.run(
        command,
        env=os.environ | python | {"SPARK_LOCAL_IP": "127.0.0.1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    said = dict(line.split(": ", 1) for line in done.stdout.splitlines() if ": " in line)
    names = sorted(f"spark.ordered-kafka.{name}" for name in conf)
    advice = (
        "this session does not read it: call spark_ordered_kafka.register(spark) before the first read or write,"
        " or give these as options"
    )
    assert f"Spark conf has the value '{', '.join(names)}': {advice}" in said["nothing given"]
    assert f"Spark conf has the value 'spark.ordered-kafka.failOnDataLoss': {advice}" in said["one left out"]
    # includeHeaders was set in the session: no process but the driver can know of that.
    assert (said["all given"], said["registered"]) == ("100 rows, False", "100 rows, True")
    begins = (
        f"INFO spark_ordered_kafka.spark.stream: topic {topic_name!r}: the query begins with layout epoch 0,"
    )
    assert done.stderr.count(begins) == 1


def test_a_missing_option_says_that_conf_is_not_read(
    cluster: LocalCluster, spark: SparkSession, topic_name: str
) -> None:
    """Of conf that was set in a session."""
    from spark_ordered_kafka.spark.datasource import OrderedKafkaDataSource

    spark.dataSource.register(OrderedKafkaDataSource)  # as Spark finds it
    spark.conf.set("spark.ordered-kafka.controller.url", cluster.controller_url)
    servers = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribe": topic_name}
    try:
        with pytest.raises(Exception, match=r"controller.url is missing(?s:.*)register\(spark\) before"):
            spark.read.format(FORMAT).options(**servers).load()
    finally:
        spark.conf.unset("spark.ordered-kafka.controller.url")
