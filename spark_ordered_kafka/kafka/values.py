"""What Kafka answers about a cluster, as values. PURE."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from spark_ordered_kafka.errors import OrderedKafkaError

PROPAGATION = 5.0
"""Seconds for every broker to learn of a topic or partition that was just made, or of its new replicas."""

USUAL_PROPAGATION = 1.0
"""Seconds in which they nearly always have learned of it: what a broker does not know is looked for so long."""

PartitionId = tuple[str, int]
"""Topic and partition; such values are called ``tp``, as in Kafka."""


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
    """State of a partition. ``leader`` is -1 without one; ``leader_epoch`` is -1 if not known."""

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
    """High watermark of a partition and the epoch of the leader that answered."""

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

    ``total_bytes`` and ``usable_bytes`` are of its volume, None if not known (before Kafka 3.3, KIP-827). ``is_cordoned``: it
    keeps what it has and is to get no more replicas (``cordoned.log.dirs``, KIP-1066, from Kafka 4.3 on).
    """

    path: str
    error_code: int = 0
    replicas: tuple[DirReplica, ...] = ()
    total_bytes: int | None = None
    usable_bytes: int | None = None
    is_cordoned: bool = False

    @property
    def online(self) -> bool:
        """Whether the broker can use it."""
        return self.error_code == 0

    @property
    def takes_replicas(self) -> bool:
        """Whether a replica may be placed there."""
        return self.online and not self.is_cordoned


def are_cordoned(log_dirs: Iterable[LogDir]) -> bool:
    """Whether a broker with these log directories is to get no replicas: each that is online is cordoned."""
    online = [one for one in log_dirs if one.online]
    return bool(online) and all(one.is_cordoned for one in online)


LogDirAnswers = Mapping[int, Sequence[LogDir] | OrderedKafkaError]
"""Broker -> its log directories, or why it did not report them."""


@dataclass(frozen=True)
class LocalReplica:
    """A broker's replica of a partition: its log directory and bytes, and those of the temporary one that is to replace it.

    A path is None where there is no such replica. ``future_lag`` counts the offsets that the temporary one is behind.
    """

    path: str | None = None
    size: int = 0
    future_path: str | None = None
    future_size: int = 0
    future_lag: int = 0


NO_REPLICA = LocalReplica()


def local_replicas(
    answers: LogDirAnswers, tps: Collection[PartitionId] | None = None
) -> dict[Replica, LocalReplica]:
    """The replicas in log directories, of the partitions ``tps``; None: of all. One that no broker holds lacks."""
    found: dict[Replica, LocalReplica] = {}
    for broker, answer in answers.items():
        for directory in () if isinstance(answer, OrderedKafkaError) else answer:
            for row in directory.replicas:
                if tps is not None and (row.topic, row.partition) not in tps:
                    continue
                key = (row.topic, row.partition, broker)
                known = found.get(key, NO_REPLICA)
                found[key] = (
                    LocalReplica(known.path, known.size, directory.path, row.size, row.offset_lag)
                    if row.is_future
                    else LocalReplica(
                        directory.path, row.size, known.future_path, known.future_size, known.future_lag
                    )
                )
    return found


@dataclass(frozen=True)
class Reassignment:
    """A reassignment in progress; ``replicas`` are all of now, ``adding`` those of them that are not in sync yet."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas after it, preferred leader first."""
        return tuple(broker for broker in self.replicas if broker not in self.removing)
