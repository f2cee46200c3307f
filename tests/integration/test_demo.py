"""The demo with fewer records: the whole main job in one test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_ordered_kafka import ControllerClient, register
from spark_ordered_kafka.demo import INPUT, OUTPUT, Demo, DemoPlan, Progress
from spark_ordered_kafka.local import LocalCluster
from tests.servers import TIMEOUT
from tests.streams import misrouted, options


@pytest.mark.long
def test_both_topics_change_under_load(cluster: LocalCluster, spark: SparkSession, tmp_path: Path) -> None:
    defaults = {f"spark.ordered-kafka.{name}": value for name, value in options(cluster).items()}
    for name, value in defaults.items():
        spark.conf.set(name, value)
    seen: list[str] = []

    def watch(progress: Progress) -> None:
        seen.append(progress.change)

    try:
        register(spark)
        with ControllerClient(cluster.controller_url) as controller:
            plan = DemoPlan(records=30_000, keys=700, rows_per_batch=3_000)
            report = Demo(spark, controller, tmp_path, plan, watch).run()
    finally:
        for name in defaults:
            spark.conf.unset(name)
        register(spark)
    assert report.violations == 0, (report.delivered, report.recovered)
    assert report.delivered.records == 30_000
    assert [(topic, change.target) for topic, change in report.changes] == [
        (topic, target) for _, topic, target in plan.changes
    ]
    assert any("8 → 3 partitions: done" in line for line in seen)
    assert misrouted(cluster, INPUT) + misrouted(cluster, OUTPUT) == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "locale"), [("two words", "C.UTF-8"), ("jürgen", "C.UTF-8"), ("jürgen", "C")]
)
def test_a_session_logs_in_any_directory(tmp_path: Path, name: str, locale: str) -> None:
    # A JVM of its own: it takes its options when it starts.
    code = (
        "import sys; from pathlib import Path; from spark_ordered_kafka.demo import spark_session\n"
        "with spark_session(Path(sys.argv[1]), {}) as spark: print(spark.range(3).count())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / name)],
        env=os.environ | {"LC_ALL": locale},
        capture_output=True,
        text=True,
        timeout=8 * TIMEOUT,
    )
    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr
    assert (tmp_path / name / "spark.log").exists()
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.long
@pytest.mark.parametrize("words", [["demo"], ["autoscale", "demo"]], ids=" ".join)
def test_a_demo_that_has_run_in_the_directory_is_told(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "spark").mkdir()
    (tmp_path / "controller.toml").touch()
    done = subprocess.run(
        [sys.executable, "-m", "spark_ordered_kafka.cli", *words, "--dir", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert done.returncode == 2
    assert done.stderr == (
        f"error: --dir has the value '{tmp_path}': a demo has run there; name another directory\n"
    )
    assert not (tmp_path / "servers").exists()
