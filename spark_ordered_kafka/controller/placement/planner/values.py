"""Input and result of a plan. PURE."""

from __future__ import annotations

from dataclasses import dataclass

from spark_ordered_kafka.client.schemas.base import PartitionStatus
from spark_ordered_kafka.client.schemas.reassignments import FurtherPlanGoal, PlanGoal
from spark_ordered_kafka.controller.placement.guards import UNLIMITED
from spark_ordered_kafka.kafka.values import LogDir, are_cordoned


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker that is up, or has replicas.

    ``rack`` is None where it is not set or not known, ``capacity`` counts the replicas that it may still take by the guard
    rails. ``log_dirs`` is None where the broker did not answer.
    """

    id: int
    rack: str | None = None
    alive: bool = True
    capacity: int = UNLIMITED
    log_dirs: tuple[LogDir, ...] | None = None

    @property
    def is_cordoned(self) -> bool:
        """Whether it keeps what it has, and is to get no replicas (KIP-1066)."""
        return are_cordoned(self.log_dirs or ())

    @property
    def room(self) -> int:
        """How many replicas a plan may give it."""
        return 0 if self.is_cordoned or not self.alive else self.capacity

    @property
    def volume(self) -> int | None:
        """Bytes of the volumes of its online log directories; None: not known."""
        return _sum([one.total_bytes for one in self.log_dirs or () if one.online])

    @property
    def free(self) -> int | None:
        """Bytes that are left for further replicas; None: not known."""
        return _sum([one.usable_bytes for one in self.log_dirs or () if one.takes_replicas])

    @property
    def free_in_one(self) -> int | None:
        """Bytes that are left in the log directory that has most; None: none takes replicas."""
        return max((one.usable_bytes or 0 for one in self.log_dirs or () if one.takes_replicas), default=None)


@dataclass(frozen=True, slots=True)
class Partition:
    """The current state of a partition.

    Attributes:
        replicas: brokers, preferred leader first; during a reassignment, all current ones.
        leader: -1 without one.
        sizes: bytes of each replica, in the order of ``replicas``; None: not known. Empty: of none is it known.
        log_dirs: the directory of each replica, likewise.
        status: ``marked`` for deletion and ``deleted`` ones are planned apart from ``live`` ones.
        moving: whether it is being reassigned.
        moving_log_dir: brokers where its replica is being moved to another log directory.
        write_rate: bytes per second that are written to it; 0 where not known.
    """

    topic: str
    partition: int
    replicas: tuple[int, ...]
    leader: int
    isr: tuple[int, ...] = ()
    sizes: tuple[int | None, ...] = ()
    log_dirs: tuple[str | None, ...] = ()
    status: PartitionStatus = "live"
    moving: bool = False
    moving_log_dir: tuple[int, ...] = ()
    write_rate: float = 0.0

    @property
    def size(self) -> int | None:
        """Bytes that a new replica copies: the leader's, or of the largest replica that is known; None: not known."""
        if self.leader in self.replicas and self.sizes:
            size = self.sizes[self.replicas.index(self.leader)]
            if size is not None:
                return size
        return max((size for size in self.sizes if size is not None), default=None)

    def size_on(self, broker: int) -> int | None:
        """Bytes of the replica on one of its brokers."""
        return self.sizes[self.replicas.index(broker)] if self.sizes else None

    def log_dir_on(self, broker: int) -> str | None:
        """The directory of the replica on one of its brokers."""
        return self.log_dirs[self.replicas.index(broker)] if self.log_dirs else None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A cluster, or those of its partitions that are to be planned.

    ``retired_factor``: replicas that a deleted partition keeps at most; None: as many as others.
    """

    brokers: tuple[Broker, ...]
    partitions: tuple[Partition, ...]
    retired_factor: int | None = None


@dataclass(frozen=True, slots=True)
class Goal:
    """A plan's goal, as :class:`~spark_ordered_kafka.client.schemas.ReassignmentPlanRequest` has it.

    ``also``: goals that the plan is to reach after ``kind``, on the brokers that keep their replicas.
    """

    kind: PlanGoal
    brokers: tuple[int, ...] | None = None
    topics: tuple[str, ...] | None = None
    replication_factor: int | None = None
    log_dirs: tuple[str, ...] | None = None
    also: tuple[FurtherPlanGoal, ...] | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """A partition's new replicas, preferred leader first, and for each its log directory, None: any."""

    partition: Partition
    replicas: tuple[int, ...]
    log_dirs: tuple[str | None, ...]

    @property
    def added(self) -> tuple[int, ...]:
        """Brokers that get a replica."""
        return tuple(broker for broker in self.replicas if broker not in self.partition.replicas)

    @property
    def placed(self) -> dict[int, str]:
        """Broker -> log directory, of the replicas that change only their directory."""
        found = zip(self.replicas, self.log_dirs, strict=True)
        return {broker: path for broker, path in found if path is not None and broker not in self.added}


@dataclass(frozen=True, slots=True)
class Load:
    """Number of replicas and preferred leaders on a broker, and bytes of the replicas, among the planned partitions."""

    replicas: int = 0
    leaders: int = 0
    size: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """Changes, sorted by topic and partition.

    ``size``: bytes to copy, None where one of them is not known. ``replicas`` counts replicas to copy and ``leaders``
    partitions that get another preferred leader. ``before`` and ``after`` have the load of every broker.
    """

    changes: tuple[Change, ...]
    size: int | None
    replicas: int
    leaders: int
    before: dict[int, Load]
    after: dict[int, Load]
    warnings: tuple[str, ...] = ()


def _sum(values: list[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None
