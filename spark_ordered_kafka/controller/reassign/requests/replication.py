"""Altering replication factors (KIP-179): planned here, carried out as requests to reassign partitions."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.placement import guards
from spark_ordered_kafka.controller.placement.assignments import check_reassigned
from spark_ordered_kafka.controller.placement.planner import Partition
from spark_ordered_kafka.controller.placement.planner.replication_factor import plan_factor
from spark_ordered_kafka.controller.policy import TopicChecks, TopicRequest, frozen
from spark_ordered_kafka.controller.reassign.requests.queries import ReassignmentQueries
from spark_ordered_kafka.controller.reassign.requests.service import ReassignmentRequests
from spark_ordered_kafka.controller.state.change import refuse_second
from spark_ordered_kafka.controller.state.pending import PendingMoves
from spark_ordered_kafka.controller.state.reassignment_records import Move
from spark_ordered_kafka.controller.state.records import TopicRecord
from spark_ordered_kafka.controller.state.topics import Znodes
from spark_ordered_kafka.controller.topics.capacities import Capacities, Headroom
from spark_ordered_kafka.controller.topics.kafka_state import described
from spark_ordered_kafka.controller.topics.queries import Topics
from spark_ordered_kafka.errors import ErrorCode, RequestError, UnavailableError, invalid_request
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.reassignments import Reassignments
from spark_ordered_kafka.kafka.values import PROPAGATION, TopicDescription
from spark_ordered_kafka.listed import listed

_SHOWN = 5


@dataclass(frozen=True)
class Moving:
    """Replicas that a topic's partitions are to have: by a request of ours, or as another tool has asked Kafka (None)."""

    topic: str
    topic_id: str
    replicas: Mapping[int, tuple[int, ...]]
    request_id: int | None


