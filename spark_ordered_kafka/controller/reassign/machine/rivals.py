"""Requests that move the same partition between log directories: the later one takes the place of the earlier one. PURE."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from spark_ordered_kafka.controller.reassign.machine.tasks import BEGUN, Task
from spark_ordered_kafka.controller.state.reassignment_records import ENDED
from spark_ordered_kafka.kafka.values import PartitionId


@dataclass
class Rivals:
    """The tasks of one step, as they are by now, and the partitions that several of them move, with the ids of those."""

    tasks: dict[int, Task]
    places: Mapping[PartitionId, Sequence[int]]

    @classmethod
    def of(cls, tasks: Sequence[Task]) -> Rivals:
        """Those of ``tasks``, which ascend by id."""
        places: dict[PartitionId, list[int]] = defaultdict(list)
        for task in tasks if len(tasks) > 1 else ():
            for place in (*task.active, *task.waiting):
                places[place].append(task.request_id)
        contested = {place: ids for place, ids in places.items() if len(ids) > 1}
        return cls({task.request_id: task for task in tasks}, contested)

    def has_to_wait(self, task: Task, place: PartitionId) -> bool:
        """Whether a move must not begin: a later request has the partition, or an earlier one is being rolled back."""
        if place not in self.places:
            return False
        later = any(one.request_id > task.request_id and not one.cancelling for one in self._live(place))
        return later or any(
            one.cancelling or one.moves[place].error_code != 0 for one in self.begun_before(task, place)
        )

    def begun_before(self, task: Task, place: PartitionId) -> list[Task]:
        """Earlier tasks whose move of the partition has begun, and ends when that of ``task`` begins."""
        return [
            one
            for one in self._live(place)
            if one.request_id < task.request_id and one.moves[place].state in BEGUN
        ]

    def replaced(self, held: Collection[int]) -> dict[int, dict[PartitionId, int]]:
        """By request, the moves that end, and which request replaces each: those before one that has begun, and those that
        wait before another one that does, unless that is ``held``."""
        found: dict[int, dict[PartitionId, int]] = defaultdict(dict)
        for place in self.places:
            live = list(self._live(place))
            for index, task in enumerate(live):
                later = [
                    one for one in live[index + 1 :] if not one.cancelling and one.request_id not in held
                ]
                begun = [one for one in live[index + 1 :] if one.moves[place].state in BEGUN]
                waits = later if task.moves[place].state == "waiting" else []
                if begun or waits:
                    found[task.request_id][place] = (begun or waits)[-1].request_id
        return found

    def _live(self, place: PartitionId) -> Iterator[Task]:
        for request_id in self.places.get(place, ()):
            task = self.tasks[request_id]
            if task.moves[place].state not in ENDED:
                yield task
