"""The logs of partitions: deleting what is in them, and whether a reader would find a record there."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition
from kafka import errors as kafka_errors
from kafka.protocol.admin import DeleteRecordsRequest

from spark_ordered_kafka.errors import OrderedKafkaError, UnavailableError
from spark_ordered_kafka.kafka.clients import (
    NO_COORDINATOR,
    STALE_METADATA,
    new_client,
    translate,
    translating,
)
from spark_ordered_kafka.kafka.leaders import NO_LEADER, existing_topics
from spark_ordered_kafka.kafka.properties import consumer_properties
from spark_ordered_kafka.kafka.requests import BrokerCalls, broker_error, translated
from spark_ordered_kafka.kafka.rows import chunks

# A tail's first record will do, so the consumer is to fetch little.
_FETCH_BYTES = 16_384
_POLL = 0.5
_CHUNK = 1000


@dataclass(frozen=True)
class DeletedRecords:
    """Log start of a partition after records were to be deleted, -1 where it is not known; ``error`` says why not."""

    log_start: int
    error: OrderedKafkaError | None = None


class PartitionLogs(BrokerCalls):
    """Logs of one cluster's partitions."""

    def delete_records(self, topic: str, offsets: Mapping[int, int]) -> dict[int, DeletedRecords]:
        """Delete what lies below an offset, partition by partition; the outcome of each.

        Returns when all live replicas have done so. Every partition is asked for again until it is done, refused, or
        the time is up: deleting to the same offset twice does no harm.

        Raises:
            UnavailableError: the cluster does not answer at all.
        """
        done: dict[int, DeletedRecords] = {}
        try:
            self._retry(
                partial(self._delete_open, topic, offsets, done), f"delete records of topic {topic!r}"
            )
        except UnavailableError as error:
            if not done:
                raise
            done |= {p: DeletedRecords(-1, error) for p in offsets if p not in done}
        return done

    async def _leaders(self, topic: str, deadline: float) -> dict[int, int]:
        metadata = await self._requests.metadata([topic], None, deadline)
        return {row.partition_index: row.leader_id for t in existing_topics(metadata) for row in t.partitions}

    async def _delete_open(
        self, topic: str, offsets: Mapping[int, int], done: dict[int, DeletedRecords], deadline: float
    ) -> None:
        """Ask once for every partition that is not done for good; raises a transient error while some are left."""
        leaders = await self._leaders(topic, deadline)
        left = {p: leaders.get(p, NO_LEADER) for p in offsets if p not in done or _is_open(done[p])}
        for partition in (p for p, leader in left.items() if leader == NO_LEADER):
            error = kafka_errors.LeaderNotAvailableError(f"partition {partition} has no leader")
            done[partition] = DeletedRecords(-1, self._translated(error, topic))
        responses = await self._requests.gather(
            self._delete(leader, topic, {p: offsets[p] for p in chunk}, deadline)
            for leader, partitions in _by_leader(left).items()
            for chunk in chunks(partitions)
        )
        for row in (r for response in responses for found in response.topics for r in found.partitions):
            done[row.partition_index] = self._outcome(row, topic)
        if any(_is_open(done[p]) for p in left):
            raise kafka_errors.LeaderNotAvailableError("some partitions are not done")

    async def _delete(self, leader: int, topic: str, offsets: Mapping[int, int], deadline: float) -> Any:
        asked = DeleteRecordsRequest.DeleteRecordsTopic
        rows = [
            asked.DeleteRecordsPartition(partition_index=partition, offset=offset)
            for partition, offset in offsets.items()
        ]
        remaining = max(0.0, deadline - time.monotonic())
        # A little less than this side waits, so that the broker still says which partitions it was.
        request = DeleteRecordsRequest(
            topics=[asked(name=topic, partitions=rows)], timeout_ms=int(800 * remaining)
        )
        return await self._requests.send(request, leader, deadline, timeout=remaining, apart=True)

    def _outcome(self, row: Any, topic: str) -> DeletedRecords:
        if row.error_code == 0:
            return DeletedRecords(row.low_watermark)
        error = broker_error(row.error_code, f"partition {row.partition_index}")
        return DeletedRecords(row.low_watermark, self._translated(error, topic))

    def _translated(self, error: kafka_errors.KafkaError, topic: str) -> OrderedKafkaError:
        return translated(error, f"delete records of topic {topic!r}", self._requests.servers)


def with_records(
    kafka: Mapping[str, str], topic: str, ranges: Mapping[int, tuple[int, int]], timeout: float
) -> set[int]:
    """Partitions that have a record for a ``read_committed`` reader at offsets [start, end) of ``ranges``.

    ``kafka`` has librdkafka's properties of the connection. Control and aborted records and compaction gaps are none. What an open transaction hides counts as one.
    Raises UnavailableError when that is not known after ``timeout`` seconds.
    """
    found: set[int] = set()
    left = {partition: end for partition, (start, end) in ranges.items() if start < end}
    if not left:
        return found
    consumer = new_client(
        Consumer,
        consumer_properties(
            {**kafka, "queued.min.messages": "1", "fetch.message.max.bytes": str(_FETCH_BYTES)},
            out_of_range="earliest",
        ),
    )
    deadline = time.monotonic() + timeout
    with closing(consumer), translating(f"reading topic {topic!r}"):
        consumer.assign([TopicPartition(topic, partition, ranges[partition][0]) for partition in left])
        while left:
            if time.monotonic() >= deadline:
                raise UnavailableError(
                    f"topic {topic!r}: partition {min(left)} was not read to offset {left[min(left)]} within "
                    f"{timeout:g} s"
                )
            for message in consumer.consume(_CHUNK, _POLL):
                _judge(consumer, message, left, found, timeout)
    return found


def _judge(
    consumer: Consumer, message: Message, left: dict[int, int], found: set[int], timeout: float
) -> None:
    """Take a partition off ``left`` once it is known whether it has a record."""
    error = message.error()
    if error is not None and error.code() in STALE_METADATA:
        consumer.list_topics(cast(str, message.topic()), timeout)
        return
    if error is not None and error.code() in NO_COORDINATOR:
        return
    if error is not None and error.code() != KafkaError._PARTITION_EOF:
        raise translate(error, f"reading {message.topic()}-{message.partition()}")
    partition, offset = cast(int, message.partition()), cast(int, message.offset())
    if partition not in left:
        return
    # The end that a reader sees is the last stable offset.
    if offset < left[partition]:
        found.add(partition)
    del left[partition]
    consumer.pause([TopicPartition(cast(str, message.topic()), partition)])


def _is_open(outcome: DeletedRecords) -> bool:
    return outcome.error is not None and outcome.error.retriable


def _by_leader(leaders: Mapping[int, int]) -> dict[int, list[int]]:
    partitions: dict[int, list[int]] = defaultdict(list)
    for partition, leader in leaders.items():
        if leader != NO_LEADER:
            partitions[leader].append(partition)
    return partitions
