"""Reassignment of partitions (KIP-179, KIP-455); the plans are Kafka's own JSON (``kafka-reassign-partitions``)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_serializer

from spark_ordered_kafka.client.schemas.base import (
    Answer,
    Int32,
    Int64,
    Many,
    Open,
    Replicas,
    Request,
    Result,
    TimeoutMs,
)

Rate = Annotated[Int64, Field(ge=1)]
"""Bytes per second."""
ReassignmentState = Literal["running", "cancelling", "done", "failed", "cancelled"]
PlanGoal = Literal[
    "drain",
    "spread",
    "balance",
    "racks",
    "replication_factor",
    "empty_log_dirs",
    "balance_log_dirs",
    "leaders",
    "replace_replicas",
]
FurtherPlanGoal = Literal["racks", "balance", "leaders"]
VerifiedStatus = Literal["completed", "in_progress", "differs", "unknown"]


class PartitionReassignment(Request):
    """A partition's replicas as they are to be, preferred leader first.

    ``log_dirs`` has the log directory of each replica in the same order: an absolute path, or ``any``.
    """

    topic: str
    partition: Int32
    replicas: Replicas[Int32]
    log_dirs: Replicas[str] | None = None


class ReassignmentRequest(Request):
    """``POST /v1/reassignments`` (KIP-179 reassignPartitions): Kafka's JSON and how to carry it out.

    ``rollback`` instead of ``partitions``: the id of a request whose partitions are to have their former replicas.
    ``throttle`` limits what every broker sends and receives for it, ``replica_alter_log_dirs_throttle`` what it copies
    between its log directories, in bytes per second; without them nothing is limited. ``additional`` lets it begin while other
    reassignments are in progress. ``elect_leaders``: elect preferred leaders at the end.
    """

    version: Literal[1] = 1
    partitions: Many[PartitionReassignment] | None = None
    rollback: Int32 | None = None
    throttle: Rate | None = None
    replica_alter_log_dirs_throttle: Rate | None = None
    additional: bool = False
    allow_replication_factor_change: bool = False
    elect_leaders: bool = True
    validate_only: bool = False
    timeout_ms: TimeoutMs | None = None


class ReassignmentThrottleRequest(Request):
    """``PATCH /v1/reassignments/{id}``: other throttles; a field that is left out stays as it is, null takes the limit
    away."""

    throttle: Rate | None = None
    replica_alter_log_dirs_throttle: Rate | None = None
    validate_only: bool = False

    @model_serializer(mode="plain")
    def _given(self) -> dict[str, object]:
        # Clients leave out what is None, which says something here.
        return {name: getattr(self, name) for name in sorted(self.model_fields_set)}


class PartitionResult(Result):
    """Outcome for one partition."""

    topic: str
    partition: int


class ReassignmentResult(Answer):
    """``request_id`` is None when nothing was started: because of ``validate_only``, or as ``partitions`` say."""

    request_id: int | None
    partitions: list[PartitionResult]
    warnings: list[str] = Field(default_factory=list)


class ReplicaProgress(Result):
    """Progress of one replica, in bytes: ``denominator`` -1 when it is not known, never 0 (KIP-179).

    ``error`` is ``REASSIGNMENT_IN_PROGRESS`` until it has ended, ``NONE`` when it is as requested. ``log_dir`` is the requested
    one, None: any.
    """

    topic: str
    partition: int
    broker: int
    numerator: int
    denominator: int
    log_dir: str | None = None


class ReassignmentSummary(Answer):
    """A request and its progress: bytes, bytes per second and seconds; ``denominator`` -1 when not all is known.

    ``waiting``, ``moving``, ``done``, ``failed`` and ``cancelled`` count partitions. Times are seconds since the epoch.
    """

    request_id: int
    complete: bool
    state: Open[ReassignmentState]
    numerator: int
    denominator: int
    rate: float
    eta_seconds: float | None
    created_at: float
    ended_at: float | None = None
    principal: str = ""
    throttle: int | None = None
    replica_alter_log_dirs_throttle: int | None = None
    rollback_of: int | None = None
    waiting: int = 0
    moving: int = 0
    done: int = 0
    failed: int = 0
    cancelled: int = 0
    warnings: list[str] = Field(default_factory=list)


class ReassignmentView(ReassignmentSummary):
    """``GET /v1/reassignments/{id}`` (KIP-179 partitionAssignmentStatus)."""

    replicas: list[ReplicaProgress]


class OngoingReassignment(Answer):
    """A reassignment in progress in Kafka; ``request_id`` None: another tool asked for it."""

    topic: str
    partition: int
    replicas: list[int]
    adding_replicas: list[int]
    removing_replicas: list[int]
    request_id: int | None = None


class ReassignmentList(Answer):
    """``GET /v1/reassignments``: the stored requests, newest first, and Kafka's reassignments in progress."""

    requests: list[ReassignmentSummary]
    ongoing: list[OngoingReassignment]


