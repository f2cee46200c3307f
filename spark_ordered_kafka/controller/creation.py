"""Creating topics: in Kafka first, then under management, with nothing left in between."""

from __future__ import annotations

import logging
import threading
import time
import zlib
from collections.abc import Callable, Mapping
from typing import get_args

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.client.schemas import HashName
from spark_ordered_kafka.config import is_topic_name
from spark_ordered_kafka.controller.election import DeposedError
from spark_ordered_kafka.controller.placement import place
from spark_ordered_kafka.controller.records import CreationRecord, LayoutRecord, TopicRecord
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
    """Creates topics and takes them under management.

    ``clock`` gives seconds since the epoch; ``registering`` is held by whoever takes a topic under management.
    """

    def __init__(
        self, admin: KafkaAdmin, znodes: Znodes, clock: Callable[[], float], registering: threading.Lock
    ) -> None:
        self._admin = admin
        self._znodes = znodes
        self._clock = clock
        self._registering = registering

    def create(self, request: schemas.CreateTopicRequest) -> schemas.TopicResult:
        """Create a topic in Kafka and take it under management.

        The intent is recorded first, so that a creation cut off between Kafka and ZooKeeper is ended by the next
        start of a controller or by the same request sent again. Raises RequestError for whatever is wrong with it.
        """
        check_name(request.topic)
        with self._registering:
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
                    f"topic {request.topic!r} exists in Kafka and is not under management: adopt it "
                    "(ordered-kafka topics adopt)",
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
        hash_name = check_hash(request.hash)
        check_not_managed(self._admin, self._znodes, request.topic)
        assignments = self._assignments(request)
        creation = CreationRecord(
            partitions=len(assignments),
            replication_factor=len(assignments[0]),
            hash=hash_name,
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
        begun = self._znodes.creation(topic) == creation
        self._znodes.record_creation(topic, creation)
        try:
            self._admin.create_topic(topic, assignments, creation.configs)
        except RequestError as error:
            if begun and error.code == ErrorCode.TOPIC_ALREADY_EXISTS:
                return  # made by the creation that was cut off; the broker asked before had not heard of it
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
        try:
            register(
                self._znodes,
                description,
                {partition: end.leader_epoch for partition, end in ends.items()},
                creation.hash,
                ordered_delivery=creation.ordered_delivery,
                now=self._clock(),
            )
        except (UnavailableError, DeposedError) as error:
            # Not DeposedError: it tells clients that nothing was done, and that the next controller is to be asked.
            raise UnavailableError(
                f"topic {topic!r} is created in Kafka but not yet under management; send the same request again, or "
                f"the next start of a controller ends it: {error}"
            ) from error

    def _await_leaders(self, topic: str, count: int) -> TopicDescription:
        deadline = time.monotonic() + _LEADERS_TIMEOUT
        namesake = self._znodes.topic(topic)
        while True:
            description = self._admin.describe_topics([topic]).get(topic)
            if (
                description is not None
                # A broker may not have heard yet that the topic of the same name is gone.
                and (namesake is None or description.topic_id != namesake.topic_id)
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


def register(
    znodes: Znodes,
    description: TopicDescription,
    leader_epochs: Mapping[int, int],
    hash_name: HashName,
    *,
    ordered_delivery: bool,
    now: float,
) -> None:
    """Take a Kafka topic under management with what it holds as layout epoch 0, in the place of a deleted namesake.

    Args:
        leader_epochs: of every partition, as of now.
        now: in seconds since the epoch.
    """
    count = len(description.partitions)
    record = TopicRecord(
        topic_id=description.topic_id,
        initial_partition_count=count,
        undeleted_partition_count=count,
        layout_epoch=0,
        hash=hash_name,
        ordered_delivery=ordered_delivery,
    )
    layout = LayoutRecord(
        undeleted_partition_count=count,
        starts=[0] * count,
        leader_epochs=[leader_epochs[partition] for partition in range(count)],
        committed_at=now,
        ordered_delivery=ordered_delivery,
    )
    znodes.create_topic(description.topic, record, layout)


def check_not_managed(admin: KafkaAdmin, znodes: Znodes, topic: str) -> None:
    """Raises RequestError TOPIC_ALREADY_EXISTS when Kafka's present topic of that name is under management.

    The record of a topic that was deleted outside of this system does not count.
    """
    record = znodes.topic(topic)
    if record is None:
        return
    description = admin.describe_topics([topic]).get(topic)
    if description is not None and description.topic_id == record.topic_id:
        raise RequestError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {topic!r} is under management already")


def check_hash(name: str) -> HashName:
    """``name`` as the name of a hash. Raises RequestError INVALID_REQUEST."""
    for known in get_args(schemas.HashName):
        if name == known:
            return known  # type: ignore[no-any-return]  # get_args() has no types
    raise RequestError(
        ErrorCode.INVALID_REQUEST,
        f"hash has the value {name!r}: one of {', '.join(get_args(schemas.HashName))} is needed",
    )


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
