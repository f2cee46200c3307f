"""Evens out what is written to the leaders of brokers, by exchanging preferred leaders. PURE."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection

from spark_ordered_kafka.controller.placement.planner.swaps import TOLERANCE
from spark_ordered_kafka.controller.placement.planner.table import Table

_MAX_STEPS = 10_000

_Led = dict[tuple[int, int], set[int]]  # a partition's leader and another of its replicas -> such partitions
_Exchange = tuple[int, int | None]  # a partition, and the one that goes the other way


def even_out_rates(table: Table, brokers: Collection[int]) -> None:
    """Bring bytes per second by preferred leader within ``TOLERANCE`` of the mean, or as near as exchanges can.

    How many partitions brokers lead differs no more than before, and no replica moves. Every exchange brings its two brokers
    closer together, so this terminates, and a second call changes nothing.
    """
    group = sorted(brokers)
    led: _Led = defaultdict(set)
    load = dict.fromkeys(group, 0.0)
    count = dict.fromkeys(group, 0)
    movable = set(table.movable)
    for partition, replicas in enumerate(table.replicas):
        if replicas[0] in load and table.of(partition).status == "live":
            load[replicas[0]] += table.rate[partition]
            count[replicas[0]] += 1
            if partition in movable:
                for other in replicas[1:]:
                    led[replicas[0], other].add(partition)
    mean = sum(load.values()) / max(1, len(group))
    # Pairs without an exchange, until one of the two has another: where a single partition is written to more than all others,
    # most brokers stay far from the mean, and most pairs are such pairs.
    closed: dict[int, set[int]] = {broker: set() for broker in group}
    for _ in range(_MAX_STEPS):
        step = _step(table, led, load, count, mean, closed)
        if step is None:
            return
        source, target, (given, taken) = step
        for broker in (source, target):
            closed[broker].clear()
            for others in closed.values():
                others.discard(broker)
        moves = [(given, source, target)] + ([] if taken is None else [(taken, target, source)])
        for partition, former, new in moves:
            replicas = table.replicas[partition]
            for other in replicas[1:]:
                led[former, other].remove(partition)
            replicas.remove(new)
            replicas.insert(0, new)
            for other in replicas[1:]:
                led[new, other].add(partition)
            load[former] -= table.rate[partition]
            load[new] += table.rate[partition]
            count[former] -= 1
            count[new] += 1


def _step(
    table: Table,
    led: _Led,
    load: dict[int, float],
    count: dict[int, int],
    mean: float,
    closed: dict[int, set[int]],
) -> tuple[int, int, _Exchange] | None:
    """The next source, target and exchange: between the busiest and the idlest brokers that have one.

    ``closed`` has the targets of each source with which it has none.
    """
    order = sorted(load, key=lambda broker: (load[broker], broker))
    for source in reversed(order):
        for target in order:
            within = load[source] <= mean * (1 + TOLERANCE) and load[target] >= mean * (1 - TOLERANCE)
            between = load[source] - load[target]
            if within or between <= 0:
                break
            if target in closed[source]:
                continue
            found = _best(table, led, source, target, between, alone=count[source] > count[target])
            if found is not None:
                return source, target, found
            closed[source].add(target)
    return None


def _best(
    table: Table, led: _Led, source: int, target: int, between: float, *, alone: bool
) -> _Exchange | None:
    """The exchange that comes nearest to half of ``between``; ``alone``: a partition may go without one in return."""
    rate = table.rate
    back = sorted((rate[q], q) for q in led[target, source])
    found: list[tuple[float, int, int | None]] = []
    for given in led[source, target]:
        if alone:
            found.append((rate[given], given, None))
        index = bisect_left(back, (rate[given] - between / 2, -1))
        found += [(rate[given] - one, given, q) for one, q in back[max(0, index - 1) : index + 1]]
    # Above rounding errors, so that no exchange is undone.
    least = 1e-9 * max(1.0, between)
    good = [one for one in found if least < one[0] < between - least]
    if not good:
        return None
    _, given, taken = min(
        good, key=lambda one: (abs(one[0] - between / 2), one[1], -1 if one[2] is None else one[2])
    )
    return given, taken
