"""Evens out bytes between brokers with the right number of replicas, by exchanging replicas. PURE."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterator, Mapping
from itertools import islice

from spark_ordered_kafka.controller.placement.planner.replicas import ReplicaMoves
from spark_ordered_kafka.controller.placement.planner.volumes import attainable_mean, shares

TOLERANCE = 0.1
"""Tolerated difference of a broker's, or log directory's, bytes from its part, as a fraction: moving data costs time."""

WORTHWHILE = 1 - TOLERANCE
"""Part of the greatest exchange that brings two closer together, up to which one is made: what it gains is then at least a
tenth of what it moves, and rounding errors undo none."""

_CANDIDATES = 12
_PARTNERS = 4


def even_out_bytes(moves: ReplicaMoves, brokers: Collection[int]) -> None:
    """Exchange large replicas of brokers with more than their part of the bytes for small ones of those with less.

    The parts are those of the volumes, or equal ones where some volume is not known. Until all are within ``TOLERANCE``, or no
    tried exchange helps. Every exchange brings its two brokers closer together, so this terminates, and a second call changes
    nothing.
    """
    group = sorted(brokers)
    if len(group) < 2:
        return
    share = shares({b: moves.table.volume[b] for b in group})
    sizes = (moves.table.size[partition] for b in group for partition in moves.items(b))
    mean = attainable_mean(sum(moves.bytes[b] for b in group), sizes, len(group))

    def filled(broker: int) -> float:
        return moves.bytes[broker] / share[broker]

    by_size = _BySize(moves)
    improved = True
    while improved:
        improved = False
        for source in sorted(group, key=lambda b: (-filled(b), b)):
            while filled(source) > mean * (1 + TOLERANCE):
                partners = sorted((b for b in group if b != source), key=lambda b: (filled(b), b))
                if not any(
                    _swap(moves, by_size, source, target, share, mean) for target in partners[:_PARTNERS]
                ):
                    break
                improved = True
        for target in sorted(group, key=lambda b: (filled(b), b)):
            while filled(target) < mean * (1 - TOLERANCE):
                partners = sorted((b for b in group if b != target), key=lambda b: (-filled(b), b))
                if not any(
                    _swap(moves, by_size, source, target, share, mean) for source in partners[:_PARTNERS]
                ):
                    break
                improved = True


def _swap(
    moves: ReplicaMoves,
    by_size: _BySize,
    source: int,
    target: int,
    share: Mapping[int, float],
    mean: float,
) -> bool:
    """Exchange two of their replicas so that both come closer to their parts; False if no exchange does."""
    size = moves.table.size
    # What source must give for both to be filled alike, to target's part of the sum.
    even = (moves.bytes[source] * share[target] - moves.bytes[target] * share[source]) / (
        share[source] + share[target]
    )
    if not (moves.open(source) and moves.open(target)) or even <= 0:
        return False
    above, below = moves.bytes[source] - mean * share[source], mean * share[target] - moves.bytes[target]
    goal = min(even, max(above, below))
    best = None
    for small in islice(by_size.ascending(target), _CANDIDATES):
        for large in islice(by_size.nearest(source, size[small] + goal), _CANDIDATES):
            difference = size[large] - size[small]
            cost = (abs(difference - goal), size[large] + size[small], large, small)
            better = 0 < difference < 2 * even * WORTHWHILE and (best is None or cost < best)
            if better and _allowed(moves, large, source, target) and _allowed(moves, small, target, source):
                best = cost
    if best is None:
        return False
    _, _, large, small = best
    by_size.exchange(source, large, small)
    by_size.exchange(target, small, large)
    moves.move(large, source, target)
    moves.move(small, target, source)
    return True


def _allowed(moves: ReplicaMoves, partition: int, source: int, target: int) -> bool:
    table = moves.table
    return target not in table.replicas[partition] and table.rack[target] not in table.barred(
        partition, source
    )


class _BySize:
    """Partitions of each broker, sorted by size."""

    def __init__(self, moves: ReplicaMoves) -> None:
        self._moves = moves
        self._sorted: dict[int, list[tuple[int, int]]] = {}

    def exchange(self, broker: int, removed: int, added: int) -> None:
        """The broker has ``added`` instead of ``removed``."""
        size = self._moves.table.size
        found = self._of(broker)
        del found[bisect_left(found, (size[removed], removed))]
        insort(found, (size[added], added))

    def ascending(self, broker: int) -> Iterator[int]:
        """The smallest first."""
        return (item for _, item in self._of(broker))

    def nearest(self, broker: int, size: float) -> Iterator[int]:
        """Those whose size is nearest to ``size`` first."""
        found = self._of(broker)
        above = bisect_left(found, (size, -1))
        below = above - 1
        while below >= 0 or above < len(found):
            if below < 0 or (above < len(found) and found[above][0] - size <= size - found[below][0]):
                yield found[above][1]
                above += 1
            else:
                yield found[below][1]
                below -= 1

    def _of(self, broker: int) -> list[tuple[int, int]]:
        if broker not in self._sorted:
            size = self._moves.table.size
            self._sorted[broker] = sorted((size[item], item) for item in self._moves.items(broker))
        return self._sorted[broker]
