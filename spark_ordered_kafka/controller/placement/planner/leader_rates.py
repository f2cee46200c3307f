"""Evens out what is written to the leaders of brokers, by exchanging preferred leaders. PURE."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection

from spark_ordered_kafka.controller.placement.planner.swaps import TOLERANCE
from spark_ordered_kafka.controller.placement.planner.table import Table

_MAX_STEPS = 10_000

_Exchange = tuple[int, int | None]  # a partition, and the one that goes the other way


def even_out_rates(table: Table, brokers: Collection[int]) -> None:
    """Bring bytes per second by preferred leader within ``TOLERANCE`` of the mean, or as near as exchanges can.

    How many partitions brokers lead differs no more than before, and no replica moves. Every exchange brings its two brokers
    closer together, so this terminates, and a second call changes nothing.
    """
    group = sorted(brokers)
    led: dict[int, list[int]] = {broker: [] for broker in group}
    load = dict.fromkeys(group, 0.0)
    count = dict.fromkeys(group, 0)
    movable = set(table.movable)
    for partition, replicas in enumerate(table.replicas):
        if replicas[0] in load and table.of(partition).status == "live":
            load[replicas[0]] += table.rate[partition]
            count[replicas[0]] += 1
            if partition in movable:
                led[replicas[0]].append(partition)
    mean = sum(load.values()) / max(1, len(group))
    for _ in range(_MAX_STEPS):
        step = _step(table, led, load, count, mean)
        if step is None:
            return
        source, target, (given, taken) = step
        moves = [(given, source, target)] + ([] if taken is None else [(taken, target, source)])
        for partition, former, new in moves:
            table.replicas[partition].remove(new)
            table.replicas[partition].insert(0, new)
            led[former].remove(partition)
            led[new].append(partition)
            load[former] -= table.rate[partition]
            load[new] += table.rate[partition]
            count[former] -= 1
            count[new] += 1


def _step(
    table: Table, led: dict[int, list[int]], load: dict[int, float], count: dict[int, int], mean: float
) -> tuple[int, int, _Exchange] | None:
    """The next source, target and exchange: between the busiest and the idlest brokers that have one."""
    order = sorted(load, key=lambda broker: (load[broker], broker))
    for source in reversed(order):
        for target in order:
            within = load[source] <= mean * (1 + TOLERANCE) and load[target] >= mean * (1 - TOLERANCE)
            between = load[source] - load[target]
            if within or between <= 0:
                break
            found = _best(table, led, source, target, between, alone=count[source] > count[target])
            if found is not None:
                return source, target, found
    return None


def _best(
    table: Table, led: dict[int, list[int]], source: int, target: int, between: float, *, alone: bool
) -> _Exchange | None:
    """The exchange that comes nearest to half of ``between``; ``alone``: a partition may go without one in return."""
    rate = table.rate
    back = sorted((rate[q], q) for q in led[target] if source in table.replicas[q])
    found: list[tuple[float, int, int | None]] = []
    for given in led[source]:
        if target not in table.replicas[given]:
            continue
        if alone:
            found.append((rate[given], given, None))
        place = bisect_left(back, (rate[given] - between / 2, -1))
        found += [(rate[given] - one, given, q) for one, q in back[max(0, place - 1) : place + 1]]
    # Above rounding errors, so that no exchange is undone.
    least = 1e-9 * max(1.0, between)
    good = [one for one in found if least < one[0] < between - least]
    if not good:
        return None
    _, given, taken = min(
        good, key=lambda one: (abs(one[0] - between / 2), one[1], -1 if one[2] is None else one[2])
    )
    return given, taken
