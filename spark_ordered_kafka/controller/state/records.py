"""The JSON of the znodes (docs/architecture.md, "What is in ZooKeeper") as typed values."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from spark_ordered_kafka.client.schemas import HashName
from spark_ordered_kafka.controller.state.change import Change, FinishedChange
from spark_ordered_kafka.controller.zk.records import Record

PartitionStatus = Literal["live", "marked", "deleted"]


class TopicRecord(Record):
    """``/topics/<t>``. Layouts before ``first_layout_epoch`` were folded: nothing is left of their epochs.

    ``ended_changes`` are the ids of the last few, ``created_by`` is the id of the request that made the topic: they tell
    requests that come again.
    """

    topic_id: str
    initial_partition_count: int
    undeleted_partition_count: int
    layout_epoch: int
    first_layout_epoch: int = 0
    hash: HashName
    ordered_delivery: bool
    change: Change | None = None
    last_change: FinishedChange | None = None
    ended_changes: tuple[str, ...] = ()
    created_by: str | None = None
    deleting_since: float | None = None


class LayoutRecord(Record):
    """``/topics/<t>/layouts/<epoch>``; immutable. ``starts[p]`` and ``leader_epochs[p]`` of every Kafka partition.

    ``ordered_delivery``: whether writers were held to this layout until the next one. ``stray_from``: the first of the
    partitions that it covers though no change has made them (see ``covering``).
    """

    undeleted_partition_count: int
    starts: list[int]
    leader_epochs: list[int]
    committed_at: float
    ordered_delivery: bool = True
    stray_from: int | None = None


class PartitionRecord(Record):
    """``/topics/<t>/partitions/<p>``, of partitions removed by a shrink."""

    status: Literal["marked", "deleted"]
    since: float


class CreationRecord(Record):
    """``/admin/create_topics/<t>``: a creation begun in Kafka and not yet under management.

    ``assignments``: the replicas of every partition, of a topic that one request cannot make. ``request``: its id, if it
    has one.
    """

    partitions: int
    replication_factor: int
    hash: HashName
    ordered_delivery: bool
    configs: dict[str, str] = Field(default_factory=dict)
    assignments: list[list[int]] = Field(default_factory=list)
    request: str | None = None


class DeletionRecord(Record):
    """``/admin/delete_topics/<t>``: a deletion begun and not ended; the topic's record has ``deleting_since``."""

    topic_id: str
