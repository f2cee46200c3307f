"""The vocabulary of the partition-change protocol: its steps, a change, and instructions with their events. PURE.

The machine answers each event with instructions. The runner executes them in order; the last one yields the next event.
Every instruction may be repeated. ``at`` and ``deadline`` are seconds of one clock, the caller's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from spark_ordered_kafka.client.schemas.base import ChangeKind, ChangeOutcome
from spark_ordered_kafka.controller.settings import Timing
from spark_ordered_kafka.errors import ErrorCode

ChangeStep = Literal["planned", "creating", "closing", "fencing", "boundaries", "committing"]
STEPS: tuple[ChangeStep, ...] = get_args(ChangeStep)
"""In the order in which a change takes them. Records, the API, metrics and the command line take the names from here."""
CLOSED_STEPS = frozenset(STEPS[STEPS.index("closing") :])
"""Steps at which writers that ask for the layout are held."""


# -- the change -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Change:
    """The persisted part of a change.

    Attributes:
        source: the undeleted partition count before the change.
        target: the count after it; equal to ``source`` when ordered delivery is switched on or off.
        existing: Kafka partitions when the change was planned.
        ordered: whether writers must be held and fenced.
        assignments: the caller's replicas for Kafka partitions from ``existing`` on, in order.
        unknown: members that a newer controller has written.
    """

    id: str
    topic: str
    kind: ChangeKind
    source: int
    target: int
    existing: int
    started_at: float
    step: ChangeStep = "planned"
    force: bool = False
    ordered: bool = True
    closing_at: float | None = None
    fenced: int = 0
    total_fences: int = 0
    cancel_requested: bool = False
    assignments: tuple[tuple[int, ...], ...] | None = None
    unknown: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def closing(self) -> bool:
        """Whether writers that ask for the layout are held."""
        return self.ordered and self.step in CLOSED_STEPS

    @property
    def ordered_delivery(self) -> bool:
        """Whether the layout that this change commits binds writers."""
        return self.ordered and self.kind != "unorder"

    @property
    def needed(self) -> int:
        """Partitions that are written before or after the change: only their logs must be complete and have leaders."""
        return max(self.source, self.target)

    @property
    def refuses_foreign(self) -> bool:
        """Whether foreign producers make the change fail."""
        return self.ordered_delivery and not self.force

    @property
    def written(self) -> range:
        """The existing partitions that are not removed before and after the change: foreign producers may write there."""
        return range(min(self.needed, self.existing))

    def creation_limit(self, timing: Timing) -> float:
        """Seconds that the creation of its partitions may take."""
        return max(timing.creating, timing.creating_each * (self.target - self.existing))


@dataclass(frozen=True)
class Boundary:
    """Log end offset of a partition, and the leader epoch under which it was read."""

    offset: int
    leader_epoch: int


@dataclass(frozen=True)
class Ending:
    """How a change ends; ``code`` and ``message`` say why it failed."""

    outcome: ChangeOutcome
    code: ErrorCode | None = None
    message: str | None = None


@dataclass(frozen=True)
class Running:
    """The machine's state: the persisted change, and what :func:`machine.resume` works out again.

    ``prepared``: partitions and leaders are there and idle writers fenced; ``draining``: transactional ids that had an
    open transaction in every listing so far; ``ending`` is set while the change is rolled back.
    """

    change: Change
    deadline: float
    drain_until: float
    prepared: bool = False
    draining: frozenset[str] | None = None
    boundaries: tuple[Boundary, ...] | None = None
    ending: Ending | None = None
    story: tuple[str, ...] = ()


@dataclass(frozen=True)
class Event:
    """An input of the state machine, which occurred ``at`` that time."""

    at: float


# -- instructions, each with the events that it yields --------------------------------------------------------------


@dataclass(frozen=True)
class Persist:
    """Write the change to its topic's znode. Yields no event."""

    change: Change


@dataclass(frozen=True)
class Pause:
    """Wait, while transactions end or a server returns. Yields no event."""

    seconds: float


