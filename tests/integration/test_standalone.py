"""A job on Spark's standalone cluster: two workers that know nothing of this package, and a driver outside of them."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.version import __version__
from tests.integration import speculating
from tests.integration.standalone import (
    ARCHIVED,
    Standalone,
    archive,
    await_line,
    node_python,
    package_directory,
)
from tests.packaging.requirements import ROOT
from tests.queries import await_stable
from tests.streams import NumberedWriter, change, create, judged, misrouted, records_in_order

# Spark's driver about its tasks.
EXITED = re.compile(
    r" task \d+\.\d+ in stage .*? failed because while it was being computed, its executor exited"
)
OVER = re.compile(r"Finished task .*?\((TID \d+)\)")

DEADLINE = 300.0

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """A master and two workers."""
    directory = tmp_path_factory.mktemp("standalone")
    with Standalone(directory, node_python(directory / "python")) as started:
        started.add_worker()
        started.add_worker(host="127.0.0.2")
        yield started


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the driver has on its path; the archive beside it is shipped."""
    directory = package_directory(tmp_path_factory.mktemp("driver") / "packages")
    archive(directory)
    return directory


def job_conf(
    cluster: LocalCluster, source: str, target: str, checkpoint: Path, packages: Path
) -> dict[str, str]:
    """Spark conf of the shipped job, in small micro-batches."""
    return {
        "spark.archives": f"{packages.with_suffix('.tar')}#{ARCHIVED}",
        "spark.executorEnv.PYTHONPATH": ARCHIVED,
        "spark.ordered-kafka.kafka.bootstrap.servers": cluster.bootstrap_servers,
        "spark.ordered-kafka.controller.url": cluster.controller_url,
        "spark.ordered-kafka.subscribe": source,
        "spark.ordered-kafka.startingOffsets": "earliest",
        "spark.ordered-kafka.maxOffsetsPerTrigger": "600",
        "spark.ordered-kafka.topic": target,
        "spark.ordered_copy.checkpoint": str(checkpoint),
        "spark.ordered_copy.key": "concat('group-', crc32(key) % 7)",
        "spark.ordered_copy.tasks": "3",
        "spark.ordered_copy.trigger": "availableNow",
    }


def kill_in_task(standalone: Standalone, process: subprocess.Popen[bytes], log: Path, number: int) -> None:
    """Kill an executor that runs task ``number`` of a stage, by the driver's log, until one was in the middle of it."""
    deadline = time.monotonic() + DEADLINE
    begin = len(log.read_text())
    while time.monotonic() < deadline:
        text = log.read_text()[begin:]
        assert process.poll() is None, text[-3000:]
        if f"Lost task {number}." in text or f" task {number}." in "".join(EXITED.findall(text)):
            return
        over = set(OVER.findall(text)) | set(re.findall(r"Lost executor (\d+)", text))
        started = re.findall(rf"Starting task {number}\.\d+ .*?\(TID (\d+)\) .*?executor (\d+)", text)
        busy = {executor for task, executor in started if not {f"TID {task}", executor} & over}
        for worker in standalone.workers:
            for name, executor in worker.executors().items():
                if name in busy:
                    executor.kill()
        # Not a wait for an event: it bounds how often a file is read.
        time.sleep(0.02)
    raise AssertionError(f"no executor died in task {number} within {DEADLINE:g} s")


