"""Creating topics: in Kafka first, then under management, with nothing left in between."""

from __future__ import annotations

import logging
import threading
import time
import zlib
from collections.abc import Callable
from typing import get_args

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.config import is_topic_name
from spark_ordered_kafka.controller.placement import place
from spark_ordered_kafka.controller.records import CreationRecord, LayoutRecord, TopicRecord
from spark_ordered_kafka.controller.runner import described
from spark_ordered_kafka.controller.znodes import Znodes
from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError, RequestError, UnavailableError
from spark_ordered_kafka.kafka.admin import KafkaAdmin, TopicDescription

_log = logging.getLogger(__name__)
_INTERNAL = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"}
)
_LEADERS_TIMEOUT = 20.0
_POLL = 0.05


class TopicCreator:
    """Creates topics and takes them under management. ``clock`` gives seconds since the epoch."""

    def __init__(self, admin: KafkaAdmin, znodes: Znodes, clock: Callable[[], float]) -> None:
        self._admin = admin
        self._znodes = znodes
        self._clock = clock
        self._creating = threading.Lock()

    def create(self, request: schemas.CreateTopicRequest) -> schemas.TopicResult:
        """Create a topic in Kafka and take it under management.

        The intent is recorded first, so that a creation cut off between Kafka and ZooKeeper is ended by the next
        start of a controller or by the same request sent again. Raises RequestError for whatever is wrong with it.
        """
        check_name(request.topic)
        with self._creating:
            creation, assignments = self._check_creation(request)
            if request.validate_only:
                self._admin.create_topic(request.topic, assignments, request.configs, validate_only=True)
                return schemas.TopicResult(topic=request.topic)
            existing = self._admin.describe_topics([request.topic]).get(request.topic)
            if existing is None:
                self._create_in_kafka(request.topic, creation, assignments)
            elif self._znodes.creation(request.topic) != creation:
                raise RequestError(
                    ErrorCode.TOPIC_ALREADY_EXISTS,
                    f"topic {request.topic!r} exists in Kafka and is not under management",
                )
            self._take_over(request.topic, creation)
        return schemas.TopicResult(topic=request.topic)

    def finish_creations(self) -> None:
        """End the creations that another controller began: take the topic over, or forget what Kafka never got."""
        for topic in self._znodes.creations():
            creation = self._znodes.creation(topic)
            if creation is None:
                continue
            try:
                if topic in self._admin.describe_topics([topic]):
                    self._take_over(topic, creation)
                    _log.info("topic %s: its interrupted creation is done", topic)
                else:
                    self._znodes.drop_creation(topic)
            except OrderedKafkaError as error:
                _log.warning("topic %s: its interrupted creation cannot be ended: %s", topic, error)

    def _check_creation(
        self, request: schemas.CreateTopicRequest
    ) -> tuple[CreationRecord, dict[int, list[int]]]:
        if request.hash not in get_args(schemas.HashName):
            raise RequestError(
                ErrorCode.INVALID_REQUEST,
                f"hash has the value {request.hash!r}: one of {', '.join(get_args(schemas.HashName))} is needed",
            )
        record = self._znodes.topic(request.topic)
        if record is not None:
            described(self._admin, request.topic, record.topic_id)
            raise RequestError(
                ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {request.topic!r} is under management already"
            )
        assignments = self._assignments(request)
        creation = CreationRecord(
            partitions=len(assignments),
            replication_factor=len(assignments[0]),
            hash=request.hash,  # type: ignore[arg-type]  # checked above
            ordered_delivery=request.ordered_delivery,
            configs=request.configs,
        )
        return creation, assignments

    def _assignments(self, request: schemas.CreateTopicRequest) -> dict[int, list[int]]:
        brokers = {broker.id: broker.rack for broker in self._admin.brokers()}
        if request.assignments is not None:
            if request.partitions is not None or request.replication_factor is not None:
                raise RequestError(
                    ErrorCode.INVALID_REQUEST,
                    "assignments excludes partitions and replication_factor: give one or the other",
                )
            check_assignments(request.assignments, set(brokers))
            return {p: request.assignments[p] for p in sorted(request.assignments)}
        factor = request.replication_factor
        placed = place(
            brokers,
            1 if request.partitions is None else request.partitions,
            min(3, len(brokers)) if factor is None else factor,
            # As good as Kafka's random start, so that small topics do not all land on one broker, and repeatable.
            start=zlib.crc32(request.topic.encode()) % len(brokers),
        )
        return dict(enumerate(placed))

    def _create_in_kafka(
        self, topic: str, creation: CreationRecord, assignments: dict[int, list[int]]
    ) -> None:
        self._znodes.record_creation(topic, creation)
        try:
            self._admin.create_topic(topic, assignments, creation.configs)
        except RequestError as error:
            if not error.retriable:
                self._znodes.drop_creation(topic)
            raise

    def _take_over(self, topic: str, creation: CreationRecord) -> None:
        description = self._await_leaders(topic, creation.partitions)
        count = len(description.partitions)
        factor = len(description.partitions[0].replicas)
        if (count, factor) != (creation.partitions, creation.replication_factor):
            raise RequestError(
                ErrorCode.TOPIC_ALREADY_EXISTS,
                f"topic {topic!r} exists in Kafka with {count} partitions and replication factor {factor}, not the "
                f"{creation.partitions} and {creation.replication_factor} of its creation",
            )
        ends = self._admin.log_ends(topic, range(count))
        written = [partition for partition in range(count) if ends[partition].offset != 0]
        if written:
            raise RequestError(
                ErrorCode.TOPIC_ALREADY_EXISTS,
                f"topic {topic!r} exists in Kafka and holds records already (partition {written[0]} ends at "
                f"{ends[written[0]].offset})",
            )
        record = TopicRecord(
            topic_id=description.topic_id,
            initial_partition_count=count,
            undeleted_partition_count=count,
            layout_epoch=0,
            hash=creation.hash,
            ordered_delivery=creation.ordered_delivery,
        )
        layout = LayoutRecord(
            undeleted_partition_count=count,
            starts=[0] * count,
            leader_epochs=[ends[partition].leader_epoch for partition in range(count)],
            committed_at=self._clock(),
        )
        try:
            self._znodes.create_topic(topic, record, layout)
        except UnavailableError as error:
            raise UnavailableError(
                f"topic {topic!r} is created in Kafka but not yet under management; send the same request again, or "
                f"the next start of a controller ends it: {error}"
            ) from error

    def _await_leaders(self, topic: str, count: int) -> TopicDescription:
        deadline = time.monotonic() + _LEADERS_TIMEOUT
        while True:
            description = self._admin.describe_topics([topic]).get(topic)
            if (
                description is not None
                and len(description.partitions) >= count
                and all(p.leader >= 0 for p in description.partitions)
            ):
                return description
            if time.monotonic() >= deadline:
                raise UnavailableError(
                    f"topic {topic!r} was created, but its {count} partitions had no leaders within "
                    f"{_LEADERS_TIMEOUT:g} s; send the same request again"
                )
            time.sleep(_POLL)  # Kafka has no call that waits for leaders


