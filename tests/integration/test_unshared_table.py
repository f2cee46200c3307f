"""``jobs/apply_changes.py`` on a cluster whose executors do not see the table's directory of the driver."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_ordered_kafka import OrderedProducer
from spark_ordered_kafka.local import LocalCluster
from tests.integration.job_runs import ROOT, properties, servers
from tests.integration.standalone import (
    ARCHIVED,
    UNSHARE,
    Standalone,
    archive,
    node_python,
    package_directory,
)
from tests.streams import conf, create

APART = subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode == 0
DEADLINE = 300.0
# What the job does with a micro-batch, without what it asks when it starts.
PROGRAM = """
import sys
from pathlib import Path
from apply_changes import apply, columns
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
spark.sparkContext.setLocalProperty("sql.streaming.queryId", "11111111-2222-3333-4444-555555555555")
schema = "topic STRING, partition INT, layout_epoch INT, offset LONG, key BINARY, value BINARY"
rows = [("people", 0, 0, n, b"k%d" % n, b'{"name": "n"}') for n in range(5)]
found = {"table": Path(sys.argv[1]), "columns": columns("columns", "name STRING"), "format": "row"}
apply(found, spark.createDataFrame(rows, schema), 0)
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """The table's directory, on the driver's disk."""
    (tmp_path / "disk").mkdir()
    return tmp_path / "disk" / "table"


@pytest.fixture
def standalone(table: Path, tmp_path: Path) -> Iterator[Standalone]:
    """A master, and a worker with a disk of its own in the place of the driver's."""
    with Standalone(tmp_path, node_python(tmp_path / "python")) as started:
        started.add_worker(hidden=table.parent)
        yield started


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """What the driver has on its path, and what is shipped."""
    directory = package_directory(tmp_path / "packages")
    archive(directory)
    for name in ("apply_changes.py", "job_settings.py"):
        (directory / name).symlink_to(ROOT / "jobs" / name)
    return directory


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.skipif(not APART, reason="processes with mounts of their own are not allowed here")
def test_a_table_that_executors_do_not_see_is_refused_and_never_empty(
    cluster: LocalCluster,
    standalone: Standalone,
    packages: Path,
    table: Path,
    topic_name: str,
    tmp_path: Path,
) -> None:
    create(cluster, topic_name, 2)
    with OrderedProducer(conf(cluster)) as producer:
        producer.produce(topic_name, key="k", value=b'{"name": "n"}')
    given = properties("apply_changes") | servers(cluster)
    given |= {
        "spark.archives": f"{packages.with_suffix('.tar')}#{ARCHIVED}",
        "spark.executorEnv.PYTHONPATH": ARCHIVED,
        "spark.ordered-kafka.subscribe": topic_name,
        "spark.apply_changes.checkpoint": str(tmp_path / "checkpoint"),
        "spark.apply_changes.table": str(table),
        "spark.apply_changes.trigger": "availableNow",
    }
    log = tmp_path / "job" / "log"
    with standalone.submitted(log, packages, given, str(ROOT / "jobs" / "apply_changes.py")) as process:
        assert process.wait(DEADLINE) == 1
    said = f"error: spark.apply_changes.table has the value '{table}': executors on "
    assert said in log.read_text(), log.read_text()[-5000:]
    assert not (tmp_path / "checkpoint").exists()
    assert list(table.iterdir()) == []

    program, log = tmp_path / "program.py", tmp_path / "batch" / "log"
    program.write_text(PROGRAM)
    with standalone.submitted(log, packages, given, str(program), str(table)) as process:
        assert process.wait(DEADLINE) == 1
    assert "executors have written 5 rows, of which the driver finds 0" in log.read_text(), log.read_text()[
        -5000:
    ]
    assert not (table / "current").exists()
