"""Bodies of the controller's HTTP API (``/v1``), shared by the service and its clients.

Names follow the proposals (KIP-253, KIP-179, KIP-578) and Kafka's own tools. Requests refuse unknown fields; answers
ignore them, so that a newer controller may say more than an older client knows.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

HashName = Literal["murmur3", "murmur2", "crc32"]
ChangeKind = Literal["expand", "shrink"]
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


class PartitionView(Answer):
    """A Kafka partition; ``marked``: removed by a shrink, still read; ``deleted``: removed and empty."""

    partition: int
    status: Literal["live", "marked", "deleted"]
    leader: int
    replicas: list[int]
    isr: list[int]


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
    """One committed layout epoch; ``starts[p]`` is the first offset of partition p that can hold its records."""

    epoch: int
    undeleted_partition_count: int
    starts: list[int]
    leader_epochs: list[int]
    committed_at: float


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


class WriterLayoutView(Answer):
    """``GET /v1/topics/{t}/layout?writer=true``: what a writer needs. A linearizable read; 503 while closing."""

    topic: str
    topic_id: str
    cluster_id: str
    hash: HashName
    ordered_delivery: bool
    initial_partition_count: int
    undeleted_partition_count: int
    layout_epoch: int


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
