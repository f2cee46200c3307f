"""What a partition change is: the values that the change machine works on. PURE.

Times are seconds of one clock, the caller's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from spark_ordered_kafka.controller.settings import Timing
from spark_ordered_kafka.errors import ErrorCode, RequestError

Step = Literal["planned", "creating", "closing", "fencing", "boundaries", "committing"]
Kind = Literal["expand", "shrink", "order", "unorder"]
Outcome = Literal["done", "cancelled", "failed"]

STEPS: tuple[Step, ...] = ("planned", "creating", "closing", "fencing", "boundaries", "committing")
CLOSED_STEPS: frozenset[Step] = frozenset({"closing", "fencing", "boundaries", "committing"})


@dataclass(frozen=True)
class Change:
    """What is persisted of a change. ``existing``: Kafka partitions when it was planned; ``source`` and ``target``:
    undeleted partition counts, equal when ordered delivery is switched on (``order``) or off (``unorder``);
    ``ordered``: whether writers must be held and fenced at all; ``assignments``: the replicas of Kafka partitions from
    ``existing`` on, in order, if the caller gave them."""

    id: str
    topic: str
    kind: Kind
    source: int
    target: int
    existing: int
    started_at: float
    step: Step = "planned"
    force: bool = False
    ordered: bool = True
    closing_at: float | None = None
    fenced: int = 0
    total_fences: int = 0
    cancel_requested: bool = False
    assignments: tuple[tuple[int, ...], ...] | None = None

    @property
    def closing(self) -> bool:
        """Whether a writer that asks for the layout must wait."""
        return self.ordered and self.step in CLOSED_STEPS

    @property
    def ordered_delivery(self) -> bool:
        """Whether writers are held to the layout that this change commits."""
        return self.ordered and self.kind != "unorder"

    @property
    def needed(self) -> int:
        """Partitions that are written before or after it: only of those must the logs be whole and led."""
        return max(self.source, self.target)

    @property
    def refuses_foreign(self) -> bool:
        """Whether it must not be made while others than ordered writers write to the topic."""
        return self.ordered_delivery and not self.force

    @property
    def written(self) -> range:
        """The partitions there were when it was asked for, but for those that stay removed: where others may write."""
        return range(min(self.needed, self.existing))

    def creation_limit(self, timing: Timing) -> float:
        """Seconds that making its partitions may take."""
        return max(timing.creating, timing.creating_each * (self.target - self.existing))


@dataclass(frozen=True)
class Boundary:
    """Log end of a partition (offset) and the leader epoch it was read under."""

    offset: int
    leader_epoch: int


@dataclass(frozen=True)
class Ending:
    """Why a change ends without a new layout; ``code`` and ``message`` are None when it was cancelled."""

    outcome: Outcome
    code: ErrorCode | None = None
    message: str | None = None


@dataclass(frozen=True)
class Running:
    """A change in the hands of a controller: the persisted part, and what a resume works out anew. ``draining``: ids
    whose transaction has been open in every listing so far."""

    change: Change
    deadline: float
    drain_until: float
    draining: frozenset[str] | None = None
    boundaries: tuple[Boundary, ...] | None = None
    ending: Ending | None = None
    story: tuple[str, ...] = ()


@dataclass(frozen=True)
class FinishedChange:
    """What is kept of a change that has ended."""

    id: str
    kind: Kind
    source: int
    target: int
    outcome: Outcome
    started_at: float
    finished_at: float
    writer_pause_seconds: float = 0.0
    fenced: int = 0
    error_code: int | None = None
    error_message: str | None = None


def refuse_second(topic: str, pending: Change | None) -> None:
    """Raises RequestError PARTITION_CHANGE_IN_PROGRESS while a change of the topic is ``pending``."""
    if pending is None:
        return
    what = (
        f"is switching ordered delivery {'on' if pending.kind == 'order' else 'off'}"
        if pending.source == pending.target
        else f"is changing from {pending.source} to {pending.target} partitions"
    )
    raise RequestError(
        ErrorCode.PARTITION_CHANGE_IN_PROGRESS,
        f"topic {topic!r} {what} (change {pending.id}, step {pending.step}): wait for its end or cancel it",
    )
