"""A bounded sample of the keyed, committed records of a topic, from both ends of its logs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from spark_ordered_kafka.errors import UnavailableError
from spark_ordered_kafka.kafka.clients import (
    NO_COORDINATOR,
    STALE_METADATA,
    new_client,
    translate,
    translating,
)
from spark_ordered_kafka.kafka.properties import consumer_properties

_PARTITIONS = 400
_RECORDS = 4000
_MOST_PER_END = 200
# Records without a key, and offsets that hold no record for a reader, are passed over at most so many to one with a key.
_PASSED_OVER = 5
_BATCH = 500
_FETCH = {"fetch.message.max.bytes": "65536", "queued.min.messages": "1000"}


@dataclass(frozen=True)
class KeyedRecord:
    """Where a record lies. ``newest``: it was found near the end of its log, not near the start."""

    partition: int
    offset: int
    key: bytes
    newest: bool


@dataclass(frozen=True)
class Sample:
    """``complete``: False when the time was up before all that should be looked at was."""

    records: tuple[KeyedRecord, ...]
    complete: bool


@dataclass
class _Window:
    """Part of a partition's log: records with a key, and records at all, that are still to be taken from there."""

    first: int
    end: int
    keyed: int
    records: int


def sample_records(
    kafka: Mapping[str, str], topic: str, logs: Mapping[int, tuple[int, int]], *, timeout: float
) -> Sample:
    """Read some records with a key from up to 400 partitions that have any, evenly spaced: about 4,000 in all.

    Args:
        kafka: librdkafka's properties of the connection.
        logs: log start and log end offset by partition.
        timeout: seconds in all; what is found by then is what there is.

    Raises:
        RequestError: the topic may not be read.
    """
    filled = [partition for partition, (start, end) in sorted(logs.items()) if end > start]
    chosen = spread(filled, _PARTITIONS)
    if not chosen:
        return Sample((), complete=True)
    quota = max(2, min(_MOST_PER_END, _RECORDS // (2 * len(chosen))))
    oldest, newest = {}, {}
    for partition in chosen:
        start, end = logs[partition]
        near_end = end - _PASSED_OVER * quota
        if near_end > start:
            newest[partition] = _Window(near_end, end, quota, _PASSED_OVER * quota)
        # A log with one window has the quota of both.
        share = quota if near_end > start else 2 * quota
        oldest[partition] = _Window(start, end, share, _PASSED_OVER * quota)
    deadline = time.monotonic() + timeout
    with _Sampler(kafka, topic) as sampler:
        halfway = deadline - timeout / 2 if newest else deadline
        complete = sampler.take(oldest, halfway, newest=False)
        complete &= sampler.take(newest, deadline, newest=True)
        return Sample(tuple(sampler.found.values()), complete)


def newest_keys(
    kafka: Mapping[str, str], topic: str, partition: int, first: int, end: int, *, timeout: float
) -> tuple[list[bytes], int]:
    """The keys of a partition's committed records from offset ``first`` to ``end``, and the number of these records, of which
    some may have no key.

    Args:
        kafka: librdkafka's properties of the connection.
        timeout: seconds in all; what is found by then is what there is.

    Raises:
        RequestError: the topic may not be read.
    """
    if first >= end:
        return [], 0
    with _Sampler(kafka, topic) as sampler:
        window = _Window(first, end, keyed=end - first, records=end - first)
        sampler.take({partition: window}, time.monotonic() + timeout, newest=True)
        return [record.key for record in sampler.found.values()], end - first - window.records


def spread(items: Sequence[int], most: int) -> list[int]:
    """``items``, or so many of them, evenly spaced."""
    count = min(len(items), most)
    return [items[i * len(items) // count] for i in range(count)]


class _Sampler:
    """A consumer, and the records it has found by partition and offset."""

    def __init__(self, kafka: Mapping[str, str], topic: str) -> None:
        self._topic = topic
        # Retention may move a log's start between the look at it and the read.
        properties = consumer_properties({**kafka, **_FETCH}, "earliest")
        self._consumer = new_client(Consumer, properties)
        self.found: dict[tuple[int, int], KeyedRecord] = {}

    def __enter__(self) -> _Sampler:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def take(self, windows: dict[int, _Window], deadline: float, *, newest: bool) -> bool:
        """Read the windows, which are used up; whether all were read before the deadline."""
        positions = [
            TopicPartition(self._topic, partition, window.first) for partition, window in windows.items()
        ]
        self._consumer.assign(positions)
        # What was paused stays so through an assignment.
        self._consumer.resume(positions)
        while windows and (remaining := deadline - time.monotonic()) > 0:
            with translating(f"sampling topic {self._topic!r}"):
                first = self._consumer.poll(remaining)
                messages = [] if first is None else [first, *self._consumer.consume(_BATCH, 0)]
                self._stop_fetching([m for m in messages if self._is_last(m, windows, newest)])
        return not windows

    def _is_last(self, message: Message, windows: dict[int, _Window], newest: bool) -> bool:
        """Take a message; whether it closes its partition's window."""
        partition, offset = cast(int, message.partition()), cast(int, message.offset())
        error = message.error()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            self._check(error)
            return False
        window = windows.get(partition)
        if window is None:
            return False
        if error is None and offset < window.end:
            window.records -= 1
            key = message.key()
            if key is not None:
                window.keyed -= 1
                self.found.setdefault((partition, offset), KeyedRecord(partition, offset, key, newest=newest))
        if error is None and offset < window.end - 1 and window.keyed > 0 and window.records > 0:
            return False
        del windows[partition]
        return True

    def _check(self, error: KafkaError) -> None:
        if error.code() in STALE_METADATA:
            self._consumer.list_topics(self._topic, 1.0)
            return
        if error.code() in NO_COORDINATOR:
            return
        failure = translate(error, f"sampling topic {self._topic!r}")
        # librdkafka tries again by itself until the deadline.
        if not isinstance(failure, UnavailableError):
            raise failure

    def _stop_fetching(self, last: list[Message]) -> None:
        if last:
            self._consumer.pause([TopicPartition(self._topic, cast(int, m.partition())) for m in last])
