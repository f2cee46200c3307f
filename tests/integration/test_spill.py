"""Rows of a task that memory is not to keep lie in a local directory of the executor."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from spark_ordered_kafka.kafka.replay import Claim
from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.spark.options import sink_options
from spark_ordered_kafka.spark.sink import write_task
from tests.queries import await_stable
from tests.servers import await_true, unstable
from tests.streams import FORMAT, create, options, raw_records

ROWS = 40_000
"""More than Spark hands to the sink at once, so that the sink has some while the others are not there yet."""

_DEADLINE = 120.0


def files_without_a_name(process: psutil.Process) -> set[str]:
    """The directories of open files that are deleted, of all processes below one."""
    found: set[str] = set()
    for child in process.children(recursive=True):
        descriptors = Path(f"/proc/{child.pid}/fd")
        try:
            links = [os.readlink(entry) for entry in descriptors.iterdir()]
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            # The process, or a descriptor, is gone meanwhile.
            continue
        found |= {os.path.dirname(link) for link in links if link.endswith(" (deleted)")}
    return found


@pytest.mark.long
def test_rows_are_spilled_to_sparks_local_directory(
    cluster: LocalCluster, spark: SparkSession, topic_name: str, tmp_path: Path
) -> None:
    topic = create(cluster, topic_name, 1)
    go_on, local_dirs = tmp_path / "go-on", tmp_path / "local-dirs"

    def rows(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        local_dirs.write_text(os.environ["SPARK_LOCAL_DIRS"])
        # In small batches, since Spark's worker keeps the end of what it has written until more comes.
        for first in range(0, ROWS, 1000):
            values = pa.array([b"%d" % number for number in range(first, first + 1000)])
            yield pa.RecordBatch.from_arrays([values, values], ["key", "value"])
        deadline = time.monotonic() + _DEADLINE
        while not go_on.exists() and time.monotonic() < deadline:
            # Not a wait for an event: it bounds how often a directory is looked at.
            time.sleep(0.02)

    frame = spark.range(1).coalesce(1).mapInArrow(rows, "key BINARY, value BINARY")
    writer = frame.write.format(FORMAT).options(**options(cluster, topic=topic, replayBufferBytes=1000))

    def is_spilled() -> bool:
        local = set(local_dirs.read_text().split(",")) if local_dirs.exists() else set()
        return bool(local & files_without_a_name(psutil.Process()))

    def look() -> None:
        try:
            await_true(is_spilled, "a file in Spark's local directory", _DEADLINE)
            seen.append(True)
        finally:
            go_on.touch()

    seen: list[bool] = []
    watch = threading.Thread(target=look)
    watch.start()
    writer.mode("append").save()
    watch.join(_DEADLINE)
    assert seen == [True]
    # The JVM's own, which it makes below spark.local.dir or SPARK_LOCAL_DIRS.
    assert all(Path(path).name.startswith("blockmgr-") for path in local_dirs.read_text().split(","))
    await_stable(cluster, topic)
    read = spark.read.format(FORMAT).options(**options(cluster, subscribe=topic)).load()
    assert read.count() == ROWS


def test_a_full_disk_is_said_and_holds_up_no_reader(
    cluster: LocalCluster, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``/dev/full`` is one. Left open, the transactions would end after a quarter of an hour."""
    topics = [create(cluster, f"{topic_name}-{number}", 1) for number in range(2)]
    more = {"kafka.transaction.timeout.ms": 900_000}
    sink = sink_options(options(cluster, replayBufferBytes=1000, **more))
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})

    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"topic": topics, "value": [b"x", b"x"]})
        await_true(lambda: all(unstable(admin, topic) for topic in topics), "open transactions", _DEADLINE)
        yield pa.RecordBatch.from_pydict({"topic": topics, "value": [b"x" * 100_000] * 2})

    opened = partial(open, "/dev/full", "wb")
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: opened())
    with pytest.raises(OSError, match="No space left") as caught:
        write_task(sink, Claim(topic_name, 0), 0, batches())
    assert "give it more room" in caught.value.__notes__[0]
    for topic in topics:
        await_stable(cluster, topic)
        assert list(raw_records(cluster, topic, 1)) == []
