"""What automatic partition counts would have done under a load. PURE."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from spark_ordered_kafka.controller.autoscale.load import HotKey, Observation, utilizations
from spark_ordered_kafka.controller.autoscale.policy import Decision, State, decide
from spark_ordered_kafka.controller.autoscale.rules import Rules
from spark_ordered_kafka.controller.state.autoscale import ChangeEntry
from spark_ordered_kafka.ordering.linear import modulus


@dataclass(frozen=True)
class LoadPoint:
    """The load of a whole topic at ``at`` (seconds since the epoch): bytes and records per second. ``hot_key_share``: the part
    of it that one key has."""

    at: float
    bytes: float
    records: float
    hot_key_share: float = 0.0


@dataclass(frozen=True)
class Moment:
    """A decision of the simulation: the load, the count before it and the busiest partition's part of the target."""

    load: LoadPoint
    count: int
    peak: float
    decision: Decision


@dataclass(frozen=True)
class Simulated:
    """All decisions, the changes made, and seconds: above the target, and held back, by rule."""

    moments: tuple[Moment, ...]
    changes: tuple[ChangeEntry, ...]
    seconds_above_target: float
    held_back: Mapping[str, float]


def simulate(rules: Rules, load: Sequence[LoadPoint], initial: int, count: int, interval: float) -> Simulated:
    """Let the policy decide every ``interval`` seconds, and carry out at once what it decides.

    ``load`` has at least one point, in order of time; between two points it changes evenly. Keys are spread evenly over the
    hash's range, but for the hot one, which is in partition 0.
    """
    state = State()
    moments: list[Moment] = []
    changes: list[ChangeEntry] = []
    above, held = 0.0, defaultdict[str, float](float)
    for point in _moments(load, interval):
        observation = replace(_observation(point, initial, count), seconds=interval)
        decision, state = decide(rules, observation, state, point.at)
        peak = max(utilizations(observation, rules))
        moments.append(Moment(point, count, peak, decision))
        above += interval if peak > 1 else 0.0
        if decision.held_by is not None:
            held[decision.held_by] += interval
        if decision.due:
            state = state.changed(point.at, count, decision.target)
            changes.append(state.changes[-1])
            count = decision.target
    return Simulated(tuple(moments), tuple(changes), above, dict(held))


def _observation(point: LoadPoint, initial: int, count: int) -> Observation:
    even = [1 / modulus(p, initial, count) for p in range(count)]
    shares = [(1 - point.hot_key_share) * share for share in even]
    shares[0] += point.hot_key_share
    hot = HotKey(0, point.hot_key_share / shares[0], "one key") if point.hot_key_share > 0 else None
    return Observation(
        initial,
        count,
        [point.bytes * share for share in shares],
        [point.records * share for share in shares],
        hot=hot,
    )


def _moments(load: Sequence[LoadPoint], interval: float) -> Iterator[LoadPoint]:
    index, number = 0, 0
    while (at := load[0].at + number * interval) <= load[-1].at:
        while index + 1 < len(load) and load[index + 1].at <= at:
            index += 1
        yield _between(load[index], load[min(index + 1, len(load) - 1)], at)
        number += 1


def _between(before: LoadPoint, after: LoadPoint, at: float) -> LoadPoint:
    part = (at - before.at) / (after.at - before.at) if after.at > before.at else 0.0
    mixed = (
        one + part * (other - one)
        for one, other in (
            (before.bytes, after.bytes),
            (before.records, after.records),
            (before.hot_key_share, after.hot_key_share),
        )
    )
    return LoadPoint(at, *mixed)
