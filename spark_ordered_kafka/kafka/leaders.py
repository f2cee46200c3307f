"""Who leads the partitions of a topic, and reads that every leader answers for its own."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from kafka import errors as kafka_errors
from kafka.protocol.consumer import IsolationLevel, ListOffsetsRequest, OffsetSpec

from spark_ordered_kafka.kafka.bootstrap import REQUEST_TIMEOUT
from spark_ordered_kafka.kafka.requests import BrokerRequests, broker_error, is_transient
from spark_ordered_kafka.kafka.values import PROPAGATION, PartitionId

NO_LEADER = -1
CONSUMER = -1
"""The replica id of what is no broker."""

# Partitions in one request: small enough for the network loop's thread to serve others meanwhile.
CHUNK = 1000

# Seconds for a broker to answer when all are asked. One that hangs says nothing.
_PATIENCE = 2.0

# Seconds for one that is asked when most of the others have answered. Writers may wait meanwhile.
_SHORT_PATIENCE = 0.2

# Brokers asked who leads a partition. One that is cut off from the others answers what it knew last.
_WITNESSES = 3


def list_offsets(
    rows: Mapping[str, Iterable[tuple[int, int]]],
    spec: OffsetSpec,
    *,
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    replica_id: int = CONSUMER,
) -> ListOffsetsRequest:
    """Asks for offsets of ``(partition, leader epoch)`` by topic; an epoch of -1 is not compared with the leader's."""
    asked = ListOffsetsRequest.ListOffsetsTopic
    return ListOffsetsRequest(
        replica_id=replica_id,
        isolation_level=isolation.value,
        topics=[
            asked(
                name=topic,
                partitions=[
                    asked.ListOffsetsPartition(partition_index=p, timestamp=spec, current_leader_epoch=epoch)
                    for p, epoch in partitions
                ],
            )
            for topic, partitions in rows.items()
        ],
    )


async def ask_controller(
    requests: BrokerRequests, request: Any, deadline: float, *, timeout: float = REQUEST_TIMEOUT
) -> Any:
    """The response of Kafka's controller; raises a retriable error while there is none, and as :meth:`BrokerRequests.send`.

    It may come late, so nothing else waits for it (D-484).
    """
    # Brokers in KRaft mode name any live broker and pass requests on; in ZooKeeper mode it is the controller.
    metadata = await requests.metadata([], None, deadline)
    if metadata.controller_id == NO_LEADER:
        raise kafka_errors.NodeNotReadyError("the cluster has no controller")
    return await requests.send(request, int(metadata.controller_id), deadline, timeout=timeout, apart=True)


class _NotInMetadataError(kafka_errors.UnknownTopicOrPartitionError):  # type: ignore[misc]
    """No broker knows the topic or partition. A leader answers likewise until it has made the partition's log."""


def read_from_leaders(
    requests: BrokerRequests,
    topic: str,
    partitions: Collection[int],
    build: Callable[[Sequence[tuple[int, int]]], Any],
    deadline: float,
    what: str,
    *,
    chunk: int = CHUNK,
) -> dict[int, Any]:
    """By partition the row of its leader's response, read again until all leaders have answered without an error.

    Args:
        partitions: in the order in which they are asked for; once each.
        build: makes a request of ``kafka.protocol`` for some ``(partition, leader epoch)`` of one leader.
        deadline: in ``time.monotonic()`` seconds.
        what: begins the message of an error, as "read the log ends of topic 'x'".
        chunk: partitions in one request.

    Raises:
        RequestError: UNKNOWN_TOPIC_OR_PARTITION, or Kafka refused.
        UnavailableError: a partition has no leader, or its leader does not answer.
    """
    if not partitions:
        return {}
    propagated = time.monotonic() + PROPAGATION

    def transient(error: BaseException) -> bool:
        return is_transient(error) and (
            not isinstance(error, _NotInMetadataError) or time.monotonic() < propagated
        )

    attempt = partial(_ask, requests, {topic: partitions}, lambda rows: build(rows[topic]), chunk)
    found = requests.retry(attempt, deadline, what, transient=transient)
    return {partition: row for (_, partition), row in found.items()}


def read_once_from_leaders(
    requests: BrokerRequests,
    partitions: Mapping[str, Collection[int]],
    build: Callable[[Mapping[str, Sequence[tuple[int, int]]]], Any],
    deadline: float,
    what: str,
) -> dict[PartitionId, Any]:
    """As :func:`read_from_leaders`, of several topics with as few requests as of one, and without a second attempt.

    Raises:
        RequestError: any topic is not known to the brokers, or Kafka refused.
        UnavailableError: any partition has no leader, or its leader does not answer, or leads no more.
    """
    attempt = partial(_ask, requests, partitions, build, CHUNK)
    return requests.retry(attempt, deadline, what, transient=lambda _: False)


