"""Producers that write to a topic and are not ordered writers, found by DescribeProducers (KIP-664)."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from kafka.protocol.admin import DescribeProducersRequest

from spark_ordered_kafka.errors import ErrorCode, RequestError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.fence import Fencer
from spark_ordered_kafka.kafka.ids import id_prefix
from spark_ordered_kafka.kafka.leaders import read_from_leaders
from spark_ordered_kafka.kafka.requests import BrokerRequests
from spark_ordered_kafka.listed import listed

TIMEOUT = 6.0
"""Seconds for one check, below the timeout of the client, so that the answer can name the partition that has no leader."""

_SHOWN = 5
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class ForeignProducer:
    """A producer id that Kafka keeps for some partitions of a topic, and that belongs to no ordered writer.

    ``last_timestamp`` is that of its newest record, in milliseconds since the epoch by the producer's own clock; -1 where
    the broker does not know it. ``transactional_id`` is None for a producer that is only idempotent, and for one whose
    transactional id has expired or may not be described.
    """

    producer_id: int
    partitions: tuple[int, ...]
    last_timestamp: int
    transactional_id: str | None


class ProducerCheck:
    """Finds the foreign producers of topics, for use by any number of threads.

    Args:
        admin: connections to the cluster.
        fencer: lists the cluster's transactional ids.
        clock: seconds since the epoch.
    """

    def __init__(self, admin: KafkaAdmin, fencer: Fencer, clock: Callable[[], float]) -> None:
        self._admin = admin
        self._fencer = fencer
        self._clock = clock

    def refuse_foreign(self, topic: str, partitions: Collection[int]) -> None:
        """Let nothing but ordered writers, and producers without idempotence, which Kafka does not show, pass.

        Raises:
            RequestError: ACTIVE_FOREIGN_PRODUCERS names producers, partitions and last writes; or Kafka refused to say.
            UnavailableError: a partition has no leader, or not all brokers answered in time.
        """
        found = self.foreign(topic, partitions)
        if found:
            raise RequestError(ErrorCode.ACTIVE_FOREIGN_PRODUCERS, refusal(topic, found, self._clock()))

    def foreign(self, topic: str, partitions: Collection[int]) -> list[ForeignProducer]:
        """The foreign producers, the one that wrote last first. Raises as :meth:`refuse_foreign`, but for finding some.

        The logs are read first and the transactions second (D-018): an ordered writer that shows in a log had its
        transactional id before, so the listing has it, also when it started between the two. Its producer id stays
        the same through all fences but one in 32,767: when the producer epoch is used up, Kafka gives the transactional
        id a new producer id. What the writer wrote under the old one then looks foreign, until Kafka forgets it or
        the change is forced. The same goes for an ordered writer whose transactional id has expired, which on brokers
        with default settings happens six days after its producer id was forgotten.
        """
        deadline = time.monotonic() + TIMEOUT
        rows = read_producers(self._admin.requests, topic, partitions, deadline)
        prefix = id_prefix(topic)
        known = self._fencer.list_producers(prefix, deadline)
        ordered = {
            producer_id
            for producer_id, transactional_id in known.items()
            if transactional_id.startswith(prefix)
        }
        return _foreign(rows, ordered, known)


def read_producers(
    requests: BrokerRequests, topic: str, partitions: Collection[int], deadline: float
) -> dict[int, Any]:
    """By partition the row of DescribeProducers; deadline and errors as of ``read_from_leaders``."""
    what = f"describe the producers of topic {topic!r}"
    return read_from_leaders(requests, topic, partitions, partial(_describe, topic), deadline, what)


def _describe(topic: str, chunk: Sequence[tuple[int, int]]) -> Any:
    partitions = [partition for partition, _ in chunk]
    wanted = DescribeProducersRequest.TopicRequest(name=topic, partition_indexes=partitions)
    return DescribeProducersRequest(topics=[wanted])


def _foreign(
    rows: Mapping[int, Any], ordered: Collection[int], names: Mapping[int, str]
) -> list[ForeignProducer]:
    partitions: dict[int, list[int]] = defaultdict(list)
    newest: dict[int, int] = {}
    for partition, row in sorted(rows.items()):
        for producer in row.active_producers:
            if producer.producer_id not in ordered:
                partitions[producer.producer_id].append(partition)
                known = newest.get(producer.producer_id, -1)
                newest[producer.producer_id] = max(known, producer.last_timestamp)
    found = [
        ForeignProducer(producer_id, tuple(written), newest[producer_id], names.get(producer_id))
        for producer_id, written in partitions.items()
    ]
    return sorted(found, key=lambda producer: (-producer.last_timestamp, producer.producer_id))


def refusal(topic: str, producers: Sequence[ForeignProducer], now: float) -> str:
    """Why a change is refused and what to do about it; ``now`` is in seconds since the epoch."""
    shown = "; ".join(_shown(producer, now) for producer in producers[:_SHOWN])
    more = len(producers) - _SHOWN
    return (
        f"producers that are not ordered writers have written to topic {topic!r}: {shown}"
        f"{f'; and {more} more' if more > 0 else ''}. They would continue under the old partition count: stop them and "
        "wait until Kafka has forgotten them (the brokers' producer.id.expiration.ms after the last write, 1 day by "
        "default), or use force if they are stopped or their records need no order"
    )


def _shown(producer: ForeignProducer, now: float) -> str:
    label = "partition" if len(producer.partitions) == 1 else "partitions"
    name = "" if producer.transactional_id is None else f" of transactional id {producer.transactional_id!r}"
    return (
        f"producer id {producer.producer_id}{name} in {label} {listed(producer.partitions, _SHOWN)}, "
        f"last write {_time(producer.last_timestamp, now)}"
    )


def _time(milliseconds: int, now: float) -> str:
    if milliseconds < 0:
        return "at an unknown time"
    try:
        at = (_EPOCH + timedelta(milliseconds=milliseconds)).strftime("%Y-%m-%d %H:%M:%S UTC")
    except OverflowError:
        # Producers choose the timestamps of their records, also ones beyond the year 9999.
        return f"with timestamp {milliseconds}"
    seconds = round(now - milliseconds / 1000)
    return f"{at} ({_duration(seconds)} ago)" if seconds >= 0 else f"{at} (by its own clock)"


def _duration(seconds: int) -> str:
    for name, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.1f} {name}"
    return f"{seconds} s"
