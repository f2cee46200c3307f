"""Partition changes (KIP-179, KIP-253)."""

from __future__ import annotations

from spark_ordered_kafka.client.schemas.base import (
    Answer,
    Assignments,
    ChangeKind,
    ChangeOutcome,
    Many,
    Open,
    Request,
    Result,
    TimeoutMs,
)


class TopicResult(Result):
    """Outcome for one topic; ``change_id`` names the change that was started, if one was, and ``request_id`` the reassignment
    that moves its replicas, if it is the controller's."""

    topic: str
    change_id: str | None = None
    request_id: int | None = None


class TopicResults(Answer):
    """Answer of the requests that name several topics."""

    topics: list[TopicResult]


class TopicPartitionCount(Request):
    """One topic of ``POST /v1/partition-counts``; ``partition_count`` is the new undeleted partition count.

    ``assignments`` has the replicas of each partition that Kafka does not have yet. ``layout_epoch``: refuse the request unless
    the topic still has this layout.
    """

    topic: str
    partition_count: int
    assignments: Assignments | None = None
    layout_epoch: int | None = None


class PartitionCountsRequest(Request):
    """``POST /v1/partition-counts`` (KIP-179 alterPartitionCounts, KIP-253)."""

    topics: Many[TopicPartitionCount]
    force: bool = False
    validate_only: bool = False
    timeout_ms: TimeoutMs | None = None


class TopicReplicationFactor(Request):
    """One topic of ``POST /v1/replication-factors``: its new replication factor, or the replicas of its partitions."""

    topic: str
    replication_factor: int | None = None
    assignments: Assignments | None = None


class ReplicationFactorsRequest(Request):
    """``POST /v1/replication-factors`` (KIP-179 alterReplicationFactors)."""

    topics: Many[TopicReplicationFactor]
    validate_only: bool = False
    timeout_ms: TimeoutMs | None = None


class ChangeView(Answer):
    """A partition change in progress. ``total_fences`` counts the transactional ids found to fence."""

    id: str
    kind: Open[ChangeKind]
    target: int
    source: int
    step: str  # a word of controller/change/protocol, which clients show as it is
    force: bool = False
    started_at: float
    closing_at: float | None = None
    fenced: int = 0
    total_fences: int = 0
    cancel_requested: bool = False


class FinishedChangeView(Answer):
    """A change that has ended. ``writer_pause_seconds``: from closing to commit, 0 if it was never reached."""

    id: str
    kind: Open[ChangeKind]
    target: int
    source: int
    outcome: Open[ChangeOutcome]
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
