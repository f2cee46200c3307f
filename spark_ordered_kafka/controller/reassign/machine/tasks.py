"""Input and result of the reassignment machine: requests as tasks, its memory, and the next step. PURE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from spark_ordered_kafka.controller.reassign.machine.instructions import Ask
from spark_ordered_kafka.controller.reassign.machine.tracking import Tracker
from spark_ordered_kafka.controller.state.reassignment_records import ENDED, Move, MoveState
from spark_ordered_kafka.kafka.values import PartitionId

BEGUN: frozenset[MoveState] = frozenset({"starting", "moving", "placing"})


@dataclass(frozen=True)
class Task:
    """A request. ``active`` moves have begun, ``waiting`` ones have not; ``receiving``: brokers that get bytes."""

    request_id: int
    cancelling: bool
    moves: Mapping[PartitionId, Move]
    receiving: Mapping[PartitionId, tuple[int, ...]]
    active: tuple[PartitionId, ...]
    waiting: tuple[PartitionId, ...]

    @classmethod
    def of(cls, request_id: int, moves: Sequence[Move], *, cancelling: bool) -> Task:
        """The task of a stored request."""
        return cls(
            request_id=request_id,
            cancelling=cancelling,
            moves={move.tp: move for move in moves},
            receiving={move.tp: move.receiving for move in moves if move.state not in ENDED},
            active=tuple(move.tp for move in moves if move.state in BEGUN),
            waiting=tuple(move.tp for move in moves if move.state == "waiting"),
        )

    @property
    def ended(self) -> bool:
        """Whether all of its moves have ended."""
        return not self.active and not self.waiting

    def with_moves(self, changed: Mapping[PartitionId, Move]) -> Task:
        """The task with other moves in the places of its own."""
        if not changed:
            return self
        begun = {tp for tp in self.active if tp not in changed}
        begun.update(tp for tp, move in changed.items() if move.state in BEGUN)
        waits = {tp for tp, move in changed.items() if move.state == "waiting"}
        order = {**dict.fromkeys(self.active), **changed}
        return replace(
            self,
            moves={**self.moves, **changed},
            active=tuple(tp for tp in order if tp in begun),
            waiting=(
                # An earlier controller stored them as those that begin next.
                *(tp for tp in self.active if tp in waits),
                *(tp for tp in self.waiting if tp not in changed or tp in waits),
            ),
        )


@dataclass(frozen=True)
class Memory:
    """Kept from step to step: since when brokers are down, and by request and partition the trackers, and since when a move
    whose turn has come finds other replicas than it was made for."""

    away: Mapping[int, float] = field(default_factory=dict)
    trackers: Mapping[tuple[int, PartitionId], Tracker] = field(default_factory=dict)
    differing: Mapping[tuple[int, PartitionId], float] = field(default_factory=dict)


@dataclass(frozen=True)
class Failure:
    """A move that has failed, and its story."""

    request_id: int
    move: Move
    story: str


@dataclass(frozen=True)
class Advance:
    """The result of one step.

    Attributes:
        instructions: to be carried out in this order.
        intents: request -> partitions whose moves must be stored first: from them the next controller knows what Kafka was
            asked for, and which error a rollback has.
        look: topics to be described for the next step.
        failures: moves that had begun and have failed, with their stories.
    """

    tasks: tuple[Task, ...]
    memory: Memory
    instructions: tuple[Ask, ...]
    intents: Mapping[int, frozenset[PartitionId]]
    look: frozenset[str]
    failures: tuple[Failure, ...]
