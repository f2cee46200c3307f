"""Producers without idempotence: Kafka keeps no list of them, only the record batches that they write have no producer id."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from kafka.protocol.consumer import FetchRequest
from kafka.record.memory_records import MemoryRecords

from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.leaders import read_from_leaders
from spark_ordered_kafka.kafka.sampling import spread

# Partitions that are looked at: a producer that goes by keys writes to all of them.
_PARTITIONS = 32
# Offsets before the end of each: of other writers, so many records may lie behind those that are looked for.
_LOOK_BACK = 100
# Seconds for which logs are watched that were written so.
_WATCH = 1.0
_PAUSE = 0.05
# Looks at least: a broker that stands still for that second, and its producer with it, would otherwise be looked at once.
_LOOKS = 10
# Of a response, which the network loop's thread takes apart.
_CHUNK, _BYTES = 8, 1 << 20

_NO_PRODUCER = -1
_WITH_PRODUCER = 2
# Later versions name topics by their id.
_BY_NAME = 12


@dataclass(frozen=True)
class PlainWrite:
    """Where a record of a producer without idempotence begins a batch."""

    partition: int
    offset: int

    def __str__(self) -> str:
        return f"a producer without idempotence has just written offset {self.offset} of partition {self.partition}"


def plain_write(
    admin: KafkaAdmin,
    topic: str,
    partitions: Collection[int],
    pause: Callable[[float], object],
    deadline: float,
) -> PlainWrite | None:
    """A record that a producer without idempotence has written during the call, if there is one.

    Most calls look at the ends of the logs, see producer ids there, and return. Where some batch has none, its
    writer may have stopped or not, so the logs are watched for a second (D-017).

    Args:
        partitions: some are looked at if there are many.
        pause: sleeps for so many seconds.
        deadline: in ``time.monotonic()`` seconds.

    Raises:
        RequestError: Kafka refused.
        UnavailableError: a partition has no leader, or its leader does not answer.
    """
    looked = spread(sorted(partitions), _PARTITIONS)
    ends = {p: end.offset for p, end in admin.log_ends(topic, looked).items()}
    starts = admin.log_starts(topic, looked)
    recent = {p: max(starts[p], end - _LOOK_BACK) for p, end in ends.items() if starts[p] < end}
    found, _ = _plain_batches(admin, topic, recent, deadline)
    until, looks = time.monotonic() + _WATCH, 0
    while found is not None and (looks < _LOOKS or time.monotonic() < until):
        pause(_PAUSE)
        looks += 1
        written, ends = _plain_batches(admin, topic, ends, deadline)
        if written is not None:
            return written
    return None


def _plain_batches(
    admin: KafkaAdmin, topic: str, offsets: Mapping[int, int], deadline: float
) -> tuple[PlainWrite | None, dict[int, int]]:
    """The first batch without a producer id from ``offsets`` on, and the offsets up to which was looked."""
    rows = read_from_leaders(
        admin.requests,
        topic,
        offsets,
        partial(_fetch, topic, offsets),
        deadline,
        f"look who writes to topic {topic!r}",
        chunk=_CHUNK,
    )
    found, reached = None, dict(offsets)
    for partition, row in sorted(rows.items()):
        for batch in MemoryRecords(row.records or b""):
            # Formats of before idempotence know no producer ids; the offset of such a batch is that of its last record.
            old = batch.magic < _WITH_PRODUCER
            following = batch.base_offset + 1 if old else batch.next_offset
            reached[partition] = max(reached[partition], following)
            if (
                found is None
                and following > offsets[partition]
                and (old or batch.producer_id == _NO_PRODUCER)
            ):
                found = PlainWrite(partition, max(batch.base_offset, offsets[partition]))
    return found, reached


def _fetch(topic: str, offsets: Mapping[int, int], chunk: Sequence[tuple[int, int]]) -> Any:
    wanted = FetchRequest.FetchTopic
    rows = [
        wanted.FetchPartition(
            partition=partition,
            current_leader_epoch=leader_epoch,
            fetch_offset=offsets[partition],
            partition_max_bytes=_BYTES,
        )
        for partition, leader_epoch in chunk
    ]
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=_CHUNK * _BYTES,
        topics=[wanted(topic=topic, partitions=rows)],
        max_version=_BY_NAME,
    )
