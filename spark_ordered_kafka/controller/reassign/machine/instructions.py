"""What the reassignment machine has done in Kafka. PURE.

Each may be carried out twice: whoever carries it out may die before it is known.
"""

from __future__ import annotations

from dataclasses import dataclass

from spark_ordered_kafka.kafka.values import PartitionId


@dataclass(frozen=True)
class Start:
    """Let the partition have these replicas (AlterPartitionReassignments)."""

    place: PartitionId
    replicas: tuple[int, ...]


@dataclass(frozen=True)
class Withdraw:
    """Cancel the partition's reassignment (AlterPartitionReassignments with null)."""

    place: PartitionId


@dataclass(frozen=True)
class Restore:
    """Put replicas that are there back into their former order (AlterPartitionReassignments): it moves nothing."""

    place: PartitionId
    replicas: tuple[int, ...]


@dataclass(frozen=True)
class MoveToLogDir:
    """Let a broker have its replica in that log directory (AlterReplicaLogDirs). Before it has one, it remembers where
    to make it."""

    place: PartitionId
    broker: int
    path: str


@dataclass(frozen=True)
class CancelLogDirMove:
    """End a broker's copying to another log directory, by naming the one where the replica is (AlterReplicaLogDirs)."""

    place: PartitionId
    broker: int
    path: str


Instruction = Start | Withdraw | Restore | MoveToLogDir | CancelLogDirMove


@dataclass(frozen=True)
class Ask:
    """An instruction for a request's move."""

    request_id: int
    instruction: Instruction
