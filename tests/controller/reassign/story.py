"""Requests to reassign partitions beside a Kafka that does what it is told, step by step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from spark_ordered_kafka.controller.reassign.machine import machine
from spark_ordered_kafka.controller.reassign.machine.cluster_state import ClusterState, Directories, Partition
from spark_ordered_kafka.controller.reassign.machine.instructions import Ask, Instruction, Start
from spark_ordered_kafka.controller.reassign.machine.tasks import Failure, Memory, Task
from spark_ordered_kafka.controller.reassign.machine.tracking import Limits
from spark_ordered_kafka.controller.state.reassignment_records import Move
from spark_ordered_kafka.errors import OrderedKafkaError
from spark_ordered_kafka.kafka.values import LocalReplica, PartitionId, Reassignment
from tests.machine_checks import validate_advance, validate_tasks

LIMITS = Limits(per_broker=2, total=10, broker_timeout=30.0, patience=5.0, retry=1.0)
P0 = ("t", 0)


def a_move(before: tuple[int, ...], after: tuple[int, ...], partition: int = 0, **fields: Any) -> Move:
    return Move(topic="t", partition=partition, topic_id="id", before=before, after=after, **fields)


class Story:
    """A controller that carries one request out; the test plays Kafka."""

    def __init__(self, *moves: Move, limits: Limits = LIMITS) -> None:
        self.tasks: tuple[Task, ...] = (Task.of(1, moves, cancelling=False),)
        self.memory = Memory()
        self.limits = limits
        self.now = 100.0
        self.alive = {1, 2, 3, 4}
        self.ongoing: dict[PartitionId, tuple[int, ...]] = {}
        self.partitions: dict[PartitionId, Partition | None] = {}
        self.fresh: set[PartitionId] = set()
        self.directories = Directories()
        self.intents: Mapping[int, frozenset[PartitionId]] = {}
        self.failures: list[Failure] = []
        self.look: frozenset[str] = frozenset()
        for move in moves:
            self.shows(move.before, tp=move.tp)

    def shows(
        self,
        replicas: tuple[int, ...],
        isr: tuple[int, ...] | None = None,
        *,
        tp: PartitionId = P0,
        leader: int | None = None,
        at: float | None = None,
        topic_id: str = "id",
    ) -> None:
        """What the next look shows of a partition, as of then unless ``at`` says else."""
        first = replicas[0] if leader is None else leader
        isr = replicas if isr is None else isr
        self.partitions[tp] = Partition(at or 0.0, topic_id, first, replicas, isr)
        if at is None:
            self.fresh.add(tp)

    def tick(
        self, answers: Mapping[type, OrderedKafkaError] | None = None, seconds: float = 1.0
    ) -> list[Instruction]:
        """Look, act, and be answered; the instructions."""
        self.now += seconds
        for tp in self.fresh:
            shown = self.partitions[tp]
            assert shown is not None
            self.partitions[tp] = replace(shown, at=self.now + 0.1)
        self.fresh.clear()
        ongoing = {tp: Reassignment(target, (), ()) for tp, target in self.ongoing.items()}
        cluster = ClusterState(self.now, self.alive, ongoing, dict(self.partitions), self.directories)
        advance = machine.advance(self.tasks, self.memory, cluster, self.limits)
        validate_advance(self.tasks, advance)
        self.failures += advance.failures
        self.intents, self.look = advance.intents, advance.look
        told: list[tuple[Ask, OrderedKafkaError | None]] = [
            (ask, (answers or {}).get(type(ask.instruction))) for ask in advance.instructions
        ]
        self.tasks, self.memory = machine.with_responses(
            advance.tasks, advance.memory, told, self.now, self.limits
        )
        validate_tasks(advance.tasks, self.tasks, self.memory)
        return [ask.instruction for ask in advance.instructions]

    def begin(self, seconds: float = 1.0) -> None:
        """Let Kafka be at all moves that there is room for."""
        for instruction in self.tick(seconds=seconds):
            if isinstance(instruction, Start):
                self.ongoing[instruction.tp] = instruction.replicas

    def cancel(self) -> None:
        self.tasks = tuple(replace(task, cancelling=True) for task in self.tasks)

    def move(self, tp: PartitionId = P0) -> Move:
        return self.tasks[0].moves[tp]

    @property
    def states(self) -> list[str]:
        return [move.state for move in self.tasks[0].moves.values()]


def dirs(at: float, offline: dict[int, frozenset[str]] | None = None, **held: LocalReplica) -> Directories:
    """``b2=LocalReplica(...)``: what broker 2 has of the partition."""
    found = {(*P0, int(name[1:])): one for name, one in held.items()}
    return Directories(at, frozenset({1, 2, 3, 4}), found, offline or {})


def placed(path: str, *, before: str = "/a", **fields: Any) -> Move:
    """A move of broker 1's replica to a log directory."""
    return a_move((1,), (1,), before_log_dirs=(before,), after_log_dirs=(path,), **fields)


def joined(story: Story, move: Move) -> None:
    """Another request, the second."""
    story.tasks = (*story.tasks, Task.of(2, (move,), cancelling=False))


def both(story: Story) -> list[str]:
    return [task.moves[P0].state for task in story.tasks]
