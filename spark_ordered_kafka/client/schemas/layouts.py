"""Layout histories, and what the logs still have of them."""

from __future__ import annotations

from pydantic import Field

from spark_ordered_kafka.client.schemas.base import Answer, HashName, Many, Request


class LayoutView(Answer):
    """One committed layout epoch; ``starts[p]`` is the first offset of partition p that can hold its records.

    ``ordered_delivery`` False: writers were not held to this layout, so any partition may have records of any key.
    ``stray_from``: of a layout that covers partitions that no change has made, the first of them.
    """

    epoch: int
    undeleted_partition_count: int
    starts: list[int]
    leader_epochs: list[int]
    committed_at: float
    ordered_delivery: bool = True
    stray_from: int | None = None


class LayoutHistoryView(Answer):
    """``GET /v1/topics/{t}/layout``: the layouts from ``from_epoch`` on. A linearizable read.

    Layouts all of whose records are gone are folded: then the first one is later than was asked for, and whatever lies
    before its starts was deleted.
    """

    topic: str
    topic_id: str
    cluster_id: str
    hash: HashName
    ordered_delivery: bool
    initial_partition_count: int
    layouts: list[LayoutView]
    changing: bool


class PositionCheck(Request):
    """A position, and the leader epoch (KIP-320) that the log was read under up to there."""

    partition: int
    offset: int
    leader_epoch: int


class TruncationsRequest(Request):
    """``POST /v1/topics/{t}/truncations``: which of these positions, and of the layouts' starts, the logs have lost.

    ``partitions``: those whose starts are asked about; all if it is missing. The leaders of others are not needed.
    """

    positions: Many[PositionCheck] = Field(default_factory=list)
    partitions: Many[int] | None = None


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


class PartitionLeaderEpochs(Answer):
    """KIP-253's two maps for one partition: other partition -> its leader epoch at that moment.

    ``leader_epoch_after_creation`` as of the expansion that created this partition last,
    ``leader_epoch_before_deletion`` as of the shrink that marked it for deletion, of the partitions that stayed, and empty
    while it is live. Both are empty where there was none, or none
    but in layouts that were folded, of which nothing is left to wait for.
    """

    partition: int
    leader_epoch_after_creation: dict[int, int]
    leader_epoch_before_deletion: dict[int, int]


class LeaderEpochsView(Answer):
    """``GET /v1/topics/{t}/leader-epochs`` (KIP-253 PartitionLeaderEpochsForPartitions)."""

    topic: str
    topic_id: str
    partitions: list[PartitionLeaderEpochs]