def ended(process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait for the end of the job, which must succeed."""
    assert process.wait(DEADLINE) == 0, log.read_text()[-3000:]


def test_an_executor_without_the_package_or_with_another_version_is_named(
    cluster: LocalCluster, standalone: Standalone, packages: Path, topic_name: str, tmp_path: Path
) -> None:
    """Then the same job is submitted as it should be."""
    source, target = create(cluster, f"{topic_name}-in", 2), create(cluster, f"{topic_name}-out", 2)
    writer = NumberedWriter(cluster, source)
    writer.write(2)
    await_stable(cluster, source)
    other = tmp_path / "other"
    shutil.copytree(packages, other, ignore=shutil.ignore_patterns("__pycache__"))
    (other / "spark_ordered_kafka" / "version.py").write_text('__version__ = "0.0.7"\n')
    archive(other)
    checkpoint = tmp_path / "checkpoint"
    right = job_conf(cluster, source, target, checkpoint, packages)
    wrong = {
        f"the package spark-ordered-kafka (the driver has {__version__}) cannot be imported on host {platform.node()}"
        f" by {standalone.python}: No module named 'spark_ordered_kafka'. Install it there": {
            name: value
            for name, value in right.items()
            if name not in ("spark.archives", "spark.executorEnv.PYTHONPATH")
        },
        f"spark-ordered-kafka on host {platform.node()} has the value '0.0.7': the driver has {__version__}": (
            job_conf(cluster, source, target, checkpoint, other)
        ),
    }
    job = str(ROOT / "jobs" / "ordered_copy.py")
    for number, (said, conf) in enumerate(wrong.items()):
        log = tmp_path / f"driver-{number}" / "log"
        with standalone.submitted(log, packages, conf, job) as process:
            assert process.wait(DEADLINE) != 0
        assert said in log.read_text(), log.read_text()[-5000:]
    log = tmp_path / "driver" / "log"
    with standalone.submitted(log, packages, right, job) as process:
        ended(process, log)
    assert judged(records_in_order(cluster, target), writer.written).violations == 0


def test_a_speculative_copy_of_a_slow_task_writes_nothing_twice(
    cluster: LocalCluster, standalone: Standalone, packages: Path, topic_name: str, tmp_path: Path
) -> None:
    """Both are in the middle of their rows at the same time; neither fails."""
    target, mark, log = create(cluster, topic_name, 2), tmp_path / "copied", tmp_path / "driver" / "log"
    conf = {
        "spark.archives": f"{packages.with_suffix('.tar')}#{ARCHIVED}",
        "spark.executorEnv.PYTHONPATH": ARCHIVED,
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(speculating.NUMBERS),
        "spark.task.maxFailures": "1",
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.minTaskRuntime": "100ms",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.efficiency.enabled": "false",
    }
    arguments = (speculating.__file__, cluster.bootstrap_servers, cluster.controller_url, target, str(mark))
    with standalone.submitted(log, packages, conf, *arguments) as process:
        ended(process, log)
    assert mark.exists(), "Spark has run no copy"
    written = speculating.KEYS * speculating.NUMBERS
    report = judged(records_in_order(cluster, target), written)
    assert report.violations == 0, report


def test_an_executor_is_killed_in_mid_batch(
    cluster: LocalCluster, standalone: Standalone, packages: Path, topic_name: str, tmp_path: Path
) -> None:
    """Two of them, one after the other, in tasks of one micro-batch; the shuffle files go with them.

    Then the job is submitted again, with one worker less and another partition count.
    """
    source, target = create(cluster, f"{topic_name}-in", 2), create(cluster, f"{topic_name}-out", 2)
    writer = NumberedWriter(cluster, source, keys=40, step=15)
    writer.write(2)
    change(cluster, source, 5)
    # A micro-batch each: enough that the job is not over before an executor dies in the right task.
    writer.write(8)
    checkpoint, log = tmp_path / "checkpoint", tmp_path / "driver" / "log"
    conf = job_conf(cluster, source, target, checkpoint, packages)
    job = str(ROOT / "jobs" / "ordered_copy.py")
    with standalone.submitted(log, packages, conf, job) as process:
        await_line(log, "Finished (task)", process)
        mapped = {path for worker in standalone.workers for path in worker.mapped_files()}
        # Task 2 of a stage is one that writes: a micro-batch is read by one task.
        kill_in_task(standalone, process, log, 0)
        kill_in_task(standalone, process, log, 2)
        ended(process, log)
    extensions = [path for path in mapped if path.name.startswith(("_kernel.", "cimpl."))]
    assert {path.name.partition(".")[0] for path in extensions} == {"_kernel", "cimpl"}
    # Only what was shipped, below the directory of an executor.
    assert all(f"/{ARCHIVED}/" in str(path) and "/worker-" in str(path) for path in extensions), extensions
    assert judged(records_in_order(cluster, target), writer.written).violations == 0

    change(cluster, target, 3)
    writer.write(2)
    await_stable(cluster, source)
    standalone.workers[0].process.terminate()
    with standalone.submitted(log, packages, conf, job) as process:
        ended(process, log)
    report = judged(records_in_order(cluster, target), writer.written)
    assert report.violations == 0, report
    assert misrouted(cluster, target) == []
