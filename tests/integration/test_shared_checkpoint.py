"""Two queries with one checkpoint: at once, and one after the other with another topic or writer name."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import product
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_ordered_kafka.local import LocalCluster
from tests.integration.copy_driver import GATE, copy
from tests.integration.replaying import Replayed, once
from tests.integration.test_killed_driver import DEADLINE, await_batches, driver
from tests.queries import await_stable
from tests.servers import await_true
from tests.streams import FORMAT, NumberedWriter, create, judged, misrouted, options, records_in_order

CONCURRENT = re.compile(
    "CONCURRENT_STREAM_LOG_UPDATE|Multiple streaming queries are concurrently using|another driver runs the query, too"
)
"""Spark's own errors, and that of a task whose batch another driver has ended, and a later one."""


def topics(cluster: LocalCluster, name: str) -> tuple[str, str, NumberedWriter]:
    """Source and target, and what has written to the source."""
    source, target = create(cluster, f"{name}-in", 3), create(cluster, f"{name}-out", 2)
    writer = NumberedWriter(cluster, source, keys=40, step=15)
    writer.write(7)
    return source, target, writer


def begin_a_batch(cluster: LocalCluster, source: str, target: str, checkpoint: Path) -> None:
    """Run a driver until it is in a batch, and kill it."""
    with driver(cluster, source, target, checkpoint) as process:
        await_batches(process, checkpoint, 2)


def run_at_once(cluster: LocalCluster, source: str, target: str, homes: Sequence[Path]) -> list[int]:
    """Run a driver in each directory, which go on together once Spark runs in all; their exit codes."""
    with ExitStack() as stack:
        processes = [
            stack.enter_context(driver(cluster, source, target, home / "checkpoint")) for home in homes
        ]
        await_true(lambda: all((home / "ready").exists() for home in homes), "Spark runs in both", DEADLINE)
        (homes[0].parent / "go").touch()
        return [process.wait(2 * DEADLINE) for process in processes]


@pytest.mark.long
@pytest.mark.timeout(600)
def test_two_drivers_at_once(
    cluster: LocalCluster,
    spark: SparkSession,
    topic_name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both begin with the same batch, which an earlier run has begun."""
    source, target, writer = topics(cluster, topic_name)
    checkpoint, homes = tmp_path / "checkpoint", [tmp_path / "a", tmp_path / "b"]
    begin_a_batch(cluster, source, target, checkpoint)
    for home in homes:
        home.mkdir()
        (home / "checkpoint").symlink_to(checkpoint)
    # Or one has copied all before Spark runs in the other.
    monkeypatch.setenv(GATE, str(tmp_path))
    ends = run_at_once(cluster, source, target, homes)
    logs = [(home / "driver.log").read_text() for home in homes]
    assert any(ends), "both ended well"
    for end, log in zip(ends, logs, strict=True):
        assert end == 0 or CONCURRENT.search(log), log[-5000:]
    query = copy(spark, options(cluster), source, target, str(checkpoint))
    assert query.awaitTermination(DEADLINE), f"not copied within {DEADLINE:g} s"
    assert judged(records_in_order(cluster, target), writer.written).violations == 0
    assert misrouted(cluster, target) == []


@pytest.mark.long
@pytest.mark.timeout(600)
def test_two_drivers_at_once_each_with_a_copy(
    cluster: LocalCluster,
    spark: SparkSession,
    topic_name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Spark sees no second query there."""
    source, target, writer = topics(cluster, topic_name)
    checkpoint, homes = tmp_path / "checkpoint", [tmp_path / "a", tmp_path / "b"]
    begin_a_batch(cluster, source, target, checkpoint)
    for home in homes:
        shutil.copytree(checkpoint, home / "checkpoint")
    monkeypatch.setenv(GATE, str(tmp_path))
    ends = run_at_once(cluster, source, target, homes)
    found = judged(records_in_order(cluster, target), writer.written)
    assert 0 in ends, "neither has copied all"
    assert found.violations == 0, found
    assert misrouted(cluster, target) == []


@pytest.mark.long
def test_a_second_start_in_one_session_stops_the_first(
    cluster: LocalCluster, spark: SparkSession, topic_name: str, tmp_path: Path
) -> None:
    """By Spark's spark.sql.streaming.stopActiveRunOnRestart."""
    source, target = create(cluster, f"{topic_name}-in", 2), create(cluster, f"{topic_name}-out", 2)
    writer = NumberedWriter(cluster, source)
    writer.write(4)
    await_stable(cluster, source)
    rows = spark.readStream.format(FORMAT).options(
        **options(cluster, subscribe=source, startingOffsets="earliest")
    )
    sink = options(cluster, topic=target, checkpointLocation=tmp_path / "checkpoint")
    first = rows.load().writeStream.format(FORMAT).options(**sink).start()
    second = rows.load().writeStream.format(FORMAT).options(**sink).start()
    try:
        assert not first.isActive
        second.processAllAvailable()
    finally:
        second.stop()
    assert judged(records_in_order(cluster, target), writer.written).violations == 0


@pytest.mark.long
@pytest.mark.parametrize("stopped", ["between batches", "in mid-batch"])
def test_another_topic_later(
    cluster: LocalCluster, spark: SparkSession, topic_name: str, tmp_path: Path, stopped: str
) -> None:
    """The new topic has all of the batches that were not ended; the old one nothing twice."""
    old, new = create(cluster, f"{topic_name}-old", 2), create(cluster, f"{topic_name}-new", 2)
    query = Replayed(cluster, spark, tmp_path, sink={"topic": old})
    query.give(0, range(20))
    query.run(2, "n % 2")
    query.give(1, range(20, 40))
    query.run(2, "n % 2")
    if stopped == "in mid-batch":
        query.forget(1)
    query.give(2, range(40, 60))
    query.sink["topic"] = new
    query.run(2, "n % 2")
    assert query.written(old) == once(range(40))
    assert query.written(new) == once(range(20 if stopped == "in mid-batch" else 40, 60))


@pytest.mark.long
@pytest.mark.parametrize(
    ("names", "batches"),
    list(product(((None, "w"), ("w", None), ("v", "w")), (1, 2))),
    ids=str,
)
def test_another_writer_later(
    cluster: LocalCluster,
    spark: SparkSession,
    topic_name: str,
    tmp_path: Path,
    names: tuple[str | None, str | None],
    batches: int,
) -> None:
    create(cluster, topic_name, 2)
    before, after = ({} if name is None else {"writer": name} for name in names)
    query = Replayed(cluster, spark, tmp_path, sink={"topic": topic_name})
    for batch in range(batches):
        query.give(batch, range(20 * batch, 20 * batch + 20))
        query.run(2, "n % 2", **before)
    query.forget(batches - 1)
    # The first error, and the error of each later attempt.
    name = before.get("writer", "[0-9a-f-]{36}")
    for _ in range(2):
        with pytest.raises(Exception, match=f"(?s)would be written twice.*set the option writer to {name}"):
            query.run(2, "n % 2", **after)
    assert query.written(topic_name) == once(range(20 * batches))
    query.run(2, "n % 2", **before)
    query.give(batches, range(20 * batches, 20 * batches + 20))
    query.run(2, "n % 2", **after)
    assert query.written(topic_name) == once(range(20 * batches + 20))
