"""What the reassignment machine is told about Kafka. PURE.

Times are seconds of one clock. ``at`` is always from before Kafka was asked: what happened earlier is in the answer,
except where a broker's copy of the metadata is behind.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from spark_ordered_kafka.kafka.values import PartitionId, Replica


@dataclass(frozen=True)
class Ongoing:
    """A reassignment that Kafka is busy with: ``target`` are the replicas that it will leave, preferred leader first."""

    target: tuple[int, ...]


@dataclass(frozen=True)
class Partition:
    """A partition as some broker knew it at ``at``; ``leader`` is -1 without one. ``topic_id`` is empty where brokers
    tell none."""

    at: float
    topic_id: str
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True)
class Held:
    """What a broker has of a partition: its log directory and bytes, and those of the temporary replica that is to take
    its place."""

    path: str | None = None
    size: int = 0
    future_path: str | None = None
    future_size: int = 0


_NOTHING = Held()


@dataclass(frozen=True)
class Directories:
    """Log directories of the brokers in ``answered``; ``offline`` are those that cannot be used, by broker."""

    at: float = float("-inf")
    answered: frozenset[int] = frozenset()
    held: Mapping[Replica, Held] = field(default_factory=dict)
    offline: Mapping[int, Collection[str]] = field(default_factory=dict)

    def of(self, place: PartitionId, broker: int) -> Held:
        """What the broker has of the partition."""
        return self.held.get((*place, broker), _NOTHING)

    def is_offline(self, broker: int, path: str | None) -> bool:
        """Whether the broker said so."""
        return path is not None and path in self.offline.get(broker, ())


@dataclass(frozen=True)
class ClusterState:
    """Kafka at ``at``.

    Attributes:
        alive: brokers that are up.
        ongoing: all reassignments, whoever asked for them, as the brokers' controller knows them.
        partitions: those that were looked at, perhaps earlier; a place whose value is None does not exist.
        directories: as they were looked at last.
    """

    at: float
    alive: Collection[int]
    ongoing: Mapping[PartitionId, Ongoing]
    partitions: Mapping[PartitionId, Partition | None]
    directories: Directories = Directories()
