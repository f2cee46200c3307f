"""Altering replication factors (KIP-179): planned here, carried out by Kafka itself, which goes on with it alone."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.placement import guards
from spark_ordered_kafka.controller.placement.assignments import check_reassigned
from spark_ordered_kafka.controller.placement.factors import Held, plan_factor
from spark_ordered_kafka.controller.policy import PolicyCheck, TopicRequest, frozen, present
from spark_ordered_kafka.controller.state.change import refuse_second
from spark_ordered_kafka.controller.state.pending import PendingMoves
from spark_ordered_kafka.controller.state.records import TopicRecord
from spark_ordered_kafka.controller.state.topics import Znodes
from spark_ordered_kafka.controller.topics.capacities import Capacities, Headroom
from spark_ordered_kafka.controller.topics.kafka_state import described, described_soon
from spark_ordered_kafka.controller.topics.queries import Topics
from spark_ordered_kafka.controller.topics.retired_replicas import staying
from spark_ordered_kafka.errors import ErrorCode, RequestError, UnavailableError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.configs import TopicConfigs
from spark_ordered_kafka.kafka.leaders import PROPAGATION
from spark_ordered_kafka.kafka.reassignments import Reassignments
from spark_ordered_kafka.kafka.values import Reassignment, TopicDescription

_SHOWN = 5


@dataclass(frozen=True)
class Moving:
    """Replicas that a topic's partitions are to have, as Kafka was asked."""

    topic: str
    topic_id: str
    replicas: Mapping[int, Sequence[int]]