class PartitionAssignment(Answer):
    """A row of Kafka's JSON, in answers."""

    topic: str
    partition: int
    replicas: list[int]
    log_dirs: list[str]


class Assignment(Answer):
    """Kafka's JSON, in answers."""

    version: int = 1
    partitions: list[PartitionAssignment]


class ReassignmentPlanRequest(Request):
    """``POST /v1/reassignments/plan``: what is wanted; nothing is changed by it.

    ``drain``: move everything off ``brokers``. ``spread``: move a fair share onto ``brokers``. ``balance``: even out replicas,
    leaders and bytes over all brokers (or ``brokers``). ``racks``: repair partitions whose replicas share a rack needlessly.
    ``replication_factor``: give partitions ``replication_factor`` replicas. ``empty_log_dirs``: move everything out of
    ``log_dirs`` of the broker in ``brokers``. ``balance_log_dirs``: even out the bytes of the log directories of ``brokers``.
    ``leaders``: even out preferred leaders over all brokers (or ``brokers``), without moving a replica. ``replace_replicas``:
    move to other brokers what ``brokers`` have in no online log directory, as when one has failed.
    ``also``: goals that the same plan is to reach afterwards, in the order racks, balance, leaders.
    ``topics``: look at these alone; None: at all.
    """

    goal: PlanGoal
    brokers: Many[Int32] | None = None
    topics: Many[str] | None = None
    replication_factor: Int32 | None = None
    log_dirs: Many[str] | None = None
    also: Many[FurtherPlanGoal] | None = None


class BrokerLoad(Answer):
    """What a broker has of the partitions that were looked at; ``leaders`` counts preferred ones."""

    replicas: int
    leaders: int
    bytes: int


class PlannedBroker(Answer):
    """What a broker has before and after a plan. Bytes are those that its replicas have once they are complete."""

    broker: int
    before: BrokerLoad
    after: BrokerLoad


class ReassignmentPlan(Answer):
    """A plan in Kafka's JSON, with the partitions that are to change, and the same ones as they are now.

    ``bytes_to_move`` is -1 where a log's size is not known; ``leaders_to_move`` counts the partitions that get another
    preferred leader.
    """

    version: int = 1
    partitions: list[PartitionAssignment]
    current: Assignment
    bytes_to_move: int
    replicas_to_move: int
    leaders_to_move: int
    brokers: list[PlannedBroker] = Field(default_factory=list)
    warnings: list[str] = Field(default_factory=list)


class VerifyRequest(Request):
    """``POST /v1/reassignments/verify``: whether partitions are as Kafka's JSON says."""

    version: Literal[1] = 1
    partitions: Many[PartitionReassignment]


class VerifiedReplica(Answer):
    """One replica whose log directory is named; ``current`` is where it is, ``future`` where it is being moved to."""

    broker: int
    status: Open[VerifiedStatus]
    log_dir: str
    current_log_dir: str | None
    future_log_dir: str | None


class VerifiedPartition(Answer):
    """``replicas`` as they are now; ``target`` as asked; ``log_dirs``: those replicas whose directory is named."""

    topic: str
    partition: int
    status: Open[VerifiedStatus]
    replicas: list[int]
    target: list[int]
    log_dirs: list[VerifiedReplica]


class Verification(Answer):
    """``complete``: all partitions and log directories are as asked."""

    complete: bool
    partitions: list[VerifiedPartition]