class ReplicationFactors:
    """Gives the partitions of topics under management more or fewer replicas.

    Args:
        requests: takes the planned moves.
        queries: reads how they have ended.
        retired_factor: replicas that a deleted partition keeps at most; None: as many as others.
        timeout: seconds for each call to Kafka.
    """

    def __init__(
        self,
        admin: KafkaAdmin,
        znodes: Znodes,
        topics: Topics,
        checks: TopicChecks,
        capacities: Capacities,
        pending: PendingMoves,
        requests: ReassignmentRequests,
        queries: ReassignmentQueries,
        *,
        retired_factor: int | None,
        timeout: float,
    ) -> None:
        self._admin = admin
        self._znodes = znodes
        self._topics = topics
        self._checks = checks
        self._capacities = capacities
        self._pending = pending
        self._requests = requests
        self._queries = queries
        self._retired_factor = retired_factor
        self._reassignments = Reassignments(admin.requests, timeout=timeout)

    def alter(
        self, item: schemas.TopicReplicationFactor, *, principal: str, validate_only: bool
    ) -> tuple[schemas.TopicResult, Moving | None]:
        """Start to give one topic's partitions the replicas that are asked for; its result, and what is moving then.

        Nothing moves for ``validate_only``, and when all is as asked already. Moves to the same replicas that are pending
        already are not started again.

        Raises:
            RequestError: UNKNOWN_TOPIC_OR_PARTITION, INVALID_REQUEST, INVALID_REPLICATION_FACTOR,
                INVALID_REPLICA_ASSIGNMENT, UNKNOWN_MEMBER_ID, PARTITION_CHANGE_IN_PROGRESS, REASSIGNMENT_IN_PROGRESS,
                GUARD_RAILS, POLICY_VIOLATION.
            UnavailableError: Kafka or ZooKeeper did not answer in time.
        """
        topic = item.topic
        if (item.replication_factor is None) == (item.assignments is None):
            raise invalid_request(
                f"topic {topic[:250]!r}: give replication_factor or assignments, one of the two"
            )
        record, _ = self._topics.record(topic)
        refuse_second(topic, record.change)
        covered = self._topics.covered(topic, record)
        description = self._queries.current(partial(described, self._admin, topic, record.topic_id, covered))
        moving = self._moving(description)
        if moving is not None:
            # The same request may come again: its client cannot tell whether the answer or the request itself got lost.
            if not self._is_asked(item, record, description, moving):
                raise _in_progress(moving)
            return schemas.TopicResult(topic=topic, request_id=moving.request_id), moving
        owner = _owner(topic)
        with self._capacities.ending(owner):
            plan = partial(self._plan, item, record, description)
            wanted = self._capacities.reserve(owner, topic, plan)
            self._checks.check(
                topic,
                record,
                "replication_factor",
                principal=principal,
                validate_only=validate_only,
                altered=partial(_altered, item),
            )
            if validate_only or not wanted:
                self._capacities.drop(owner)
                return schemas.TopicResult(topic=topic), None
            moving = self._start(record, description, wanted, principal)
        return schemas.TopicResult(topic=topic, request_id=moving.request_id), moving

    def ended(self, moving: Moving) -> bool:
        """Whether the replicas are in place.

        Raises RequestError when it has ended otherwise than asked: INVALID_REQUEST if it was cancelled or replaced by
        another, or the error of the first partition that failed.
        """
        if moving.request_id is not None and not self._queries.ended(moving.request_id, moving.topic):
            return False
        description = self._settled(moving)
        if description is None:
            return False
        other = [p for p, brokers in moving.replicas.items() if _replicas(description, p) != brokers]
        if other:
            raise invalid_request(
                f"the reassignment of topic {moving.topic!r} was cancelled or replaced by another: partition {other[0]} "
                f"has its replicas on {list(_replicas(description, other[0]))}, not {list(moving.replicas[other[0]])}"
            )
        return True

    def _settled(self, moving: Moving) -> TopicDescription | None:
        """The topic once no partition of it is being moved; None while one is."""
        deadline = time.monotonic() + PROPAGATION
        while not self._reassignments.ongoing(moving.topic, moving.replicas):
            description = described(self._admin, moving.topic, moving.topic_id)
            shown = all(_replicas(description, p) == b for p, b in moving.replicas.items())
            if shown or time.monotonic() >= deadline:
                return description
            time.sleep(0.1)  # the broker that was asked does not know of the end yet
        return None

    def _plan(
        self,
        item: schemas.TopicReplicationFactor,
        record: TopicRecord,
        description: TopicDescription,
        headroom: Headroom,
    ) -> dict[int, list[int]]:
        """New replicas of the partitions that change."""
        current = {row.partition: row.replicas for row in description.partitions}
        if item.assignments is not None:
            check_reassigned(item.assignments, current, record.undeleted_partition_count, headroom.racks)
            wanted = {p: list(b) for p, b in item.assignments.items() if tuple(b) != current[p]}
            guards.check(f"topic {item.topic!r}", guards.added(current, wanted), headroom.capacity)
            return wanted
        held = {
            row.partition: Partition(item.topic, row.partition, row.replicas, row.leader, row.isr)
            for row in description.partitions
        }
        return plan_factor(
            headroom.racks,
            held,
            0 if item.replication_factor is None else item.replication_factor,
            retired=self._retired(item.topic, record),
            capacity=headroom.chosen_capacity,
        )

    def _retired(self, topic: str, record: TopicRecord) -> dict[int, int]:
        if self._retired_factor is None:
            return {}
        return dict.fromkeys(record.deleted(self._znodes.partition_statuses(topic)), self._retired_factor)

    def _start(
        self,
        record: TopicRecord,
        description: TopicDescription,
        wanted: Mapping[int, Sequence[int]],
        principal: str,
    ) -> Moving:
        topic = description.topic

        moves = [
            Move(
                topic=topic,
                partition=partition,
                topic_id=record.topic_id,
                before=description.partitions[partition].replicas,
                after=tuple(replicas),
            )
            for partition, replicas in sorted(wanted.items())
        ]

        def checked() -> list[Move]:
            now, _ = self._topics.record(topic)
            refuse_second(topic, now.change)
            shown = described(self._admin, topic, record.topic_id, len(description.partitions))
            moving = self._moving(shown)
            if moving is not None:
                raise _in_progress(moving)
            if [row.replicas for row in shown.partitions] != [row.replicas for row in description.partitions]:
                raise UnavailableError(
                    f"topic {topic!r} got other partitions or replicas meanwhile; send the request again"
                )
            return moves

        request_id = self._requests.take(checked, _owner(topic), principal=principal)
        return Moving(topic, record.topic_id, {move.partition: move.after for move in moves}, request_id)

    def _moving(self, description: TopicDescription) -> Moving | None:
        """The moves of a topic that wait or are in progress; None: there are none."""
        pending = list(self._pending.of(description.topic))
        replicas = {move.partition: move.after for _, move in pending}
        partitions = [row.partition for row in description.partitions if row.partition not in replicas]
        ongoing = self._reassignments.ongoing(description.topic, partitions)
        replicas |= {partition: one.target for partition, one in ongoing.items()}
        if not replicas:
            return None
        request_id = pending[0][0] if pending else None
        return Moving(description.topic, description.topic_id, replicas, request_id)

    def _is_asked(
        self,
        item: schemas.TopicReplicationFactor,
        record: TopicRecord,
        description: TopicDescription,
        moving: Moving,
    ) -> bool:
        """Whether the moves in progress give partitions the requested replicas."""
        if moving.request_id is not None and self._queries.read(moving.request_id)[0].state == "cancelling":
            return False
        targets = {row.partition: row.replicas for row in description.partitions} | dict(moving.replicas)
        if item.assignments is not None:
            return all(list(targets.get(p, ())) == brokers for p, brokers in item.assignments.items())
        factor, retired = item.replication_factor, self._retired(item.topic, record)
        return all(len(brokers) == factor or p in retired for p, brokers in targets.items())


def _altered(item: schemas.TopicReplicationFactor, now: TopicRequest) -> TopicRequest:
    factor = now.replication_factor if item.replication_factor is None else item.replication_factor
    if item.assignments is not None:
        factor = max(len(brokers) for brokers in item.assignments.values())
    return replace(now, replication_factor=factor, assignments=frozen(item.assignments))


def _owner(topic: str) -> str:
    """The owner of what a plan reserves."""
    return f"replicas of {topic}"


def _in_progress(moving: Moving) -> RequestError:
    request = "" if moving.request_id is None else f", or cancel reassignment {moving.request_id}"
    return RequestError(
        ErrorCode.REASSIGNMENT_IN_PROGRESS,
        f"replicas of topic {moving.topic!r} are being reassigned already (partition "
        f"{listed(sorted(moving.replicas), _SHOWN)}): wait for the end{request}",
    )


def _replicas(description: TopicDescription, partition: int) -> tuple[int, ...]:
    return description.partitions[partition].replicas
