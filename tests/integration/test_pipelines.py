"""Source and sink in a declarative pipeline of Spark, run by its own command."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from spark_ordered_kafka.local import LocalCluster
from tests.integration.standalone import SPARK_HOME, environment
from tests.packaging.requirements import ROOT
from tests.streams import NumberedWriter, change, create, judged, options, records_in_order

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

PIPELINE = """
    name: copies
    storage: {storage}
    libraries:
      - glob:
          include: transformations/**
"""
FLOW = """
    from pyspark import pipelines as dp
    from pyspark.sql import SparkSession

    OPTIONS = {options}
    spark = SparkSession.active()

    dp.create_sink("copied", "ordered-kafka", {{**OPTIONS, "topic": {target!r}}})

    @dp.append_flow(target="copied")
    def copy():
        source = spark.readStream.format("ordered-kafka").options(**OPTIONS, subscribe={source!r})
        return source.option("startingOffsets", "earliest").load().select("key", "value")
"""


def test_a_flow_copies_what_has_come_since_its_last_run(
    cluster: LocalCluster, topic_name: str, tmp_path: Path
) -> None:
    """Source and target grow between the runs; the pipeline has a checkpoint of its own."""
    source, target = (create(cluster, f"{topic_name}-{name}", 2) for name in ("in", "out"))
    (tmp_path / "transformations").mkdir()
    (tmp_path / "spark-pipeline.yml").write_text(
        textwrap.dedent(PIPELINE).format(storage=(tmp_path / "storage").as_uri())
    )
    (tmp_path / "transformations" / "copy.py").write_text(
        textwrap.dedent(FLOW).format(options=options(cluster), source=source, target=target)
    )
    writer = NumberedWriter(cluster, source)
    for count in (3, 5, 2):
        writer.write(4)
        done = subprocess.run(
            [SPARK_HOME / "bin" / "spark-pipelines", "run", "--conf", "spark.ui.enabled=false"],
            cwd=tmp_path,
            env=environment(PYTHONPATH=str(ROOT), PYSPARK_PYTHON=sys.executable),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        assert judged(records_in_order(cluster, target), writer.written).violations == 0
        change(cluster, source, count)
        change(cluster, target, count)