def check_name(topic: str) -> None:
    """Raises RequestError INVALID_TOPIC_EXCEPTION unless Kafka would take ``topic`` as a topic's name."""
    if not is_topic_name(topic):
        raise RequestError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"topic has the value {topic!r}: a name has 1 to 249 characters of a-z, A-Z, 0-9, '.', '_' and '-', and "
            "is neither '.' nor '..'",
        )
    if topic in _INTERNAL:
        raise RequestError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"topic has the value {topic!r}: it is internal to Kafka"
        )


def check_assignments(assignments: dict[int, list[int]], brokers: set[int]) -> None:
    """Raises RequestError INVALID_REPLICA_ASSIGNMENT unless every partition has as many, known, distinct brokers."""

    def refuse(reason: str) -> RequestError:
        return RequestError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"assignments {reason}")

    if sorted(assignments) != list(range(len(assignments))) or not assignments:
        raise refuse(f"names the partitions {sorted(assignments)}: they must be 0, 1, 2, … without a gap")
    factor = len(assignments[0])
    for partition, replicas in sorted(assignments.items()):
        if not replicas or len(set(replicas)) != len(replicas):
            raise refuse(f"of partition {partition} has the value {replicas}: distinct brokers are needed")
        if len(replicas) != factor:
            raise refuse(
                f"of partition {partition} has {len(replicas)} replicas, that of partition 0 has {factor}"
            )
        unknown = sorted(set(replicas) - brokers)
        if unknown:
            raise refuse(
                f"of partition {partition} names broker {unknown[0]}: the cluster has {sorted(brokers)}"
            )
