"""Requests that move the same partition between log directories: the later one takes the place of the earlier one. PURE."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from spark_ordered_kafka.controller.reassign.machine.tasks import BEGUN, Task
from spark_ordered_kafka.controller.state.reassignment_records import ENDED
from spark_ordered_kafka.kafka.values import PartitionId


@dataclass
class Contention:
    """The tasks of one step, as they are by now, and the partitions that several of them move, with the ids of those."""

    tasks: dict[int, Task]
    tps: Mapping[PartitionId, Sequence[int]]

    @classmethod
    def of(cls, tasks: Sequence[Task]) -> Contention:
        """Those of ``tasks``, which ascend by id."""
        tps: dict[PartitionId, list[int]] = defaultdict(list)
        for task in tasks if len(tasks) > 1 else ():
            for tp in (*task.active, *task.waiting):
                tps[tp].append(task.request_id)
        contested = {tp: ids for tp, ids in tps.items() if len(ids) > 1}
        return cls({task.request_id: task for task in tasks}, contested)

    def has_to_wait(self, task: Task, tp: PartitionId) -> bool:
        """Whether a move must not begin: a later request has the partition, or an earlier one is being rolled back."""
        if tp not in self.tps:
            return False
        later = any(one.request_id > task.request_id and not one.cancelling for one in self._live(tp))
        return later or any(
            one.cancelling or one.moves[tp].error_code != 0 for one in self.begun_before(task, tp)
        )

    def begun_before(self, task: Task, tp: PartitionId) -> list[Task]:
        """Earlier tasks whose move of the partition has begun, and ends when that of ``task`` begins."""
        return [
            one for one in self._live(tp) if one.request_id < task.request_id and one.moves[tp].state in BEGUN
        ]

    def replaced(self, held: Collection[int]) -> dict[int, dict[PartitionId, int]]:
        """By request, the moves that end, and which request replaces each: those before one that has begun, and those that
        wait before another one that does, unless that is ``held``."""
        found: dict[int, dict[PartitionId, int]] = defaultdict(dict)
        for tp in self.tps:
            live = list(self._live(tp))
            for index, task in enumerate(live):
                later = [
                    one for one in live[index + 1 :] if not one.cancelling and one.request_id not in held
                ]
                begun = [one for one in live[index + 1 :] if one.moves[tp].state in BEGUN]
                waits = later if task.moves[tp].state == "waiting" else []
                if begun or waits:
                    found[task.request_id][tp] = (begun or waits)[-1].request_id
        return found

    def _live(self, tp: PartitionId) -> Iterator[Task]:
        for request_id in self.tps.get(tp, ()):
            task = self.tasks[request_id]
            if task.moves[tp].state not in ENDED:
                yield task
