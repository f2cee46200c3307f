"""Creates topics in Kafka and takes them under management, also after an interruption between the two."""

from __future__ import annotations

import logging
import threading
import zlib
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import cast, get_args

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.client.schemas import HashName, Open
from spark_ordered_kafka.controller.placement import guards
from spark_ordered_kafka.controller.placement.assignments import check_new_topic
from spark_ordered_kafka.controller.placement.place import place
from spark_ordered_kafka.controller.policy import PolicyCheck, TopicRequest, frozen
from spark_ordered_kafka.controller.state.records import CreationRecord, LayoutRecord, TopicRecord
from spark_ordered_kafka.controller.state.topics import Znodes
from spark_ordered_kafka.controller.topics.capacities import Capacities, Headroom
from spark_ordered_kafka.controller.topics.idempotency import repeatable_id
from spark_ordered_kafka.controller.topics.kafka_state import agreed, check_not_managed
from spark_ordered_kafka.controller.topics.placed import placed
from spark_ordered_kafka.controller.zk.records import NewerRecordError
from spark_ordered_kafka.controller.zk.session import DeposedError, ZooKeeperError
from spark_ordered_kafka.errors import (
    ErrorCode,
    OrderedKafkaError,
    RequestError,
    UnavailableError,
    invalid_request,
)
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.configs import check_lengths
from spark_ordered_kafka.kafka.values import LogEnd, TopicDescription
from spark_ordered_kafka.parsing import is_topic_name
from spark_ordered_kafka.updates import updated

_log = logging.getLogger(__name__)
_INTERNAL = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"}
)
_LEADERS_TIMEOUT = 20.0
# Seconds a broker may take per log that it makes: 5 ms when it has nothing else to do.
_LEADERS_TIMEOUT_EACH = 0.06
_POLL = 0.05