async def _ask(
    requests: BrokerRequests,
    partitions: Mapping[str, Collection[int]],
    build: Callable[[Mapping[str, Sequence[tuple[int, int]]]], Any],
    chunk: int,
    deadline: float,
) -> dict[PartitionId, Any]:
    by_leader: dict[int, list[tuple[str, tuple[int, int]]]] = defaultdict(list)
    leaders = await _leaders(requests, list(partitions), deadline)
    for topic, partition in dict.fromkeys((topic, p) for topic, own in partitions.items() for p in own):
        if (topic, partition) not in leaders:
            raise _NotInMetadataError(f"topic {topic!r} has no partition {partition}")
        leader_epoch, leader = leaders[topic, partition]
        if leader == NO_LEADER:
            raise kafka_errors.LeaderNotAvailableError(f"partition {topic}-{partition} has no leader")
        by_leader[leader].append((topic, (partition, leader_epoch)))

    def sent() -> Iterator[Any]:
        for leader, tps in by_leader.items():
            for start in range(0, len(tps), chunk):
                rows: dict[str, list[tuple[int, int]]] = defaultdict(list)
                for topic, row in tps[start : start + chunk]:
                    rows[topic].append(row)
                yield requests.send(build(rows), leader, deadline)

    found = {}
    for response in await requests.gather(sent()):
        for topic, partition, row in _rows(response):
            if row.error_code != 0:
                raise broker_error(row.error_code, f"partition {topic}-{partition}")
            found[topic, partition] = row
    return found


def _rows(response: Any) -> Iterator[tuple[str, int, Any]]:
    """Topic, partition and row of everything in a response; Kafka's responses call them by different names."""
    for answered in response.topics if hasattr(response, "topics") else response.responses:
        topic = answered.name if hasattr(answered, "name") else answered.topic
        for row in answered.partitions:
            yield topic, row.partition if hasattr(row, "partition") else row.partition_index, row


async def _leaders(
    requests: BrokerRequests, topics: Sequence[str], deadline: float
) -> dict[PartitionId, tuple[int, int]]:
    """Leader epoch and leader of each partition, the newest that some brokers know."""
    brokers = await requests.broker_ids(deadline)
    # One that has died or hangs is in the metadata for some seconds more, and may lead none of these.
    views = await requests.most(
        (
            requests.metadata(topics, broker, deadline)
            for broker in random.sample(brokers, min(_WITNESSES, len(brokers)))
        ),
        _SHORT_PATIENCE,
    )
    leaders: dict[PartitionId, tuple[int, int]] = {}
    for view in views:
        for found in existing_topics(view):
            for row in found.partitions:
                tp, known = (found.name, row.partition_index), (row.leader_epoch, row.leader_id)
                leaders[tp] = max(known, leaders.get(tp, known))
    for topic in set(topics) - {topic for topic, _ in leaders}:
        raise _NotInMetadataError(f"there is no topic {topic!r}")
    return leaders


async def metadata_of_all(
    requests: BrokerRequests, topics: Sequence[str] | None, deadline: float
) -> list[Any]:
    """``MetadataResponse`` of each broker that answers: they learn one after another of what has just been changed."""
    brokers = await requests.broker_ids(deadline)
    soon = min(deadline, time.monotonic() + _PATIENCE)
    answers = await requests.settle(requests.metadata(topics, broker, soon) for broker in brokers)
    return [answer for answer in answers if not isinstance(answer, kafka_errors.KafkaError)]


def existing_topics(metadata: Any) -> list[Any]:
    """The topics of a ``MetadataResponse`` that exist.

    Raises:
        kafka.errors.BrokerResponseError: a topic's name is illegal or may not be described.
    """
    found = []
    for topic in metadata.topics:
        if topic.error_code == kafka_errors.UnknownTopicOrPartitionError.errno:
            continue
        if topic.error_code != 0:
            what = kafka_errors.for_code(topic.error_code).description
            raise broker_error(topic.error_code, f"topic {topic.name!r}: {what}")
        found.append(topic)
    return found


def leader_terms(metadata: Any) -> dict[int, tuple[int, int]]:
    """Leader and leader epoch of each partition in the ``MetadataResponse`` of one topic; empty without the topic.

    Raises as :func:`existing_topics`.
    """
    rows = (row for topic in existing_topics(metadata) for row in topic.partitions)
    return {row.partition_index: (row.leader_id, row.leader_epoch) for row in rows}
