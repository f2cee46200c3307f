"""Plans of reassignments for the cluster as it is: looked at here, made by :mod:`~.planner`."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.placement import planner
from spark_ordered_kafka.controller.placement.planner.checks import check_fields, unknown_topics
from spark_ordered_kafka.controller.state.reassignment_records import ENDED
from spark_ordered_kafka.controller.state.reassignments import ReassignmentStore
from spark_ordered_kafka.controller.state.topics import Znodes
from spark_ordered_kafka.controller.topics.capacities import Capacities
from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError, UnavailableError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.log_dir_requests import LogDirs
from spark_ordered_kafka.kafka.reassignments import Reassignments
from spark_ordered_kafka.kafka.values import LogDir, PartitionId, TopicDescription

_ANY = "any"
_UNKNOWN = -1


@dataclass
class _Found:
    """What one broker says of its replicas: bytes, log directory, and those that are being moved to another directory."""

    log_dirs: tuple[planner.LogDir, ...] | None = None
    held: dict[PartitionId, tuple[int, str]] = field(default_factory=dict)
    placing: set[PartitionId] = field(default_factory=set)
    error: OrderedKafkaError | None = None


class ReassignmentPlans:
    """Proposes what to reassign; changes nothing.

    Args:
        retired_factor: replicas that a deleted partition keeps at most; None: as many as others.
        timeout: seconds for each call to Kafka, and for which a plan waits until those before it are made.
    """

    def __init__(
        self,
        admin: KafkaAdmin,
        znodes: Znodes,
        capacities: Capacities,
        store: ReassignmentStore,
        *,
        retired_factor: int | None,
        timeout: float,
    ) -> None:
        self._admin = admin
        self._znodes = znodes
        self._capacities = capacities
        self._store = store
        self._retired_factor = retired_factor
        self._timeout = timeout
        self._reassignments = Reassignments(admin.requests, timeout=timeout)
        self._log_dirs = LogDirs(admin.requests, timeout=timeout)
        # Of a large cluster, a plan takes a processor and some hundred megabytes.
        self._planning = threading.Lock()

    def propose(self, request: schemas.ReassignmentPlanRequest) -> schemas.ReassignmentPlan:
        """The plan for a goal.

        Raises:
            RequestError: the goal does not fit the cluster, or GUARD_RAILS: brokers have no capacity for it.
            UnavailableError: Kafka or ZooKeeper does not answer, or other plans take too long.
        """
        goal = planner.Goal(
            request.goal,
            brokers=None if request.brokers is None else tuple(request.brokers),
            topics=None if request.topics is None else tuple(request.topics),
            replication_factor=request.replication_factor,
            log_dirs=None if request.log_dirs is None else tuple(request.log_dirs),
        )
        check_fields(goal)
        if not self._planning.acquire(timeout=self._timeout):
            raise UnavailableError(f"other plans have not been made within {self._timeout:g} s; ask again")
        try:
            snapshot, warnings = self._snapshot(goal.topics)
            return _answer(planner.plan(snapshot, goal), warnings)
        finally:
            self._planning.release()

    def _snapshot(self, topics: Collection[str] | None) -> tuple[planner.Snapshot, list[str]]:
        described = self._admin.describe_topics(None if topics is None else list(topics))
        unknown_topics(topics or (), described)
        views = self._capacities.brokers().brokers
        alive = [view.id for view in views if view.alive]
        asked = None if topics is None else {name: _numbers(described[name]) for name in described}
        found = {broker: _found(answer) for broker, answer in self._log_dirs.describe(alive, asked).items()}
        brokers = tuple(
            planner.Broker(
                view.id,
                rack=view.rack,
                alive=view.alive,
                capacity=view.capacity,
                log_dirs=found[view.id].log_dirs if view.id in found else None,
            )
            for view in views
        )
        going = self._going()
        partitions = [
            one
            for name in sorted(described)
            for one in _partitions(described[name], self._statuses(described[name]), going, found)
        ]
        warnings = [
            f"bytes of replicas on broker {broker} are not known: {one.error}"
            for broker, one in sorted(found.items())
            if one.error is not None
        ]
        return planner.Snapshot(brokers, tuple(partitions), self._retired_factor), warnings

    def _going(self) -> set[PartitionId]:
        """What is being reassigned, or waits for its turn in a request that is being carried out."""
        waiting = {
            move.place
            for _, record in self._store.active()
            for move in record.moves
            if move.state not in ENDED
        }
        return waiting | self._reassignments.all_ongoing().keys()

    def _statuses(self, described: TopicDescription) -> Mapping[int, planner.Status]:
        """Partition -> marked or deleted, of those that are not live."""
        record = self._znodes.topic(described.topic)
        if record is None or record.topic_id != described.topic_id:
            return {}
        removed = range(record.undeleted_partition_count, len(described.partitions))
        if not removed:
            return {}
        marks = self._znodes.partition_statuses(described.topic)
        # One without a mark was made by an expansion that never ended.
        return {partition: marks.get(partition, "deleted") for partition in removed}


def _partitions(
    described: TopicDescription,
    statuses: Mapping[int, planner.Status],
    going: Collection[PartitionId],
    found: Mapping[int, _Found],
) -> list[planner.Partition]:
    rows = []
    for row in described.partitions:
        place = (described.topic, row.partition)
        held = [found[b].held.get(place) if b in found else None for b in row.replicas]
        rows.append(
            planner.Partition(
                described.topic,
                row.partition,
                row.replicas,
                row.leader,
                isr=row.isr,
                sizes=tuple(None if one is None else one[0] for one in held),
                log_dirs=tuple(None if one is None else one[1] for one in held),
                status=statuses.get(row.partition, "live"),
                moving=place in going,
                placing=tuple(b for b in row.replicas if b in found and place in found[b].placing),
            )
        )
    return rows


def _found(answer: list[LogDir] | OrderedKafkaError) -> _Found:
    if isinstance(answer, OrderedKafkaError):
        return _Found(error=answer)
    online = int(ErrorCode.NONE)
    found = _Found(
        tuple(planner.LogDir(one.path, one.error_code == online, one.usable_bytes) for one in answer)
    )
    for one in answer:
        for replica in one.replicas:
            place = (replica.topic, replica.partition)
            if replica.is_future:
                found.placing.add(place)
            else:
                found.held[place] = (replica.size, one.path)
    return found


def _numbers(described: TopicDescription) -> list[int]:
    return [row.partition for row in described.partitions]


def _answer(plan: planner.Plan, warnings: list[str]) -> schemas.ReassignmentPlan:
    row = schemas.PartitionAssignment
    before = [
        row(
            topic=one.partition.topic,
            partition=one.partition.partition,
            replicas=list(one.partition.replicas),
            # As Kafka's own --generate tells it: what undoes the plan puts replicas back where they were.
            log_dirs=[_shown(one.partition.log_dir_on(broker)) for broker in one.partition.replicas],
        )
        for one in plan.changes
    ]
    after = [
        row(
            topic=one.partition.topic,
            partition=one.partition.partition,
            replicas=list(one.replicas),
            log_dirs=[_shown(path) for path in one.log_dirs],
        )
        for one in plan.changes
    ]
    return schemas.ReassignmentPlan(
        partitions=after,
        current=schemas.Assignment(partitions=before),
        bytes_to_move=_UNKNOWN if plan.size is None else plan.size,
        replicas_to_move=plan.replicas,
        leaders_to_move=plan.leaders,
        brokers=[
            schemas.PlannedBroker(
                broker=broker, before=_load(plan.before[broker]), after=_load(plan.after[broker])
            )
            for broker in sorted(plan.after)
        ],
        warnings=[*warnings, *plan.warnings],
    )


def _shown(log_dir: str | None) -> str:
    return _ANY if log_dir is None else log_dir


def _load(load: planner.Load) -> schemas.BrokerLoad:
    return schemas.BrokerLoad(replicas=load.replicas, leaders=load.leaders, bytes=load.size)
