"""Requests to Kafka that the reassignment machine asks for. PURE.

Each can be repeated: the process that carries it out may die before the result is recorded.
"""

from __future__ import annotations

from dataclasses import dataclass

from spark_ordered_kafka.kafka.values import PartitionId


@dataclass(frozen=True)
class Start:
    """Reassign the partition to these replicas (AlterPartitionReassignments)."""

    tp: PartitionId
    replicas: tuple[int, ...]


@dataclass(frozen=True)
class Withdraw:
    """Cancel the partition's reassignment (AlterPartitionReassignments with null)."""

    tp: PartitionId


@dataclass(frozen=True)
class Restore:
    """Put existing replicas back into their former order (AlterPartitionReassignments): no data is copied."""

    tp: PartitionId
    replicas: tuple[int, ...]


@dataclass(frozen=True)
class MoveToLogDir:
    """Move a broker's replica to a log directory (AlterReplicaLogDirs). A broker without the replica remembers where to
    create it."""

    tp: PartitionId
    broker: int
    path: str


@dataclass(frozen=True)
class CancelLogDirMove:
    """Cancel a broker's move to another log directory, by naming the current one (AlterReplicaLogDirs)."""

    tp: PartitionId
    broker: int
    path: str


Instruction = Start | Withdraw | Restore | MoveToLogDir | CancelLogDirMove


@dataclass(frozen=True)
class Ask:
    """An instruction, and the request whose move needs it."""

    request_id: int
    instruction: Instruction
