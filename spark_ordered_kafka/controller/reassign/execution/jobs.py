"""The requests that a controller carries out, in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from spark_ordered_kafka.controller.reassign.execution.cluster_poller import Measurement
from spark_ordered_kafka.controller.reassign.machine.cluster_state import ClusterState
from spark_ordered_kafka.controller.reassign.machine.instructions import Ask
from spark_ordered_kafka.controller.reassign.machine.progress import Rate, measured
from spark_ordered_kafka.controller.reassign.machine.tasks import Task
from spark_ordered_kafka.controller.state.reassignment_records import Move, RequestRecord
from spark_ordered_kafka.kafka.values import PartitionId


@dataclass(frozen=True)
class Shown:
    """A request for readers in other threads."""

    record: RequestRecord
    moves: Sequence[Move]
    rate: Rate | None


@dataclass
class Job:
    """A request that is carried out.

    Attributes:
        warned: warnings it began with; ``warnings`` are the current ones.
        intended: partitions whose moves are stored as ``starting`` or later.
        limited: whether its throttles are set.
        dirty: whether moves have changed since they were stored; ``next_store``: when they are to be stored, in seconds.
        ending_since: when all of its moves had ended.
        elected: whether nothing is left to be elected.
    """

    record: RequestRecord
    warned: tuple[str, ...]
    intended: set[PartitionId]
    warnings: tuple[str, ...] = ()
    rate: Rate | None = None
    limited: bool = False
    dirty: bool = False
    next_store: float = float("-inf")
    ending_since: float | None = None
    elected: bool = False

    @property
    def limits(self) -> tuple[int | None, int | None]:
        """Its throttles."""
        return self.record.throttle, self.record.replica_alter_log_dirs_throttle

    @property
    def lacks_throttles(self) -> bool:
        """Whether none of its moves may begin yet."""
        return self.limits != (None, None) and not self.limited

    @property
    def all_warnings(self) -> tuple[str, ...]:
        """Without repetition."""
        return tuple(dict.fromkeys((*self.warned, *self.warnings)))

    def measured(self, task: Task, state: ClusterState, measurement: Measurement) -> Task:
        """``task``, this request's, with the bytes that its replicas have; updates the rate."""
        changed = {}
        for tp in (*task.active, *task.waiting):
            if tp not in measurement.tps:
                continue
            move = task.moves[tp]
            after = measured(move, state.partitions.get(tp), measurement.directories)
            if after is not move:
                changed[tp] = after
        if changed:
            task = replace(task, moves={**task.moves, **changed})
            self.dirty = True
        copied = sum(row[0] for move in task.moves.values() for row in move.copied.values())
        at = measurement.directories.at
        self.rate = Rate(at, copied) if self.rate is None else self.rate.after(at, copied)
        return task


def allowed(asks: Iterable[Ask], tasks: Sequence[Task], jobs: Mapping[int, Job]) -> list[Ask]:
    """``asks`` without those that begin a move whose throttles are not set: the machine soon asks again."""
    held = {task.request_id: task for task in tasks if jobs[task.request_id].lacks_throttles}
    return [
        ask
        for ask in asks
        if ask.request_id not in held or held[ask.request_id].moves[ask.instruction.tp].state != "starting"
    ]
