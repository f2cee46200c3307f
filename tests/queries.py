"""A streaming query without Spark: the source's own reader, driven step by step as Spark drives it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any, cast

from confluent_kafka.admin import AdminClient

from spark_ordered_kafka.checker import Report
from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.spark.batch import OrderedBatchReader
from spark_ordered_kafka.spark.options import batch_options, stream_options
from spark_ordered_kafka.spark.plan import SegmentsPartition
from spark_ordered_kafka.spark.stream import OrderedStreamReader
from tests.servers import TIMEOUT, await_true, unstable
from tests.streams import judged_values, options

Rows = list[dict[str, Any]]


def everything(cluster: LocalCluster, topic: str, **more: Any) -> dict[str, str]:
    """Options of a source that reads a topic from its start."""
    return options(cluster, subscribe=topic, startingOffsets="earliest", **more)


class Query:
    """Keeps offsets as text, as Spark's checkpoint does."""

    def __init__(
        self,
        source: Mapping[str, str],
        checkpoint: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.reader = OrderedStreamReader(stream_options(source), clock)
        self.checkpoint = json.dumps(self.reader.initialOffset()) if checkpoint is None else checkpoint

    def plan(self) -> str:
        """The end of the next micro-batch."""
        limit = self.reader.getDefaultReadLimit()
        return json.dumps(self.reader.latestOffset(json.loads(self.checkpoint), limit))

    def read(self, end: str) -> Rows:
        """The rows of the micro-batch up to ``end``, task after task; the checkpoint then holds it."""
        rows: Rows = []
        for task in self.reader.partitions(json.loads(self.checkpoint), json.loads(end)):
            for batch in self.reader.read(task):
                rows += batch.to_pylist()
        self.checkpoint = end
        return rows

    def ranges(self, end: str) -> list[list[tuple[str, int, int, int]]]:
        """Topic, partition and offsets of what each task of the micro-batch up to ``end`` reads."""
        tasks = self.reader.partitions(json.loads(self.checkpoint), json.loads(end))
        return [
            [(one.topic, one.partition, one.start, one.end) for one in cast(SegmentsPartition, task).segments]
            for task in tasks
        ]

    def next_rows(self) -> Rows:
        """The rows of one more micro-batch."""
        return self.read(self.plan())

    def all_rows(self) -> Rows:
        """The rows of all micro-batches until nothing moves; see :func:`await_stable`."""
        rows: Rows = []
        while (end := self.plan()) != self.checkpoint:
            rows += self.read(end)
        return rows

    def positions(self, topic: str) -> list[int]:
        """Of the checkpoint."""
        found: list[int] = json.loads(self.checkpoint)["topics"][topic]["positions"]
        return found

    def __enter__(self) -> Query:
        return self

    def __exit__(self, *_: object) -> None:
        self.reader.stop()


def await_stable(cluster: LocalCluster, topic: str) -> None:
    """Wait until no transaction is open: a commit returns before its markers let readers pass.

    Partitions without a leader are left out. One that a killed writer has left ends by its timeout, a minute by default.
    """
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 4})
    await_true(lambda: not unstable(admin, topic), f"no open transaction of {topic}", 4 * TIMEOUT)


def batch_rows(source: Mapping[str, str]) -> list[Rows]:
    """The rows of a batch query per task."""
    reader = OrderedBatchReader(batch_options(source))
    return [[row for batch in reader.read(task) for row in batch.to_pylist()] for task in reader.partitions()]


def verdict(rows: Rows, expected: int | None = None) -> Report:
    """The shared checker's, of numbered records (``tests/streams.py``)."""
    return judged_values((row["value"] for row in rows), expected)