class TopicCreator:
    """Creates topics and takes them under management.

    ``end_namesake`` ends what is managed under a name, of which Kafka has nothing any more; ``clock`` gives seconds since the
    epoch; ``registering`` is held while a topic is taken under management.
    """

    def __init__(
        self,
        admin: KafkaAdmin,
        znodes: Znodes,
        policy: PolicyCheck,
        capacities: Capacities,
        end_namesake: Callable[[str], None],
        clock: Callable[[], float],
        registering: threading.Lock,
    ) -> None:
        self._admin = admin
        self._znodes = znodes
        self._policy = policy
        self._capacities = capacities
        self._end_namesake = end_namesake
        self._clock = clock
        self._registering = registering

    def create(
        self, request: schemas.NewTopic, *, principal: str, validate_only: bool = False
    ) -> schemas.TopicResult:
        """Create a topic in Kafka and take it under management.

        Records the intent first, so that the next start of a controller, or the same request sent again, completes a
        creation that was cut off between Kafka and ZooKeeper (D-027). Raises RequestError for an invalid request.
        """
        check_name(request.topic)
        check_lengths(request.configs)
        owner = _owner(request.topic)
        request_id = repeatable_id("create", request.model_dump_json(exclude_defaults=True), validate_only)
        with self._registering, self._capacities.ending(owner), placed(request.assignments):
            if request_id is not None and self._is_done(request.topic, request_id):
                return schemas.TopicResult(topic=request.topic)
            shown = request.topic in self._admin.describe_topics([request.topic])
            exists = shown and self._admin.has_topic(request.topic)  # a broker may still show a deleted one
            creation, assignments = self._check_creation(request, exists)
            creation = updated(creation, request=request_id)
            self._policy.validate(lambda: _asked(request, creation, principal, validate_only))
            if validate_only:
                self._admin.create_topic(request.topic, assignments, request.configs, validate_only=True)
                self._capacities.drop(owner)
                return schemas.TopicResult(topic=request.topic)
            begun = self._begun(request, creation)
            if exists and begun is None:
                raise RequestError(
                    ErrorCode.TOPIC_ALREADY_EXISTS,
                    f"topic {request.topic!r} exists in Kafka and is not under management: adopt it "
                    "(ordered-kafka topics adopt)",
                )
            self._replace(request, assignments, exists=exists)
            if exists and begun is not None:
                self._complete(request.topic, begun)
            else:
                self._create_in_kafka(request.topic, creation, assignments, begun=begun is not None)
            self._take_over(request.topic, creation)
        return schemas.TopicResult(topic=request.topic)

    def finish_creations(self) -> None:
        """Complete the creations that another controller began; drop those that Kafka never got (D-029)."""
        for topic in self._znodes.creations():
            try:
                with self._registering:  # the same request may come again meanwhile
                    self._finish_creation(topic)
            except OrderedKafkaError as error:
                _log.warning("topic %s: its interrupted creation cannot be ended: %s", topic, error)

    def _finish_creation(self, topic: str) -> None:
        creation = self._znodes.creation(topic)
        if creation is None:
            return
        if creation.is_newer:
            raise NewerRecordError(f"the interrupted creation of topic {topic!r} is a newer controller's")
        if self._admin.has_topic(topic):
            check_not_managed(self._admin, self._znodes, topic)
            self._end_namesake(topic)
            self._complete(topic, creation)
            self._take_over(topic, creation)
            _log.info("topic %s: its interrupted creation is done", topic)
        else:
            self._znodes.drop_creation(topic)

    def _check_creation(
        self, request: schemas.NewTopic, existing: bool
    ) -> tuple[CreationRecord, dict[int, list[int]]]:
        hash_name = check_hash(request.hash)
        check_not_managed(self._admin, self._znodes, request.topic)
        plan = partial(self._assignments, request)
        if existing:
            # Perhaps an earlier copy of this request created it; then the brokers count its replicas already.
            assignments = plan(self._capacities.without_limits())
        else:
            assignments = self._capacities.reserve(_owner(request.topic), request.topic, plan)
        creation = CreationRecord(
            partitions=len(assignments),
            replication_factor=len(assignments[0]),
            hash=hash_name,
            ordered_delivery=request.ordered_delivery,
            configs=request.configs,
            # One request creates all of a smaller topic, or nothing.
            assignments=list(assignments.values()) if len(assignments) > self._admin.chunk else [],
        )
        return creation, assignments

    def _begun(self, request: schemas.NewTopic, creation: CreationRecord) -> CreationRecord | None:
        """The recorded creation of the same request. The placement computed now may differ from the recorded one."""
        begun = self._znodes.creation(request.topic)
        if begun is None:
            return None
        creation = updated(creation, request=begun.request)
        if request.assignments is None:
            creation = updated(creation, assignments=begun.assignments)
        return begun if begun == creation else None

    def _is_done(self, topic: str, request_id: str) -> bool:
        """Whether the same request was carried out before."""
        record = self._znodes.topic(topic)
        return record is not None and record.created_by == request_id

    def _assignments(self, request: schemas.NewTopic, headroom: Headroom) -> dict[int, list[int]]:
        brokers = headroom.racks
        if request.assignments is not None:
            if request.partitions is not None or request.replication_factor is not None:
                raise invalid_request(
                    "assignments excludes partitions and replication_factor: give one or the other"
                )
            check_new_topic(request.assignments, brokers)
            guards.check(f"topic {request.topic!r}", guards.added({}, request.assignments), headroom.capacity)
            return {p: request.assignments[p] for p in sorted(request.assignments)}
        factor = request.replication_factor
        replicas = place(
            brokers,
            1 if request.partitions is None else request.partitions,
            min(3, max(1, len(brokers.keys() - headroom.cordoned))) if factor is None else factor,
            # Spreads small topics as well as Kafka's random start, and is repeatable (D-173).
            start=zlib.crc32(request.topic.encode()) % max(1, len(brokers)),
            capacity=headroom.chosen_capacity,
        )
        return dict(enumerate(replicas))

    def _replace(self, request: schemas.NewTopic, assignments: dict[int, list[int]], *, exists: bool) -> None:
        """End what is left of a topic of that name, which was deleted outside of this system."""
        if self._znodes.topic(request.topic) is None:
            return
        if not exists:
            # Kafka's controller decides whether it is gone: brokers may not show a topic that is there.
            self._admin.create_topic(request.topic, assignments, request.configs, validate_only=True)
        self._end_namesake(request.topic)

    def _create_in_kafka(
        self, topic: str, creation: CreationRecord, assignments: dict[int, list[int]], *, begun: bool
    ) -> None:
        self._znodes.record_creation(topic, creation)
        try:
            self._admin.create_topic(topic, assignments, creation.configs)
        except RequestError as error:
            if begun and error.code == ErrorCode.TOPIC_ALREADY_EXISTS:
                # Created by the creation that was cut off; the broker asked before did not have it yet.
                self._complete(topic, creation)
                return
            if not error.retriable and not self._exists_in_part(topic, creation, error):
                self._znodes.drop_creation(topic)
            raise

    def _exists_in_part(self, topic: str, creation: CreationRecord, refusal: RequestError) -> bool:
        """Whether a creation that Kafka refused may have made a part of a large topic: the record has the rest (D-028)."""
        # Who hears that the topic exists has made nothing of it.
        if not creation.assignments or refusal.code == ErrorCode.TOPIC_ALREADY_EXISTS:
            return False
        try:
            return self._admin.has_topic(topic)
        except OrderedKafkaError as error:
            _log.info("topic %s: it is not known whether Kafka has made a part of it: %s", topic, error)
            return True

    def _complete(self, topic: str, creation: CreationRecord) -> None:
        """Create the partitions that are missing after an interrupted creation by several requests."""
        if creation.assignments:
            _retrying(_LEADERS_TIMEOUT)(self._create_missing, topic, creation)

    def _create_missing(self, topic: str, creation: CreationRecord) -> None:
        description = self._admin.describe_topics([topic]).get(topic)
        missing = creation.assignments[0 if description is None else len(description.partitions) :]
        if missing and description is not None:
            # Somebody else may have made a topic of that name meanwhile, which must not grow.
            self._refuse_other(description, creation)
        if missing:
            self._admin.create_partitions(topic, creation.partitions, missing)

    def _refuse_other(self, description: TopicDescription, creation: CreationRecord) -> dict[int, LogEnd]:
        """The log ends of the topic, which are all 0. Raises RequestError TOPIC_ALREADY_EXISTS if it holds records, or has
        another replication factor than its creation."""
        topic, count = description.topic, len(description.partitions)
        factor = len(description.partitions[0].replicas)
        if factor != creation.replication_factor:
            raise _differs(topic, count, factor, creation)
        ends = self._admin.log_ends(topic, range(count))
        written = [partition for partition in range(count) if ends[partition].offset != 0]
        if written:
            raise RequestError(
                ErrorCode.TOPIC_ALREADY_EXISTS,
                f"topic {topic!r} exists in Kafka and holds records already (partition {written[0]} ends at "
                f"{ends[written[0]].offset})",
            )
        return ends

    def _take_over(self, topic: str, creation: CreationRecord) -> None:
        # Brokers make the logs of new partitions one after another, some of them long after they show their leaders.
        timeout = max(_LEADERS_TIMEOUT, creation.partitions * _LEADERS_TIMEOUT_EACH)
        try:
            description = self._await_leaders(topic, creation.partitions, timeout)
            count = len(description.partitions)
            if count != creation.partitions:
                raise _differs(topic, count, len(description.partitions[0].replicas), creation)
            ends = _retrying(timeout)(self._refuse_other, description, creation)
            register(
                self._znodes,
                description,
                {partition: end.leader_epoch for partition, end in ends.items()},
                creation.hash,
                ordered_delivery=creation.ordered_delivery,
                now=self._clock(),
                created_by=creation.request,
            )
        except (UnavailableError, DeposedError) as error:
            # Not DeposedError, which means that nothing was done and that the client should ask the next controller.
            kind = ZooKeeperError if isinstance(error, (ZooKeeperError, DeposedError)) else UnavailableError
            raise kind(
                f"topic {topic!r} is created in Kafka but not yet under management; send the same request again, or "
                f"the next start of a controller ends it: {error}"
            ) from error

    def _await_leaders(self, topic: str, count: int, timeout: float) -> TopicDescription:
        def is_led(found: TopicDescription | None) -> bool:
            return (
                found is not None
                and len(found.partitions) >= count
                and all(p.leader >= 0 for p in found.partitions)
            )

        late = f"its {count} partitions had no leaders within {timeout:g} s"
        return cast(TopicDescription, agreed(self._admin, topic, timeout, late, is_led))


