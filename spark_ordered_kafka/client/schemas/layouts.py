"""Layout histories, and what the logs still have of them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from spark_ordered_kafka.client.layout_answers import PositionCheck
from spark_ordered_kafka.client.schemas.base import Answer, Many, Request


class LayoutQuestion(Request):
    """One topic of ``POST /v1/layouts``: its layouts from ``from_epoch`` on."""

    topic: str
    from_epoch: Annotated[int, Field(ge=0)] = 0


class LayoutsRequest(Request):
    """``POST /v1/layouts``: the layouts of several topics."""

    topics: Many[LayoutQuestion]


class TruncationsRequest(Request):
    """``POST /v1/topics/{t}/truncations``: which of these positions, and of the layouts' starts, the logs have lost.

    ``partitions``: those whose starts are asked about; all if it is missing. The leaders of others are not needed.
    """

    positions: Many[PositionCheck] = Field(default_factory=list)
    partitions: Many[int] | None = None


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