@dataclass(frozen=True)
class DetectForeignProducers:
    """Find out whether foreign producers write to the topic."""

    deadline: float


class NoForeignProducers(Event):
    """Only ordered writers were found."""


@dataclass(frozen=True)
class ForeignProducersDetected(Event):
    """A foreign producer writes to the topic; ``what`` says where it was seen."""

    what: str


@dataclass(frozen=True)
class CreatePartitions:
    """Extend the Kafka topic to ``total`` partitions, and restore the replicas of removed ones that become live again."""

    total: int
    deadline: float


class PartitionsCreated(Event):
    """Kafka has as many partitions as the target, and was asked to restore missing replicas."""


@dataclass(frozen=True)
class AwaitLeaders:
    """Wait for ``total`` partitions, for leaders of those that the change needs, and for restored replicas in sync."""

    total: int
    deadline: float


class LeadersElected(Event):
    """Every partition that the change needs has a leader, and restored replicas are in sync."""


@dataclass(frozen=True)
class FenceIdle:
    """Fence idle writers in batches of at most ``seconds`` each, before any writer is held."""

    seconds: float


class IdleFenced(Event):
    """Few idle writers are left for the fence that holds all writers."""


@dataclass(frozen=True)
class ListTransactions:
    """List the transactional ids of all the topic's ordered writers, except those not initialised since their last fence."""

    deadline: float


@dataclass(frozen=True)
class TransactionsListed(Event):
    """The complete listing: transactional id -> state. A writer that is initialised later asks for the layout later, and
    is held then."""

    states: Mapping[str, str]


@dataclass(frozen=True)
class Fence:
    """Fence these transactional ids."""

    transactional_ids: tuple[str, ...]
    deadline: float


@dataclass(frozen=True)
class WritersFenced(Event):
    """Every listed transactional id has a new producer epoch, and its open transaction is aborted."""

    count: int


@dataclass(frozen=True)
class ReadBoundaries:
    """Read log end offsets and leader epochs of the partitions that the change needs, of at least ``total`` partitions."""

    total: int
    deadline: float


@dataclass(frozen=True)
class BoundariesRead(Event):
    """Where the new layout starts in every Kafka partition, in order of the partitions."""

    boundaries: tuple[Boundary, ...]


@dataclass(frozen=True)
class CheckLogEnds:
    """Read the log end offsets again and compare them with ``boundaries``."""

    boundaries: tuple[Boundary, ...]
    deadline: float


class LogEndsUnchanged(Event):
    """The log end offsets are those of the boundaries."""


@dataclass(frozen=True)
class LogEndsChanged(Event):
    """partition -> log end offset, of partitions where it differs from the boundary."""

    ends: Mapping[int, int]


@dataclass(frozen=True)
class CommitLayout:
    """Write the new layout and the topic in one ZooKeeper transaction."""

    change: Change
    boundaries: tuple[Boundary, ...]


class Committed(Event):
    """The new layout is in ZooKeeper."""


@dataclass(frozen=True)
class RollBack:
    """Remove the change from the topic's znode and record how it ended."""

    change: Change
    ending: Ending


class RolledBack(Event):
    """The change is removed from ZooKeeper; the old layout remains."""


@dataclass(frozen=True)
class Finish:
    """The change has ended. Yields no event."""

    outcome: ChangeOutcome


# -- events that no instruction yields by itself --------------------------------------------------------------------


class Started(Event):
    """The change begins, or begins again after a failure."""


class CancelRequested(Event):
    """A caller wants the change rolled back."""


@dataclass(frozen=True)
class Failed(Event):
    """An instruction failed; ``retriable``: it may succeed later."""

    code: ErrorCode
    message: str
    retriable: bool


Instruction: TypeAlias = (
    Persist
    | Pause
    | DetectForeignProducers
    | CreatePartitions
    | AwaitLeaders
    | FenceIdle
    | ListTransactions
    | Fence
    | ReadBoundaries
    | CheckLogEnds
    | CommitLayout
    | RollBack
    | Finish
)
