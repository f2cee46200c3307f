"""Plans of reassignments: the snapshot of the cluster is taken here, the plan is made by :mod:`~.planner`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from functools import partial

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.placement import planner
from spark_ordered_kafka.controller.placement.planner.checks import check_fields, unknown_topics
from spark_ordered_kafka.controller.reassign.requests.arriving import Arriving, arriving, less
from spark_ordered_kafka.controller.reassign.requests.metadata_agreement import (
    MetadataAgreement,
    StaleMetadata,
    all_replicas,
)
from spark_ordered_kafka.controller.reassign.requests.snapshot_reader import describe
from spark_ordered_kafka.controller.state.reassignment_records import ANY, Move
from spark_ordered_kafka.controller.state.reassignments import ReassignmentStore
from spark_ordered_kafka.controller.state.topics import Znodes
from spark_ordered_kafka.controller.topics.capacities import Capacities
from spark_ordered_kafka.controller.zk.records import UnreadableRecordError
from spark_ordered_kafka.errors import OrderedKafkaError, UnavailableError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.log_dir_requests import LogDirs
from spark_ordered_kafka.kafka.reassignments import Reassignments
from spark_ordered_kafka.kafka.values import (
    NO_REPLICA,
    LocalReplica,
    LogDir,
    PartitionId,
    Reassignment,
    Replica,
    TopicDescription,
    local_replicas,
)

_UNKNOWN = -1


class ReassignmentPlans:
    """Proposes what to reassign; changes nothing.

    Args:
        clock: seconds since the epoch.
        retired_factor: replicas that a deleted partition keeps at most; None: as many as others.
        timeout: seconds for each call to Kafka, and for the wait until earlier plans are made.
    """

    def __init__(
        self,
        admin: KafkaAdmin,
        znodes: Znodes,
        capacities: Capacities,
        store: ReassignmentStore,
        clock: Callable[[], float],
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
        self._agreement = MetadataAgreement(admin.requests, store, clock, timeout=timeout)
        # A plan of a large cluster takes one processor and some hundred megabytes.
        self._planning = threading.Lock()

    def propose(
        self, request: schemas.ReassignmentPlanRequest, write_rates: Mapping[PartitionId, float] | None = None
    ) -> schemas.ReassignmentPlan:
        """The plan for a goal. ``write_rates``: bytes per second by partition; without, leaders are evened out by number alone.

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
            also=None if request.also is None else tuple(request.also),
        )
        check_fields(goal)
        if not self._planning.acquire(timeout=self._timeout):
            raise UnavailableError(f"other plans have not been made within {self._timeout:g} s; ask again")
        try:
            snapshot, warnings = self._snapshot(goal.topics, write_rates or {})
            return _answer(planner.plan(snapshot, goal), warnings)
        finally:
            self._planning.release()

    def _snapshot(
        self, topics: Collection[str] | None, rates: Mapping[PartitionId, float]
    ) -> tuple[planner.Snapshot, list[str]]:
        # Before and after the topics: of a reassignment that ends in between, they have the replicas of both its sides.
        pending, ongoing = self._moving()
        described = StaleMetadata(self._agreement).read_current(
            partial(self._described, topics), all_replicas
        )
        unknown_topics(topics or (), described)
        views = self._capacities.brokers().brokers
        alive = [view.id for view in views if view.alive]
        # Of other topics, too: what is on its way needs space.
        answers = self._log_dirs.describe(alive)
        held = local_replicas(answers)
        later = self._moving()
        pending, ongoing = pending | later[0], ongoing | later[1]
        due = arriving(pending.values(), ongoing, held)
        brokers = tuple(
            planner.Broker(
                view.id,
                rack=view.rack,
                alive=view.alive,
                capacity=view.capacity,
                log_dirs=_log_dirs(view.id, answers.get(view.id), due),
            )
            for view in views
        )
        moving = {tp: one.target for tp, one in ongoing.items()}
        moving |= {tp: move.after for tp, move in pending.items()}
        statuses = {name: self._statuses(one) for name, one in sorted(described.items())}
        partitions = [
            one
            for name, found in statuses.items()
            for one in _partitions(
                described[name],
                {} if isinstance(found, UnreadableRecordError) else found,
                moving,
                held,
                rates,
            )
        ]
        warnings = [
            f"removed partitions of topic {name!r} are planned like others: {found.message}"
            for name, found in statuses.items()
            if isinstance(found, UnreadableRecordError)
        ]
        warnings += [
            f"bytes of replicas on broker {broker} are not known: {answer}"
            for broker, answer in sorted(answers.items())
            if isinstance(answer, OrderedKafkaError)
        ]
        return planner.Snapshot(brokers, tuple(partitions), self._retired_factor), warnings

    def _moving(self) -> tuple[dict[PartitionId, Move], dict[PartitionId, Reassignment]]:
        """The moves of requests that wait or are in progress, and all of Kafka's reassignments."""
        pending = {tp: move for tp, (_, move) in self._store.pending().items()}
        return pending, dict(self._reassignments.all_ongoing())

    def _described(self, topics: Collection[str] | None) -> Mapping[str, TopicDescription]:
        return self._admin.describe_topics() if topics is None else describe(self._admin, topics)

    def _statuses(
        self, described: TopicDescription
    ) -> Mapping[int, schemas.PartitionStatus] | UnreadableRecordError:
        """Partition -> marked or deleted, of those that are not live; or why that is not known."""
        try:
            return self._removed(described)
        except UnreadableRecordError as error:
            return error

    def _removed(self, described: TopicDescription) -> Mapping[int, schemas.PartitionStatus]:
        record = self._znodes.topic(described.topic)
        if record is None or record.topic_id != described.topic_id:
            return {}
        removed = range(record.undeleted_partition_count, len(described.partitions))
        if not removed:
            return {}
        marks = self._znodes.partition_statuses(described.topic)
        # A partition without a mark was created by an expansion that did not end.
        return {p: "deleted" if marks.get(p, "deleted") == "deleted" else "marked" for p in removed}


