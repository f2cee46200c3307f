"""Evening out bytes between brokers that have as many replicas as they should: by exchanging replicas. PURE."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterator
from itertools import islice

from spark_ordered_kafka.controller.placement.planner.replicas import ReplicaMoves

TOLERANCE = 0.1
"""By how much of the mean the bytes of a broker, or of a log directory, may differ from it: moving data has its price."""

_CANDIDATES = 12
_PARTNERS = 4


def even_out_bytes(moves: ReplicaMoves, brokers: Collection[int]) -> None:
    """Exchange large replicas of brokers with more than the mean for small ones of those with less.

    Until all are within ``TOLERANCE``, or none of the exchanges looked at helps. Every exchange brings its two brokers
    closer together, so this ends, and changes nothing when it is done again.
    """
    group = sorted(brokers)
    if len(group) < 2:
        return
    mean = sum(moves.bytes[b] for b in group) / len(group)
    by_size = _BySize(moves)
    swapped = True
    while swapped:
        swapped = False
        for giver in sorted(group, key=lambda b: (-moves.bytes[b], b)):
            while moves.bytes[giver] > mean * (1 + TOLERANCE) and _swap_with_any(
                moves, by_size, giver, group, mean
            ):
                swapped = True
        for taker in sorted(group, key=lambda b: (moves.bytes[b], b)):
            while moves.bytes[taker] < mean * (1 - TOLERANCE) and _swap_from_any(
                moves, by_size, taker, group, mean
            ):
                swapped = True


def _swap_with_any(moves: ReplicaMoves, by_size: _BySize, giver: int, group: list[int], mean: float) -> bool:
    partners = sorted((b for b in group if b != giver), key=lambda b: (moves.bytes[b], b))[:_PARTNERS]
    return any(_swap(moves, by_size, giver, taker, mean) for taker in partners)


def _swap_from_any(moves: ReplicaMoves, by_size: _BySize, taker: int, group: list[int], mean: float) -> bool:
    partners = sorted((b for b in group if b != taker), key=lambda b: (-moves.bytes[b], b))[:_PARTNERS]
    return any(_swap(moves, by_size, giver, taker, mean) for giver in partners)


def _swap(moves: ReplicaMoves, by_size: _BySize, giver: int, taker: int, mean: float) -> bool:
    """Exchange two of their replicas so that the brokers come closer together; whether there were two."""
    size = moves.table.size
    between = moves.bytes[giver] - moves.bytes[taker]
    if not (moves.open(giver) and moves.open(taker)) or between <= 0:
        return False
    wanted = min(between / 2, max(moves.bytes[giver] - mean, mean - moves.bytes[taker]))
    best = None
    for small in islice(by_size.ascending(taker), _CANDIDATES):
        for large in islice(by_size.near(giver, size[small] + wanted), _CANDIDATES):
            difference = size[large] - size[small]
            cost = (abs(difference - wanted), size[large] + size[small], large, small)
            better = 0 < difference < between and (best is None or cost < best)
            if better and _allowed(moves, large, giver, taker) and _allowed(moves, small, taker, giver):
                best = cost
    if best is None:
        return False
    _, _, large, small = best
    by_size.exchange(giver, large, small)
    by_size.exchange(taker, small, large)
    moves.move(large, giver, taker)
    moves.move(small, taker, giver)
    return True


def _allowed(moves: ReplicaMoves, partition: int, source: int, target: int) -> bool:
    table = moves.table
    return target not in table.replicas[partition] and table.rack[target] not in table.barred(
        partition, source
    )


class _BySize:
    """Partitions of brokers in the order of their size."""

    def __init__(self, moves: ReplicaMoves) -> None:
        self._moves = moves
        self._sorted: dict[int, list[tuple[int, int]]] = {}

    def exchange(self, broker: int, gone: int, come: int) -> None:
        """It has ``come`` instead of ``gone``."""
        size = self._moves.table.size
        found = self._of(broker)
        del found[bisect_left(found, (size[gone], gone))]
        insort(found, (size[come], come))

    def ascending(self, broker: int) -> Iterator[int]:
        """The smallest first."""
        return (item for _, item in self._of(broker))

    def near(self, broker: int, size: float) -> Iterator[int]:
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
