"""More replicas for partitions that exist. PURE."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush

from spark_ordered_kafka.controller.placement.guards import UNLIMITED, refusal
from spark_ordered_kafka.controller.placement.round_robin import has_racks
from spark_ordered_kafka.errors import ErrorCode, RequestError


def widen(
    racks: Mapping[int, str | None],
    current: Mapping[int, Sequence[int]],
    replication_factor: int,
    *,
    capacity: Mapping[int, int] | None = None,
) -> dict[int, list[int]]:
    """Replica lists with ``replication_factor`` replicas for partitions that have fewer, each keeping what it has.

    ``current`` maps partition -> its replicas, preferred leader first, which stays so; those that are not on a broker
    of ``racks`` are replaced. New ones go to racks that the partition is not on yet, where that is possible, and evenly
    over the brokers. ``racks`` and ``capacity`` as in :func:`~spark_ordered_kafka.controller.placement.place.place`; what a
    partition has already costs no capacity. What fits in any way is found. Raises RequestError
    INVALID_REPLICATION_FACTOR, or GUARD_RAILS when it does not fit.
    """
    if not 1 <= replication_factor <= len(racks):
        raise RequestError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"replication_factor has the value {replication_factor}: with {len(racks)} brokers it must be "
            f"between 1 and {len(racks)}",
        )
    room = {broker: max(0, (capacity or {}).get(broker, UNLIMITED)) for broker in sorted(racks)}
    plan = _Plan(racks, room)
    for partition in sorted(current):
        plan.keep(partition, [broker for broker in current[partition] if broker in racks])
        for _ in range(replication_factor - len(plan.replicas[partition])):
            if not plan.add(partition) and not plan.make_way(partition):
                raise refusal(
                    f"replication factor {replication_factor} for {len(current)} existing partitions", room
                )
    return plan.replicas


class _Plan:
    """Replica lists as they grow. ``room`` maps broker -> replicas it may still take."""

    def __init__(self, racks: Mapping[int, str | None], room: Mapping[int, int]) -> None:
        self.replicas: dict[int, list[int]] = {}
        self._racks: Mapping[int, str | None] = racks if has_racks(racks) else dict.fromkeys(racks)
        self._left = dict(room)
        self._added: dict[int, set[int]] = {
            broker: set() for broker in room
        }  # partitions that it is added to
        # Replicas added, then who had one added last: the brokers take turns.
        self._turns = [(0, number, broker) for number, broker in enumerate(room) if room[broker] > 0]
        heapify(self._turns)
        self._number = len(self._turns)

    def keep(self, partition: int, brokers: list[int]) -> None:
        """The partition has these already."""
        self.replicas[partition] = brokers

    def add(self, partition: int) -> bool:
        """One more replica, on a broker that has room; False when none of them is without one."""
        used = {self._racks[broker] for broker in self.replicas[partition]}
        passed, second = [], None
        found = None
        while found is None and self._turns:
            turn = heappop(self._turns)
            broker = turn[2]
            if self._left[broker] < 1:
                continue
            if broker in self.replicas[partition]:
                passed.append(turn)
            elif self._racks[broker] in used:
                passed.append(turn)
                second = turn if second is None else second
            else:
                found = turn
        if found is None and second is not None:
            passed.remove(second)
            found = second
        for turn in passed:
            heappush(self._turns, turn)
        if found is None:
            return False
        self._give(partition, found[2])
        self._number += 1
        heappush(self._turns, (found[0] + 1, self._number, found[2]))
        return True

    def make_way(self, partition: int) -> bool:
        """One more replica, by moving replicas added to other partitions (the shortest augmenting path, as in
        bipartite matching); False when no way of sharing the room out gives it one."""
        # How a broker, and a partition that could give it up, were come to.
        reached: dict[int, int] = {}
        gives_up: dict[int, int] = {}
        asking = deque([partition])
        while asking:
            one = asking.popleft()
            for broker in self._without(one):
                if broker in reached:
                    continue
                reached[broker] = one
                if self._left[broker] > 0:
                    self._shift(broker, partition, reached, gives_up)
                    return True
                for other in sorted(self._added[broker]):
                    if other != partition and other not in gives_up:
                        gives_up[other] = broker
                        asking.append(other)
        return False

    def _shift(
        self, broker: int, partition: int, reached: Mapping[int, int], gives_up: Mapping[int, int]
    ) -> None:
        taker = reached[broker]
        self._give(taker, broker)
        while taker != partition:
            broker = gives_up[taker]
            self.replicas[taker].remove(broker)
            self._added[broker].remove(taker)
            self._left[broker] += 1
            taker = reached[broker]
            self._give(taker, broker)

    def _give(self, partition: int, broker: int) -> None:
        self.replicas[partition].append(broker)
        self._added[broker].add(partition)
        self._left[broker] -= 1

    def _without(self, partition: int) -> Iterator[int]:
        return (broker for broker in self._left if broker not in self.replicas[partition])
