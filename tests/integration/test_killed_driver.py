"""``kill -9`` of the whole driver in mid-batch, during and outside a change; restarted, the output is exact."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from spark_ordered_kafka import ControllerClient
from spark_ordered_kafka.client.schemas import PartitionCountsRequest, TopicPartitionCount
from spark_ordered_kafka.kafka.buffer import Memory
from spark_ordered_kafka.kafka.task import TaskTransaction
from spark_ordered_kafka.local import LocalCluster
from tests.integration.copy_driver import copy
from tests.streams import (
    FORMAT,
    Collector,
    NumberedWriter,
    change,
    create,
    delivered,
    misrouted,
    numbered,
    options,
    writer_context,
)

ROOT = Path(__file__).parents[2]
DEADLINE = 150


@contextmanager
def driver(
    cluster: LocalCluster, source: str, target: str, checkpoint: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """The copying driver in a process group of its own; every process of it is killed at the end of the block."""
    arguments = [cluster.bootstrap_servers, cluster.controller_url, source, target, str(checkpoint)]
    with (checkpoint.parent / "driver.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.copy_driver", *arguments],
            cwd=ROOT,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        kill_all(process)


def kill_all(process: subprocess.Popen[bytes]) -> None:
    """``kill -9`` of the driver, its JVM and its Python workers at once."""
    if process.poll() is not None:
        return
    family = [process.pid, *(child.pid for child in psutil.Process(process.pid).children(recursive=True))]
    for pid in family:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.wait(30)


def await_batches(
    process: subprocess.Popen[bytes],
    checkpoint: Path,
    count: int,
    timeout: float = DEADLINE,
    more: Callable[[], None] = lambda: None,
) -> None:
    """Wait until the driver has begun ``count`` micro-batches and not finished the last: it is in mid-batch.

    ``more`` is called when so many are begun and all are finished: it writes what another one begins with.
    """
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        assert process.poll() is None, "the driver ended before it could be killed"
        begun = len([p for p in (checkpoint / "offsets").glob("*") if p.name.isdigit()])
        done = len([p for p in (checkpoint / "commits").glob("*") if p.name.isdigit()])
        if begun >= count:
            if begun > done:
                return
            more()
        # Not a wait for an event: it bounds how often a directory is looked at.
        time.sleep(0.005)
    raise AssertionError(f"no {count} micro-batches within {timeout:g} s")


def await_closing(controller: ControllerClient, topic: str) -> None:
    """Wait until writers of the topic are held by a change that has begun, or were: it may end before anybody looks."""
    deadline = time.monotonic() + DEADLINE
    while not controller.layout(topic).changing and controller.change(topic).change is not None:
        assert time.monotonic() < deadline, f"{topic} was not closing within {DEADLINE:g} s"


def await_end(cluster: LocalCluster, topic: str, count: int) -> None:
    """Wait for the end of the change in progress, which must succeed."""
    with ControllerClient(cluster.controller_url) as controller:
        controller.wait_for_layout(topic, DEADLINE)
        ended = controller.change(topic).last_change
    assert ended is not None
    assert (ended.outcome, ended.target) == ("done", count)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_killed_in_mid_batch_during_and_outside_changes(
    cluster: LocalCluster, spark: SparkSession, topic_name: str, tmp_path: Path
) -> None:
    source, target = create(cluster, f"{topic_name}-in", 1), create(cluster, f"{topic_name}-out", 2)
    writer = NumberedWriter(cluster, source, keys=40, step=15)
    for count in (3, 2, 4):
        writer.write()
        change(cluster, source, count)
    writer.write(2)
    checkpoint = tmp_path / "checkpoint"
    with driver(cluster, source, target, checkpoint) as process:
        await_batches(process, checkpoint, 3)
    with driver(cluster, source, target, checkpoint) as process:
        await_batches(process, checkpoint, 6)
        # A writer that does not finish makes the change drain for a while; the driver dies in the middle of that.
        idle = TaskTransaction(writer_context(cluster), target, f"ordered:{target}:idle:0", 0, Memory(1000))
        idle.write(numbered(1, 9999, 1))
        with ControllerClient(cluster.controller_url) as controller:
            request = PartitionCountsRequest(topics=[TopicPartitionCount(topic=target, partition_count=5)])
            assert controller.alter_partition_counts(request).topics[0].error == "NONE"
            await_closing(controller, target)
    idle.abort()
    await_end(cluster, target, 5)
    writer.write()
    # AvailableNow first ends what an earlier run had begun; one more run copies what was written since.
    for _ in range(2):
        query = copy(spark, options(cluster), source, target, str(checkpoint))
        assert query.awaitTermination(DEADLINE), f"not copied within {DEADLINE:g} s"
    assert misrouted(cluster, source) + misrouted(cluster, target) == []
    in_batch = Collector()
    in_batch.add(spark.read.format(FORMAT).options(**options(cluster, subscribe=target)).load())
    assert in_batch.report(writer.written).violations == 0, in_batch.report(writer.written)
    lagging = options(cluster, subscribe=target, startingOffsets="earliest", maxOffsetsPerTrigger=500)
    report = delivered(spark, lagging, str(tmp_path / "judge")).report(writer.written)
    assert report.violations == 0, report
