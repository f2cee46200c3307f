"""Layouts and truncations as the controllers answer them; dataclasses, so that tasks of Spark need not import pydantic (D-214)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

HashName = Literal["murmur3", "murmur2", "crc32"]
"""The hashes that this version knows. An answer may have another one, which is refused when a key is hashed."""


@dataclass(frozen=True)
class EarlierLayout:
    """Where earlier epochs may still hold a key of a compacted topic.

    Under ``undeleted_partition_count`` partition p was written below ``ends[p]``; once its log start has reached that,
    nothing of those epochs is left there. 0, or an index beyond the list: no key has moved away from p since.
    """

    undeleted_partition_count: int
    ends: list[int]


@dataclass(frozen=True)
class WriterLayoutView:
    """``GET /v1/topics/{t}/layout?writer=true``: what a writer needs. A linearizable read; 503 while closing.

    ``earlier``: one entry per earlier partition count of a compacted topic; empty for every other topic.
    """

    topic: str
    topic_id: str
    cluster_id: str
    hash: str
    ordered_delivery: bool
    initial_partition_count: int
    undeleted_partition_count: int
    layout_epoch: int
    earlier: list[EarlierLayout] = field(default_factory=list)


@dataclass(frozen=True)
class LayoutView:
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


@dataclass(frozen=True)
class LayoutHistoryView:
    """``GET /v1/topics/{t}/layout``: the layouts from ``from_epoch`` on. A linearizable read.

    Layouts all of whose records are gone are folded: then the first one is later than was asked for, and whatever lies
    before its starts was deleted.
    """

    topic: str
    topic_id: str
    cluster_id: str
    hash: str
    ordered_delivery: bool
    initial_partition_count: int
    layouts: list[LayoutView]
    changing: bool


@dataclass(frozen=True)
class LayoutHistoryResult:
    """The layouts of one topic, or why there are none; ``error_code`` 0 (``NONE``) means that they are there."""

    topic: str
    error_code: int = 0
    error: str = "NONE"
    error_message: str | None = None
    history: LayoutHistoryView | None = None


@dataclass(frozen=True)
class LayoutHistories:
    """``POST /v1/layouts``: a result for each of the first topics of the request, in its order.

    At least one is answered. Further ones are left out where the answer would have many megabytes: ask for those again.
    """

    topics: list[LayoutHistoryResult]


@dataclass(frozen=True)
class PositionCheck:
    """A position, and the leader epoch (KIP-320) that the log was read under up to there."""

    # For the controller, which reads it as part of a request.
    __pydantic_config__ = {"extra": "forbid", "strict": True}  # noqa: RUF012 - no field

    partition: int
    offset: int
    leader_epoch: int


@dataclass(frozen=True)
class TruncationView:
    """The log of ``partition`` written under ``leader_epoch`` ends at ``end_offset``, below ``offset``.

    ``layout_epoch`` names the layout whose start ``offset`` is; None for a position that was asked about.
    """

    partition: int
    offset: int
    leader_epoch: int
    end_offset: int
    layout_epoch: int | None = None


@dataclass(frozen=True)
class Truncations:
    """``POST /v1/topics/{t}/truncations``."""

    topic: str
    topic_id: str
    truncations: list[TruncationView]
