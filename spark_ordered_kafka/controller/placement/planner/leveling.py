"""Evening out how many items brokers have, with as few moves as possible. PURE."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from spark_ordered_kafka.controller.placement.planner.flow import Flow, Moves

# Limit of items checked in one flow, which takes some seconds; only contrived clusters come near.
MAX_WORK = 5_000_000


class CountedMoves(Moves, Protocol):
    """Moves that keep ``counts`` (items by broker) up to date."""

    counts: list[int]

    def direct(self, excess: dict[int, int], deficit: dict[int, int]) -> None:
        """Move as much of ``excess`` as can go directly, by preference; counts both down."""


def level(moves: CountedMoves, brokers: Collection[int]) -> None:
    """Let counts differ by at most 1 among ``brokers`` where the options of items allow, elsewhere as little as possible.

    A group is brought to its mean. If some brokers still have too many, neither they nor those reachable from them can give
    anything to those with too few: the two groups have different means, and each is levelled on its own.
    """
    pending = [set(brokers)]
    while pending:
        group = pending.pop()
        if len(group) < 2:
            continue
        flow = Flow(moves, group, MAX_WORK)
        low, more = divmod(sum(moves.counts[b] for b in group), len(group))
        high = low + 1 if more else low
        # Those beyond the range first: their exchanges are needed in any case.
        for most, least in ((high, low), (high, high), (low, low))[: 3 if more else 1]:
            _exchange(moves, flow, group, most, least)
        limit = high if any(moves.counts[b] > high for b in group) else low
        if limit == low and all(moves.counts[b] >= low for b in group):
            continue
        full = flow.reachable([b for b in group if moves.counts[b] > limit])
        full = {b for b in full if moves.counts[b] >= limit}
        rest = group - full
        if full and rest:
            pending += [full, rest]


def _exchange(moves: CountedMoves, flow: Flow, group: set[int], most: int, least: int) -> None:
    """From brokers with more than ``most`` to those with fewer than ``least``."""
    counts = moves.counts
    excess = {b: counts[b] - most for b in sorted(group) if counts[b] > most}
    deficit = {b: least - counts[b] for b in sorted(group) if counts[b] < least}
    if excess and deficit:
        moves.direct(excess, deficit)
        flow.push(excess, deficit)
