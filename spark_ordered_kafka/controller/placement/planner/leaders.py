"""Preferred leaders: the first of a partition's replicas. PURE."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from spark_ordered_kafka.controller.placement.planner.flow import Layer
from spark_ordered_kafka.controller.placement.planner.leveling import level
from spark_ordered_kafka.controller.placement.planner.table import Table


class LeaderMoves:
    """Preferred leaders of the partitions of a ``pool``; those in ``movable`` may change."""

    def __init__(self, table: Table, pool: Collection[int], movable: Collection[int]) -> None:
        self._replicas = table.replicas
        self.rack: Sequence[int] = table.rack
        self.counts = [0] * len(table.ids)
        self._led: list[dict[int, None]] = [{} for _ in table.ids]
        may = set(movable)
        for partition in sorted(pool):
            first = table.replicas[partition][0]
            self.counts[first] += 1
            if partition in may:
                self._led[first][partition] = None

    def items(self, broker: int) -> Sequence[int]:
        """Partitions that it leads."""
        return list(self._led[broker])

    def options(self, item: int, broker: int, layer: Layer) -> Iterator[int]:
        """Brokers of ``layer`` with another replica of the partition."""
        return (other for other in self._replicas[item] if other != broker and other in layer.members)

    def open(self, broker: int) -> bool:
        """True: every broker may lead one more."""
        return True

    def move(self, item: int, source: int, target: int) -> None:
        """Make ``target`` the first of the partition's replicas; the others keep their order."""
        replicas = self._replicas[item]
        replicas.remove(target)
        replicas.insert(0, target)
        del self._led[source][item]
        self._led[target][item] = None
        self.counts[source] -= 1
        self.counts[target] += 1

    def direct(self, excess: dict[int, int], deficit: dict[int, int]) -> None:
        """Does nothing: an item has too few options to choose from."""


def level_leaders(table: Table, brokers: Collection[int], movable: Collection[int]) -> None:
    """Spread preferred leaders evenly over ``brokers``, as far as the order of the replicas of ``movable`` allows."""
    for pool in table.pools():
        level(LeaderMoves(table, pool, movable), brokers)
