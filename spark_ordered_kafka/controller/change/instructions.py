"""What the change machine tells its runner to do; after the arrow the event that it answers with.

Every instruction may be repeated. ``deadline`` is a time of the machine's clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from spark_ordered_kafka.controller.state.change import Boundary, Change, Ending, Outcome


@dataclass(frozen=True)
class Persist:
    """Write the change to its topic's znode."""

    change: Change


@dataclass(frozen=True)
class LookForForeign:
    """Look whether something that is not an ordered writer writes to the topic. -> NoForeignWriter or
    ForeignWriterSeen"""

    deadline: float


@dataclass(frozen=True)
class CreatePartitions:
    """Give the Kafka topic ``total`` partitions, unless it has them, and those that the change takes up again their
    replicas. -> PartitionsCreated"""

    total: int
    deadline: float


@dataclass(frozen=True)
class AwaitLeaders:
    """Wait until there are ``total`` partitions, those that the change needs have leaders, and the replicas given back to
    those that it takes up again are in sync. -> LeadersElected"""

    total: int
    deadline: float


@dataclass(frozen=True)
class FenceIdle:
    """Fence idle writers before anybody is asked to wait, as long as it goes on: ``seconds`` for each part of them.
    -> IdleFenced"""

    seconds: float


@dataclass(frozen=True)
class ListTransactions:
    """List the transactional ids of the topic's ordered writers, completely, but for those that a fence has left behind.
    -> TransactionsListed"""

    deadline: float


@dataclass(frozen=True)
class Pause:
    """Pause before the next instruction, while writers finish or a server comes back."""

    seconds: float


@dataclass(frozen=True)
class Fence:
    """Fence these transactional ids. -> WritersFenced"""

    transactional_ids: tuple[str, ...]
    deadline: float


@dataclass(frozen=True)
class ReadBoundaries:
    """Read log end and leader epoch of the partitions that the change needs; there must be ``total`` partitions at least.
    -> BoundariesRead"""

    total: int
    deadline: float


@dataclass(frozen=True)
class CheckNothingGrew:
    """Read those log ends again and compare. -> NothingGrew or LogsGrew"""

    boundaries: tuple[Boundary, ...]
    deadline: float


@dataclass(frozen=True)
class CommitLayout:
    """Write the new layout and the topic in one ZooKeeper transaction. -> Committed"""

    change: Change
    boundaries: tuple[Boundary, ...]


@dataclass(frozen=True)
class RollBack:
    """Clear the change in the topic's znode and say how it ended. -> RolledBack"""

    change: Change
    ending: Ending


@dataclass(frozen=True)
class Finish:
    """The change has ended; nothing is left to do."""

    outcome: Outcome


Instruction: TypeAlias = (
    Persist
    | LookForForeign
    | CreatePartitions
    | AwaitLeaders
    | FenceIdle
    | ListTransactions
    | Pause
    | Fence
    | ReadBoundaries
    | CheckNothingGrew
    | CommitLayout
    | RollBack
    | Finish
)
