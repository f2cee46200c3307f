"""The state of the cluster, as input of the reassignment machine. PURE.

Times are seconds of one clock. ``at`` is always read before Kafka is asked: the answer has all that happened earlier,
except where a broker's copy of the metadata is behind.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from spark_ordered_kafka.kafka.values import (
    NO_REPLICA,
    LocalReplica,
    PartitionId,
    Reassignment,
    Replica,
)


@dataclass(frozen=True)
class Partition:
    """A partition as some broker described it at ``at``; ``leader`` is -1 without one. ``topic_id`` is empty if the broker
    did not report it."""

    at: float
    topic_id: str
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True)
class Directories:
    """Log directories of the brokers in ``answered``: the replicas in them, and by broker the paths that are offline."""

    at: float = float("-inf")
    answered: frozenset[int] = frozenset()
    held: Mapping[Replica, LocalReplica] = field(default_factory=dict)
    offline: Mapping[int, Collection[str]] = field(default_factory=dict)

    def of(self, tp: PartitionId, broker: int) -> LocalReplica:
        """The broker's replica of the partition."""
        return self.held.get((*tp, broker), NO_REPLICA)

    def is_offline(self, broker: int, path: str | None) -> bool:
        """Whether the broker reported the directory as offline."""
        return path is not None and path in self.offline.get(broker, ())


@dataclass(frozen=True)
class ClusterState:
    """Kafka at ``at``.

    Attributes:
        alive: brokers that are up.
        ongoing: all reassignments in progress, including those of other tools, as the brokers' controller lists them.
        partitions: those that were described, now or earlier; one whose value is None does not exist.
        directories: the latest answers about log directories.
    """

    at: float
    alive: Collection[int]
    ongoing: Mapping[PartitionId, Reassignment]
    partitions: Mapping[PartitionId, Partition | None]
    directories: Directories = Directories()
