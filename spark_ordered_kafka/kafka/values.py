"""What Kafka tells of a cluster, as values. PURE."""

from __future__ import annotations

from dataclasses import dataclass

PartitionId = tuple[str, int]
"""Topic and partition."""


Replica = tuple[str, int, int]
"""Topic, partition and broker."""


@dataclass(frozen=True)
class Broker:
    """A live broker; ``rack`` is its ``broker.rack``."""

    id: int
    host: str
    port: int
    rack: str | None


@dataclass(frozen=True)
class PartitionDescription:
    """State of a partition. ``leader`` is -1 without one; ``leader_epoch`` is -1 where the broker does not tell."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True)
class TopicDescription:
    """State of a topic. ``topic_id`` is printed as Kafka does; ``partitions`` are sorted by their number."""

    topic: str
    topic_id: str
    internal: bool
    partitions: tuple[PartitionDescription, ...]


@dataclass(frozen=True)
class LogEnd:
    """High watermark of a partition and the epoch of the leader that told it."""

    offset: int
    leader_epoch: int


@dataclass(frozen=True)
class DirReplica:
    """A replica in a log directory, or the temporary one (``is_future``) that is to replace one of another directory.

    ``size`` is in bytes. ``offset_lag`` counts the offsets that it is behind: the partition's high watermark, or the
    current replica of the same broker if it is a temporary one.
    """

    topic: str
    partition: int
    size: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True)
class LogDir:
    """A broker's log directory; ``error_code`` is KAFKA_STORAGE_ERROR (56) where it is offline.

    ``total_bytes`` and ``usable_bytes`` are of its volume, None where the broker does not tell (KIP-827).
    """

    path: str
    error_code: int
    replicas: tuple[DirReplica, ...]
    total_bytes: int | None
    usable_bytes: int | None


@dataclass(frozen=True)
class Reassignment:
    """One that goes on; ``replicas`` are all of now, ``adding`` those of them that are not in sync yet."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
