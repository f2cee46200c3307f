"""Replicas that move between brokers. PURE."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from spark_ordered_kafka.controller.placement.planner.flow import Layer
from spark_ordered_kafka.controller.placement.planner.table import Table
from spark_ordered_kafka.controller.placement.planner.takers import Takers


class ReplicaMoves:
    """Replicas of the partitions of a ``pool``, and how many of them, and of their bytes, each broker has.

    What may not be planned counts and stays.
    """

    def __init__(self, table: Table, pool: Collection[int]) -> None:
        self.table = table
        self.rack: Sequence[int] = table.rack
        self.counts = table.counts(sorted(pool))
        self.bytes = table.bytes(sorted(pool))
        self._held: list[dict[int, None]] = [{} for _ in table.ids]
        members = set(pool)
        for partition in table.movable:
            if partition in members:
                for broker in table.replicas[partition]:
                    self._held[broker][partition] = None

    def items(self, broker: int) -> Sequence[int]:
        """Partitions of which it has a replica."""
        return list(self._held[broker])

    def options(self, item: int, broker: int, layer: Layer) -> Iterator[int]:
        """Brokers of ``layer`` that may have the replica."""
        return options(self.table, item, broker, layer)

    def open(self, broker: int) -> bool:
        """Whether it has room: what it gives up in exchange stays until the end of the reassignment."""
        return self.table.room[broker] > 0

    def move(self, item: int, source: int, target: int) -> None:
        """Let the replica on ``source`` be on ``target``."""
        self.table.move(item, source, target)
        del self._held[source][item]
        self._held[target][item] = None
        size = self.table.size[item]
        self.counts[source] -= 1
        self.counts[target] += 1
        self.bytes[source] -= size
        self.bytes[target] += size

    def load(self, broker: int) -> tuple[int, ...]:
        """What makes brokers worse takers: replicas, then bytes."""
        return self.counts[broker], self.bytes[broker], broker

    def direct(self, excess: dict[int, int], deficit: dict[int, int]) -> None:
        """Take replicas from brokers in ``excess`` straight to the emptiest of those in ``deficit``; counts both down."""
        takers = Takers([b for b in deficit if deficit[b] > 0 and self.open(b)], self.rack, self.load)
        involved = [*excess, *deficit]
        mean = sum(self.bytes[b] for b in involved) // max(1, len(involved))
        for source in sorted(excess, key=lambda broker: (-excess[broker], broker)):
            if not takers:
                break
            for partition in self._by_preference(source, excess[source], mean):
                if excess[source] == 0 or not takers:
                    break
                target = takers.best(self.table.barred(partition, source), self.table.replicas[partition])
                if target is None:
                    continue
                self.move(partition, source, target)
                excess[source] -= 1
                deficit[target] -= 1
                if deficit[target] > 0 and self.open(target):
                    takers.update(target)
                else:
                    takers.remove(target)

    def _by_preference(self, broker: int, moves: int, mean: int) -> list[int]:
        """Partitions of a broker that is to give up some: those of topics of which it has most; among them, such that
        its bytes come near the ``mean``, or as few as can be."""
        wanted = max(0, self.bytes[broker] - mean) // max(1, moves)
        size, partitions = self.table.size, self.table.partitions
        by_size = sorted(self._held[broker], key=lambda item: (abs(size[item] - wanted), item))
        left = Counter(partitions[item].topic for item in by_size)
        ranked = []
        for item in by_size:
            topic = partitions[item].topic
            ranked.append((-left[topic], item))
            left[topic] -= 1
        ranked.sort(key=lambda pair: pair[0])
        return [item for _, item in ranked]


def options(table: Table, partition: int, broker: int, layer: Layer) -> Iterator[int]:
    """Brokers of ``layer`` where a partition has no replica, and is on as many racks as it must be when one is there
    instead of on ``broker``."""
    replicas = table.replicas[partition]
    barred = table.barred(partition, broker)
    for rack, members in layer.by_rack.items():
        if rack not in barred:
            yield from (member for member in members if member not in replicas)