class ReplicationFactors:
    """Gives the partitions of topics under management more or fewer replicas.

    Args:
        starting: held by whoever begins a partition change.
        retired_factor: replicas that a deleted partition keeps at most; None: as many as others.
        timeout: seconds for each call to Kafka.
    """

    def __init__(
        self,
        admin: KafkaAdmin,
        znodes: Znodes,
        topics: Topics,
        policy: PolicyCheck,
        starting: threading.Lock,
        capacities: Capacities,
        pending: PendingMoves,
        *,
        retired_factor: int | None,
        timeout: float,
    ) -> None:
        self._admin = admin
        self._znodes = znodes
        self._topics = topics
        self._policy = policy
        self._starting = starting
        self._capacities = capacities
        self._pending = pending
        self._retired_factor = retired_factor
        self._configs = TopicConfigs(admin.requests, timeout)
        self._reassignments = Reassignments(admin.requests, timeout=timeout)

    def alter(
        self, item: schemas.TopicReplicationFactor, *, principal: str, validate_only: bool
    ) -> tuple[schemas.TopicResult, Moving | None]:
        """Let Kafka give one topic's partitions the replicas that are asked for; its result, and what is going on then.

        None goes on for ``validate_only``, and when all is as asked already. What Kafka is doing already is not asked for
        again.

        Raises:
            RequestError: UNKNOWN_TOPIC_OR_PARTITION, INVALID_REQUEST, INVALID_REPLICATION_FACTOR,
                INVALID_REPLICA_ASSIGNMENT, UNKNOWN_MEMBER_ID, PARTITION_CHANGE_IN_PROGRESS, REASSIGNMENT_IN_PROGRESS,
                GUARD_RAILS, POLICY_VIOLATION.
            UnavailableError: Kafka or ZooKeeper did not answer in time.
        """
        topic = item.topic
        if (item.replication_factor is None) == (item.assignments is None):
            raise RequestError(
                ErrorCode.INVALID_REQUEST,
                f"topic {topic[:250]!r}: give replication_factor or assignments, one of the two",
            )
        record, _ = self._topics.record(topic)
        refuse_second(topic, record.change)
        description = described_soon(self._admin, topic, record.topic_id)
        ongoing = self._ongoing(description)
        if ongoing:
            # The same request may come again: nobody can tell whether its answer or the request itself got lost.
            targets = {p: staying(description, ongoing, p) for p in range(len(description.partitions))}
            if not self._is_asked(item, record, targets):
                raise _in_progress(topic, ongoing)
            moving = {partition: targets[partition] for partition in ongoing}
            return schemas.TopicResult(topic=topic), Moving(topic, record.topic_id, moving)
        self._pending.refuse_any(topic)
        owner = f"replicas of {topic}"
        with self._capacities.ending(owner):
            plan = partial(self._plan, item, record, description)
            wanted = self._capacities.reserve(owner, topic, plan)
            self._policy.validate(lambda: self._asked(item, record, principal, validate_only))
            if validate_only or not wanted:
                self._capacities.drop(owner)
                return schemas.TopicResult(topic=topic), None
            self._start(record, description, wanted)
        return schemas.TopicResult(topic=topic), Moving(topic, record.topic_id, wanted)

    def ended(self, moving: Moving) -> bool:
        """Whether Kafka has ended it.

        Raises RequestError INVALID_REQUEST when it has ended otherwise than asked: cancelled, or replaced by another.
        """
        description = self._settled(moving)
        if description is None:
            return False
        other = [p for p, brokers in moving.replicas.items() if _replicas(description, p) != tuple(brokers)]
        if other:
            raise RequestError(
                ErrorCode.INVALID_REQUEST,
                f"the reassignment of topic {moving.topic!r} was cancelled or replaced by another: partition {other[0]} "
                f"has its replicas on {list(_replicas(description, other[0]))}, not {list(moving.replicas[other[0]])}",
            )
        return True

    def _settled(self, moving: Moving) -> TopicDescription | None:
        """The topic with nothing of it moving any more; None while something does."""
        deadline = time.monotonic() + PROPAGATION
        while not self._reassignments.ongoing(moving.topic, moving.replicas):
            description = described(self._admin, moving.topic, moving.topic_id)
            shown = all(_replicas(description, p) == tuple(b) for p, b in moving.replicas.items())
            if shown or time.monotonic() >= deadline:
                return description
            time.sleep(0.1)  # the broker that was asked has not heard of it yet
        return None

    def _plan(
        self,
        item: schemas.TopicReplicationFactor,
        record: TopicRecord,
        description: TopicDescription,
        headroom: Headroom,
    ) -> dict[int, list[int]]:
        """New replicas of the partitions that are to have others."""
        current = {row.partition: row.replicas for row in description.partitions}
        if item.assignments is not None:
            check_reassigned(item.assignments, current, record.undeleted_partition_count, headroom.racks)
            wanted = {p: list(b) for p, b in item.assignments.items() if tuple(b) != current[p]}
            guards.check(f"topic {item.topic!r}", guards.added(current, wanted), headroom.capacity)
            return wanted
        held = {row.partition: Held(row.replicas, row.isr, row.leader) for row in description.partitions}
        return plan_factor(
            headroom.racks,
            held,
            0 if item.replication_factor is None else item.replication_factor,
            retired=self._retired(item.topic, record),
            capacity=headroom.capacity,
        )

    def _retired(self, topic: str, record: TopicRecord) -> dict[int, int]:
        if self._retired_factor is None:
            return {}
        statuses = self._znodes.partition_statuses(topic)
        return {
            partition: self._retired_factor
            for partition, status in statuses.items()
            if status == "deleted" and partition >= record.undeleted_partition_count
        }

    def _start(
        self, record: TopicRecord, description: TopicDescription, wanted: Mapping[int, Sequence[int]]
    ) -> None:
        topic = description.topic
        # No change begins while the lock is held, which would add partitions by the old factor or revive removed ones.
        with self._starting:
            now, _ = self._topics.record(topic)
            refuse_second(topic, now.change)
            shown = described(self._admin, topic, record.topic_id)
            ongoing = self._ongoing(shown)
            if ongoing:
                raise _in_progress(topic, ongoing)
            self._pending.refuse_any(topic)
            if [row.replicas for row in shown.partitions] != [row.replicas for row in description.partitions]:
                raise UnavailableError(
                    f"topic {topic!r} got other partitions or replicas meanwhile; send the request again"
                )
            # Another controller does not know of this lock.
            self._znodes.confirm_claim()
            self._reassignments.start(topic, wanted)

    def _ongoing(self, description: TopicDescription) -> dict[int, Reassignment]:
        partitions = [row.partition for row in description.partitions]
        return self._reassignments.ongoing(description.topic, partitions)

    def _is_asked(
        self, item: schemas.TopicReplicationFactor, record: TopicRecord, targets: Mapping[int, Sequence[int]]
    ) -> bool:
        """Whether partitions will have the replicas that are asked for."""
        if item.assignments is not None:
            return all(list(targets.get(p, ())) == brokers for p, brokers in item.assignments.items())
        factor, retired = item.replication_factor, self._retired(item.topic, record)
        return all(len(brokers) == factor or p in retired for p, brokers in targets.items())

    def _asked(
        self, item: schemas.TopicReplicationFactor, record: TopicRecord, principal: str, validate_only: bool
    ) -> TopicRequest:
        now = present(
            self._admin,
            self._configs,
            item.topic,
            record,
            "replication_factor",
            principal=principal,
            validate_only=validate_only,
        )
        factor = item.replication_factor
        if item.assignments is not None:
            factor = max(len(brokers) for brokers in item.assignments.values())
        return replace(
            now,
            replication_factor=now.replication_factor if factor is None else factor,
            assignments=frozen(item.assignments),
        )


def _in_progress(topic: str, ongoing: Collection[int]) -> RequestError:
    more = f" and {len(ongoing) - _SHOWN} more" if len(ongoing) > _SHOWN else ""
    return RequestError(
        ErrorCode.REASSIGNMENT_IN_PROGRESS,
        f"replicas of topic {topic!r} are being reassigned already (partition "
        f"{', '.join(map(str, sorted(ongoing)[:_SHOWN]))}{more}): wait for the end",
    )


def _replicas(description: TopicDescription, partition: int) -> tuple[int, ...]:
    return description.partitions[partition].replicas