def _retrying(seconds: float) -> Retrying:
    """Kafka has no call that waits until a request can be carried out."""
    return Retrying(
        retry=retry_if_exception_type(UnavailableError),
        wait=wait_fixed(_POLL),
        stop=stop_after_delay(seconds),
        reraise=True,
    )


def _differs(topic: str, count: int, factor: int, creation: CreationRecord) -> RequestError:
    return RequestError(
        ErrorCode.TOPIC_ALREADY_EXISTS,
        f"topic {topic!r} exists in Kafka with {count} partitions and replication factor {factor}, not the "
        f"{creation.partitions} and {creation.replication_factor} of its creation",
    )


def _owner(topic: str) -> str:
    """Owner of a creation's reservation."""
    return f"creation of {topic}"


def _asked(
    request: schemas.NewTopic, creation: CreationRecord, principal: str, validate_only: bool
) -> TopicRequest:
    return TopicRequest(
        operation="create",
        topic=request.topic,
        partitions=creation.partitions,
        replication_factor=creation.replication_factor,
        assignments=frozen(request.assignments),
        configs=MappingProxyType(dict(creation.configs)),
        ordered_delivery=creation.ordered_delivery,
        principal=principal,
        validate_only=validate_only,
    )


def register(
    znodes: Znodes,
    description: TopicDescription,
    leader_epochs: Mapping[int, int],
    hash_name: Open[HashName],
    *,
    ordered_delivery: bool,
    now: float,
    created_by: str | None = None,
) -> None:
    """Take a Kafka topic under management: its current content becomes layout epoch 0.

    Args:
        leader_epochs: of every partition, as of now.
        now: in seconds since the epoch.
        created_by: id of the request that made it.
    """
    count = len(description.partitions)
    record = TopicRecord(
        topic_id=description.topic_id,
        initial_partition_count=count,
        undeleted_partition_count=count,
        layout_epoch=0,
        hash=hash_name,
        ordered_delivery=ordered_delivery,
        created_by=created_by,
    )
    layout = LayoutRecord(
        undeleted_partition_count=count,
        starts=[0] * count,
        leader_epochs=[leader_epochs[partition] for partition in range(count)],
        committed_at=now,
        ordered_delivery=ordered_delivery,
    )
    znodes.create_topic(description.topic, record, layout)


def check_hash(name: str) -> HashName:
    """``name`` as the name of a hash. Raises RequestError INVALID_REQUEST."""
    for known in get_args(schemas.HashName):
        if name == known:
            return known  # type: ignore[no-any-return]  # get_args() has no types
    raise invalid_request(
        f"hash has the value {name!r}: one of {', '.join(get_args(schemas.HashName))} is needed",
    )


def check_name(topic: str) -> None:
    """Raises RequestError INVALID_TOPIC_EXCEPTION unless Kafka accepts ``topic`` as a topic's name."""
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
