"""Replicas that move between brokers. PURE."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from spark_ordered_kafka.controller.placement.planner.flow import Layer
from spark_ordered_kafka.controller.placement.planner.table import Table
from spark_ordered_kafka.controller.placement.planner.target_queue import TargetQueue
from spark_ordered_kafka.controller.placement.planner.volumes import attainable_mean


class ReplicaMoves:
    """Replicas of the partitions of a ``pool``, and their number and bytes on each broker.

    Replicas that are not movable count, and stay.
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
        """Whether it has room; replicas that it gives up count until the end of the reassignment."""
        return self.table.room[broker] > 0

    def move(self, item: int, source: int, target: int) -> None:
        """Move the replica from ``source`` to ``target``."""
        self.table.move(item, source, target)
        del self._held[source][item]
        self._held[target][item] = None
        size = self.table.size[item]
        self.counts[source] -= 1
        self.counts[target] += 1
        self.bytes[source] -= size
        self.bytes[target] += size

    def load(self, broker: int) -> tuple[int, ...]:
        """Sort key of targets, best first: replicas, then bytes."""
        return self.counts[broker], self.bytes[broker], broker

    def direct(self, excess: dict[int, int], deficit: dict[int, int]) -> None:
        """Move replicas from brokers in ``excess`` directly to the emptiest of those in ``deficit``; counts both down."""
        targets = TargetQueue([b for b in deficit if deficit[b] > 0 and self.open(b)], self.rack, self.load)
        involved = [*excess, *deficit]
        sizes = (self.table.size[partition] for b in involved for partition in self._held[b])
        mean = int(attainable_mean(sum(self.bytes[b] for b in involved), sizes, len(involved)))
        for source in sorted(excess, key=lambda broker: (-excess[broker], broker)):
            if not targets:
                break
            for partition in self._by_preference(source, excess[source], mean):
                if excess[source] == 0 or not targets:
                    break
                target = targets.best(self.table.barred(partition, source), self.table.replicas[partition])
                if target is None:
                    continue
                self.move(partition, source, target)
                excess[source] -= 1
                deficit[target] -= 1
                if deficit[target] > 0 and self.open(target):
                    targets.update(target)
                else:
                    targets.remove(target)

    def _by_preference(self, broker: int, moves: int, mean: int) -> list[int]:
        """Partitions of a broker that it should give up: of the topics of which it has most, and such that its bytes come near
        the ``mean``, or the smallest. One that is larger than that comes last: it makes any other uneven."""
        wanted = max(0, self.bytes[broker] - mean) // max(1, moves)
        size, partitions = self.table.size, self.table.partitions
        by_size = sorted(
            self._held[broker], key=lambda item: (size[item] > mean, abs(size[item] - wanted), item)
        )
        left = Counter(partitions[item].topic for item in by_size)
        ranked = []
        for item in by_size:
            topic = partitions[item].topic
            ranked.append((-left[topic], item))
            left[topic] -= 1
        ranked.sort(key=lambda pair: pair[0])
        return [item for _, item in ranked]


def options(table: Table, partition: int, broker: int, layer: Layer) -> Iterator[int]:
    """Brokers of ``layer`` without a replica of the partition, on which it would be on as many racks as it must, instead of
    ``broker``."""
    replicas = table.replicas[partition]
    barred = table.barred(partition, broker)
    for rack, members in layer.by_rack.items():
        if rack not in barred:
            yield from (member for member in members if member not in replicas)
