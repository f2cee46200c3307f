"""Stream and batch readers driven in the test's process, as Spark's engine drives them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from confluent_kafka.admin import AdminClient

from spark_ordered_kafka.checker import Report, check
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.config import Connection, batch_options, stream_options
from spark_ordered_kafka.kafka.clients import LogRanges
from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.spark.batch import OrderedBatchReader
from spark_ordered_kafka.spark.stream import OrderedStreamReader
from tests.servers import TIMEOUT
from tests.streams import (
    NumberedWriter,
)


class Records:
    """Numbered records in the order of delivery, with where they lay."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.numbers: list[int] = []
        self.places: list[tuple[str, int, int]] = []

    def take(self, reader: OrderedStreamReader | OrderedBatchReader, tasks: list[Any]) -> None:
        """The rows of these tasks, one task after another: a key is in one of them."""
        for task in tasks:
            for batch in reader.read(task):
                for row in batch.to_pylist():
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
    """Drives a stream reader as Spark's engine does: each ``step`` is a micro-batch."""

    def __init__(
        self,
        source: Mapping[str, str],
        start: dict[str, Any] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.reader = OrderedStreamReader(stream_options(source), clock)
        self.start = self.reader.initialOffset() if start is None else start
        self.found = Records()

    def step(self) -> int:
        """Read a micro-batch; the number of its records."""
        end = self.reader.latestOffset(self.start, self.reader.getDefaultReadLimit())
        before = len(self.found.keys)
        self.found.take(self.reader, self.reader.partitions(self.start, end))
        self.start = end
        return len(self.found.keys) - before

    def catch_up(self) -> int:
        """Read until nothing comes any more; the number of records."""
        total, idle = 0, 0
        while idle < 2:
            read = self.step()
            total, idle = total + read, 0 if read else idle + 1
        return total


@lru_cache
def _ranges(connection: Connection, level: str) -> LogRanges:
    return LogRanges(replace(connection, kafka={**connection.kafka, "isolation.level": level}))


def settle(cluster: LocalCluster, topic: str) -> None:
    """Wait until the brokers have ended every transaction: a commit returns before readers see all of it."""
    connection = Connection({"bootstrap.servers": cluster.bootstrap_servers}, cluster.controller_url)
    with ControllerClient(cluster.controller_url) as controller:
        partitions = range(len(controller.topic(topic).partitions))
    deadline = time.monotonic() + TIMEOUT
    while (
        _ranges(connection, "read_committed").log(topic, partitions).ends
        != _ranges(connection, "read_uncommitted").log(topic, partitions).ends
    ):
        assert time.monotonic() < deadline, f"transactions on {topic} are still open after {TIMEOUT} s"


class Writer(NumberedWriter):
    """Writes numbered records, and returns when every reader sees them."""

    def write(self, transactions: int = 1) -> None:
        super().write(transactions)
        settle(self.cluster, self.topic)


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
    reader = OrderedBatchReader(batch_options(source))
    found = Records()
    found.take(reader, reader.partitions())
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
