"""What can happen to a partition change; ``at`` is when, in seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from spark_ordered_kafka.controller.state.change import Boundary
from spark_ordered_kafka.errors import ErrorCode


@dataclass(frozen=True)
class Started:
    """The change was taken up, for the first time or again."""

    at: float


@dataclass(frozen=True)
class NoForeignWriter:
    """Nothing but ordered writers was seen to write to the topic."""

    at: float


@dataclass(frozen=True)
class ForeignWriterSeen:
    """Something that is not an ordered writer writes to the topic; ``what`` says where it was seen."""

    at: float
    what: str


@dataclass(frozen=True)
class PartitionsCreated:
    """Kafka has as many partitions as the target, and was asked for the replicas that are missing."""

    at: float


@dataclass(frozen=True)
class LeadersElected:
    """Every partition that the change needs has a leader, and those taken up again have their replicas in sync."""

    at: float


@dataclass(frozen=True)
class IdleFenced:
    """Few idle writers are left to be fenced while others wait."""

    at: float


@dataclass(frozen=True)
class TransactionsListed:
    """The complete listing: transactional id -> state, of the topic's ordered writers that were initialised since they
    were fenced last. Who is initialised later checks the layout later, and is told to wait."""

    at: float
    states: Mapping[str, str]


@dataclass(frozen=True)
class WritersFenced:
    """Every listed transactional id has a new producer epoch, and what was open is aborted."""

    at: float
    count: int


@dataclass(frozen=True)
class BoundariesRead:
    """Where the new layout begins in every Kafka partition, by number."""

    at: float
    boundaries: tuple[Boundary, ...]


@dataclass(frozen=True)
class NothingGrew:
    """The log ends are still those of the boundaries."""

    at: float


@dataclass(frozen=True)
class LogsGrew:
    """partition -> log end offset now, of those that differ from the boundaries."""

    at: float
    ends: Mapping[int, int]


@dataclass(frozen=True)
class Committed:
    """The new layout is in ZooKeeper."""

    at: float


@dataclass(frozen=True)
class RolledBack:
    """The change is cleared in ZooKeeper; the old layout stands."""

    at: float


@dataclass(frozen=True)
class CancelRequested:
    """Someone wants the change taken back."""

    at: float


@dataclass(frozen=True)
class Failed:
    """An instruction failed; ``retriable`` when the same may succeed later."""

    at: float
    code: ErrorCode
    message: str
    retriable: bool


Event: TypeAlias = (
    Started
    | NoForeignWriter
    | ForeignWriterSeen
    | PartitionsCreated
    | LeadersElected
    | IdleFenced
    | TransactionsListed
    | WritersFenced
    | BoundariesRead
    | NothingGrew
    | LogsGrew
    | Committed
    | RolledBack
    | CancelRequested
    | Failed
)
