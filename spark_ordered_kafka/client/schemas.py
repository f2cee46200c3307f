"""Bodies of the controller's HTTP API (``/v1``), shared by the service and its clients.

Names follow the proposals (KIP-253, KIP-179, KIP-578) and Kafka's own tools. Requests refuse unknown fields; answers
ignore them, so that a newer controller may say more than an older client knows.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

HashName = Literal["murmur3", "murmur2", "crc32"]
ChangeKind = Literal["expand", "shrink", "order", "unorder"]
ChangeStep = Literal["planned", "creating", "closing", "fencing", "boundaries", "committing"]
ChangeOutcome = Literal["done", "cancelled", "failed"]


class Request(BaseModel):
    """Base of request bodies: a misspelt field is refused instead of ignored."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Answer(BaseModel):
    """Base of answer bodies: immutable, unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Result(Answer):
    """Outcome of one item, and of a request that fails whole. ``error_code`` 0 (``NONE``) means done."""

    error_code: int = 0
    error: str = "NONE"
    error_message: str | None = None


class CreateTopicRequest(Request):
    """``POST /v1/topics``."""

    topic: str
    partitions: int | None = None
    replication_factor: int | None = None
    assignments: dict[int, list[int]] | None = None
    hash: str = "murmur3"
    ordered_delivery: bool = True
    configs: dict[str, str] = Field(default_factory=dict)
    validate_only: bool = False


class AdoptTopicRequest(Request):
    """``POST /v1/topics/{t}/adopt``. ``force`` takes the topic though its records lie elsewhere than ``hash`` says."""

    hash: str = "murmur2"
    force: bool = False
    validate_only: bool = False


class AlterTopicRequest(Request):
    """``PATCH /v1/topics/{t}``. What is None stays as it is; a config of None goes back to Kafka's default."""

    ordered_delivery: bool | None = None
    configs: dict[str, str | None] = Field(default_factory=dict)
    force: bool = False
    validate_only: bool = False


class DeleteRecordsRequest(Request):
    """``POST /v1/topics/{t}/delete-records``. ``partitions`` None: all that are marked for deletion."""

    partitions: list[int] | None = None
    force: bool = False
    validate_only: bool = False


class PositionCheck(Request):
    """A position, and the leader epoch (KIP-320) that the log was read under up to there."""

    partition: int
    offset: int
    leader_epoch: int


class TruncationsRequest(Request):
    """``POST /v1/topics/{t}/truncations``: which of these positions, and of the layouts' starts, the logs have lost."""

    positions: list[PositionCheck] = Field(default_factory=list)


class MisroutedReport(Request):
    """``POST /v1/topics/{t}/misrouted``: how many records a reading task found where their keys do not belong."""

    records: int


class TopicPartitionCount(Request):
    """One topic of ``POST /v1/partition-counts``; ``partition_count`` is the new undeleted partition count."""

    topic: str
    partition_count: int


class PartitionCountsRequest(Request):
    """``POST /v1/partition-counts`` (KIP-179 alterPartitionCounts, KIP-253)."""

    topics: list[TopicPartitionCount]
    force: bool = False
    validate_only: bool = False


class TopicResult(Result):
    """Outcome for one topic; ``change_id`` names the change that was started, if one was."""

    topic: str
    change_id: str | None = None


class TopicResults(Answer):
    """Answer of the requests that name several topics."""

    topics: list[TopicResult]


class ChangeView(Answer):
    """A partition change in progress. ``total_fences`` counts the transactional ids found to fence."""

    id: str
    kind: ChangeKind
    target: int
    source: int
    step: ChangeStep
    force: bool = False
    started_at: float
    closing_at: float | None = None
    fenced: int = 0
    total_fences: int = 0
    cancel_requested: bool = False


class FinishedChangeView(Answer):
    """A change that has ended. ``writer_pause_seconds``: from closing to commit, 0 if it was never reached."""

    id: str
    kind: ChangeKind
    target: int
    source: int
    outcome: ChangeOutcome
    started_at: float
    finished_at: float
    writer_pause_seconds: float = 0.0
    fenced: int = 0
    error: Result | None = None


class TopicChange(Answer):
    """``GET /v1/topics/{t}/change``: the change in progress, and the one that ended last."""

    topic: str
    change: ChangeView | None
    last_change: FinishedChangeView | None


class GroupPosition(Answer):
    """How far a consumer group has read a partition; ``offset`` None: it has committed nothing there."""

    group: str
    offset: int | None


class PartitionView(Answer):
    """A Kafka partition; ``marked``: removed by a shrink, still read; ``deleted``: removed and empty.

    Of a request with ``details``: ``log_start`` and ``log_end`` are offsets, ``size`` is bytes of the leader's log, and
    ``waiting_groups`` are the consumer groups that have not read a marked partition to its end.
    """

    partition: int
    status: Literal["live", "marked", "deleted"]
    leader: int
    replicas: list[int]
    isr: list[int]
    log_start: int | None = None
    log_end: int | None = None
    size: int | None = None
    waiting_groups: list[GroupPosition] | None = None


class TopicView(Answer):
    """``GET /v1/topics/{t}``."""

    topic: str
    topic_id: str
    cluster_id: str
    initial_partition_count: int
    undeleted_partition_count: int
    layout_epoch: int
    hash: HashName
    ordered_delivery: bool
    change: ChangeView | None
    last_change: FinishedChangeView | None = None
    partitions: list[PartitionView]


