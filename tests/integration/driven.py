"""Stream and batch readers driven in the test's process, as Spark's engine drives them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from confluent_kafka.admin import AdminClient

from spark_ordered_kafka.checker import Report, check
from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.kafka.ranges import LogRanges
from spark_ordered_kafka.local import LocalCluster
from tests.queries import Query, Rows, await_stable, batch_rows
from tests.servers import TIMEOUT
from tests.streams import NumberedWriter


class Records:
    """Numbered records in the order of delivery, with where they lay."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.numbers: list[int] = []
        self.places: list[tuple[str, int, int]] = []

    def take(self, rows: Rows) -> None:
        """Rows of one task after another: a key is in one of them."""
        for row in rows:
            key, number = row["value"].decode().split(":")
            self.keys.append(f"{row['topic']} {key}")
            self.numbers.append(int(number))
            self.places.append((row["topic"], row["partition"], row["offset"]))

    def report(self, expected: int | None = None) -> Report:
        """The checker's verdict on records of which each key's first number is what it starts with."""
        keys, indexes = np.unique(np.array(self.keys), return_inverse=True)
        numbers = np.array(self.numbers)
        first = np.full(len(keys), np.iinfo(np.int64).max)
        np.minimum.at(first, indexes, numbers)
        return check(np.array(self.keys), numbers - first[indexes], expected)

    def partitions(self, topic: str) -> set[int]:
        return {partition for name, partition, _ in self.places if name == topic}


class Stream:
    """A query whose records are kept: each ``step`` is a micro-batch."""

    def __init__(
        self,
        source: Mapping[str, str],
        start: dict[str, Any] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._query = Query(source, None if start is None else json.dumps(start), clock)
        self.reader = self._query.reader
        self.found = Records()

    @property
    def start(self) -> dict[str, Any]:
        """The checkpoint."""
        checkpoint: dict[str, Any] = json.loads(self._query.checkpoint)
        return checkpoint

    def plan(self) -> str:
        """The end of the next micro-batch."""
        return self._query.plan()

    def read(self, end: str) -> int:
        """Read the micro-batch up to ``end``; the number of its records."""
        rows = self._query.read(end)
        self.found.take(rows)
        return len(rows)

    def step(self) -> int:
        """Read a micro-batch; the number of its records."""
        return self.read(self.plan())

    def catch_up(self) -> int:
        """Read until nothing comes any more; the number of records."""
        total, idle = 0, 0
        while idle < 2:
            read = self.step()
            total, idle = total + read, 0 if read else idle + 1
        return total


class Writer(NumberedWriter):
    """Writes numbered records, and returns when every reader sees them."""

    def write(self, transactions: int = 1) -> None:
        super().write(transactions)
        await_stable(self.cluster, self.topic)


@contextmanager
def stream(
    source: Mapping[str, str],
    start: dict[str, Any] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Stream]:
    running = Stream(source, start, clock)
    try:
        yield running
    finally:
        running.reader.stop()


def batch(source: Mapping[str, str]) -> Records:
    """All that a batch read delivers."""
    found = Records()
    for rows in batch_rows(source):
        found.take(rows)
    return found


def now() -> int:
    """A time in milliseconds that no record written before has, and every record written from now on reaches."""
    then = time.time_ns() // 1_000_000 + 1
    while time.time_ns() // 1_000_000 < then:
        pass
    return then


def await_more(writer: NumberedWriter, transactions: int = 3) -> None:
    """Wait until a writer under load has committed some more."""
    deadline, wanted = time.monotonic() + TIMEOUT, writer.written + transactions * writer.keys * writer.step
    while writer.written < wanted:
        assert time.monotonic() < deadline, f"{writer.written} instead of {wanted} records within {TIMEOUT} s"
        time.sleep(0.005)


def offsets(topic: str, **positions: int) -> str:
    """Spark's JSON of offsets or times, ``p0=5`` being partition 0."""
    return json.dumps({topic: {name[1:]: value for name, value in positions.items()}})


def admin_of(cluster: LocalCluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap_servers})


def delete_topic(cluster: LocalCluster, topic: str) -> None:
    """Delete a topic behind the controller's back, and wait until the brokers no longer know it."""
    admin = admin_of(cluster)
    admin.delete_topics([topic])[topic].result(TIMEOUT)
    ranges = LogRanges(Connection({"bootstrap.servers": cluster.bootstrap_servers}, cluster.controller_url))
    deadline = time.monotonic() + TIMEOUT
    while ranges.exists(topic):
        assert time.monotonic() < deadline, f"{topic} was not deleted within {TIMEOUT} s"