def _partitions(
    described: TopicDescription,
    statuses: Mapping[int, schemas.PartitionStatus],
    moving: Mapping[PartitionId, tuple[int, ...]],
    held: Mapping[Replica, LocalReplica],
    rates: Mapping[PartitionId, float],
) -> list[planner.Partition]:
    """The topic's partitions. Those that are ``moving``, with these as their new replicas, count where they go: the next plan
    would even out once more what the last one does already."""
    rows = []
    for row in described.partitions:
        tp = (described.topic, row.partition)
        replicas = moving.get(tp, row.replicas)
        there = {broker: held.get((*tp, broker), NO_REPLICA) for broker in {*replicas, *row.replicas}}
        sizes = {broker: None if one.path is None else one.size for broker, one in there.items()}
        if set(replicas) != set(row.replicas):
            # Of what is copied a broker has only a part so far.
            largest = max((size for size in sizes.values() if size is not None), default=None)
            sizes = dict.fromkeys(replicas, largest)
        rows.append(
            planner.Partition(
                described.topic,
                row.partition,
                replicas,
                row.leader,
                isr=row.isr,
                sizes=tuple(sizes[broker] for broker in replicas),
                log_dirs=tuple(there[broker].path for broker in replicas),
                status=statuses.get(row.partition, "live"),
                moving=tp in moving,
                moving_log_dir=tuple(b for b in replicas if there[b].future_path is not None),
                write_rate=rates.get(tp, 0.0),
            )
        )
    return rows


def _log_dirs(
    broker: int, answer: list[LogDir] | OrderedKafkaError | None, due: Arriving
) -> tuple[LogDir, ...] | None:
    return None if answer is None or isinstance(answer, OrderedKafkaError) else less(answer, broker, due)


def _answer(plan: planner.Plan, warnings: list[str]) -> schemas.ReassignmentPlan:
    row = schemas.PartitionAssignment
    before = [
        row(
            topic=one.partition.topic,
            partition=one.partition.partition,
            replicas=list(one.partition.replicas),
            # As in Kafka's own --generate: the undo of a plan puts replicas back into their directories.
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
    return ANY if log_dir is None else log_dir


def _load(load: planner.Load) -> schemas.BrokerLoad:
    return schemas.BrokerLoad(replicas=load.replicas, leaders=load.leaders, bytes=load.size)