class TopicSummary(Answer):
    """A row of ``GET /v1/topics``."""

    topic: str
    topic_id: str
    initial_partition_count: int
    undeleted_partition_count: int
    layout_epoch: int
    hash: HashName
    ordered_delivery: bool
    change: ChangeView | None


class TopicList(Answer):
    """``GET /v1/topics``."""

    topics: list[TopicSummary]


class LayoutView(Answer):
    """One committed layout epoch; ``starts[p]`` is the first offset of partition p that can hold its records.

    ``ordered_delivery`` False: writers were not held to this layout, so any partition may have records of any key.
    """

    epoch: int
    undeleted_partition_count: int
    starts: list[int]
    leader_epochs: list[int]
    committed_at: float
    ordered_delivery: bool = True


class LayoutHistoryView(Answer):
    """``GET /v1/topics/{t}/layout``: the layouts from ``from_epoch`` on. A linearizable read."""

    topic: str
    topic_id: str
    cluster_id: str
    hash: HashName
    ordered_delivery: bool
    initial_partition_count: int
    layouts: list[LayoutView]
    changing: bool


class EarlierLayout(Answer):
    """Where earlier epochs may still hold a key of a compacted topic.

    Under ``undeleted_partition_count`` partition p was written below ``ends[p]``; once its log start has reached that,
    nothing of those epochs is left there. 0, or an index beyond the list: no key has moved away from p since.
    """

    undeleted_partition_count: int
    ends: list[int]


class WriterLayoutView(Answer):
    """``GET /v1/topics/{t}/layout?writer=true``: what a writer needs. A linearizable read; 503 while closing.

    ``earlier``: one entry per earlier partition count of a compacted topic; empty for every other topic.
    """

    topic: str
    topic_id: str
    cluster_id: str
    hash: HashName
    ordered_delivery: bool
    initial_partition_count: int
    undeleted_partition_count: int
    layout_epoch: int
    earlier: list[EarlierLayout] = Field(default_factory=list)


class TruncationView(Answer):
    """The log of ``partition`` written under ``leader_epoch`` ends at ``end_offset``, below ``offset``.

    ``layout_epoch`` names the layout whose start ``offset`` is; None for a position that was asked about.
    """

    partition: int
    offset: int
    leader_epoch: int
    end_offset: int
    layout_epoch: int | None = None


class Truncations(Answer):
    """``POST /v1/topics/{t}/truncations``."""

    topic: str
    topic_id: str
    truncations: list[TruncationView]


class PartitionRecords(Result):
    """A partition of ``POST /v1/topics/{t}/delete-records``: its log start after it."""

    partition: int
    log_start: int
    waiting_groups: list[GroupPosition] = Field(default_factory=list)


class DeletedRecords(Answer):
    """``POST /v1/topics/{t}/delete-records``."""

    topic: str
    partitions: list[PartitionRecords]


class PartitionLeaderEpochs(Answer):
    """KIP-253's two maps for one partition: other partition -> its leader epoch at that moment.

    ``leader_epoch_after_creation`` as of the expansion that created this partition last,
    ``leader_epoch_before_deletion`` as of the shrink that marked it for deletion; empty where there was none.
    """

    partition: int
    leader_epoch_after_creation: dict[int, int]
    leader_epoch_before_deletion: dict[int, int]


class LeaderEpochsView(Answer):
    """``GET /v1/topics/{t}/leader-epochs`` (KIP-253 PartitionLeaderEpochsForPartitions)."""

    topic: str
    topic_id: str
    partitions: list[PartitionLeaderEpochs]


class BrokerView(Answer):
    """A row of ``GET /v1/brokers`` (KIP-578); ``hosted`` counts replicas, those being added included."""

    id: int
    rack: str | None
    hosted: int
    max_partitions: int
    capacity: int


class BrokerList(Answer):
    """``GET /v1/brokers``."""

    brokers: list[BrokerView]


class GroupMember(Answer):
    """The member of a consumer group that a partition is assigned to, as ``kafka-consumer-groups`` shows it."""

    consumer_id: str
    client_id: str
    host: str


class RequiredPosition(Answer):
    """``partition`` must be read to ``offset`` before a partition that waits for it may be read on."""

    partition: int
    offset: int


class PartitionPosition(Answer):
    """A group's position in a partition. ``position`` is the committed offset, None where there is none.

    ``log_end`` is the last stable offset; ``lag`` counts offsets from the position, or from the log start if that is
    behind it or there is no position, to the log end; both are None while the partition has no leader. ``waits_for`` is
    what the gate asks before the position's segment may be read, by committed offsets; empty for a partition that is not
    blocked.
    """

    partition: int
    status: Literal["live", "marked", "deleted"]
    position: int | None
    log_end: int | None
    lag: int | None
    member: GroupMember | None
    waits_for: list[RequiredPosition]


class TopicPositions(Answer):
    """A group's positions in a topic. Without ``ordered_delivery`` no partition waits for another."""

    topic: str
    topic_id: str
    layout_epoch: int
    ordered_delivery: bool
    partitions: list[PartitionPosition]


class GroupPositions(Answer):
    """``GET /v1/groups/{g}/positions`` (KIP-253 ConsumerGroupPosition). ``state`` is Kafka's name of the group's state."""

    group: str
    state: str
    topics: list[TopicPositions]
