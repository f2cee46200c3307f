"""The load of a topic's partitions, and what it would be under another partition count. PURE.

Growth from n to n + 1 splits one partition in two, a shrink merges the same two (``ordering/linear``). Keys are spread by a
hash, so a split is predicted to be even; a merge is an exact sum.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from spark_ordered_kafka.controller.autoscale.rules import Rules
from spark_ordered_kafka.ordering.linear import split_base


@dataclass(frozen=True)
class HotKey:
    """The most frequent key among the newest records of ``partition``, and its ``share`` of them (0 to 1); ``shown`` names
    it without showing it."""

    partition: int
    share: float
    shown: str


@dataclass(frozen=True)
class GroupLoad:
    """What a consumer group reads, by live partition: records behind (``lag``) and records per second (``read``).

    ``members`` have partitions of the topic assigned; while the group rebalances, all of the group. 0: not known.
    """

    lag: Sequence[float]
    read: Sequence[float]
    members: int = 0


@dataclass(frozen=True)
class Observation:
    """A topic with ``count`` partitions, created with ``initial``: bytes and records written per second, by partition.

    ``groups`` has those whose rates are known. ``under_way`` says what change runs or waits, None: none does;
    ``last_change``: when any change ended, in seconds since the epoch. ``seconds`` until now are what the rates are of.
    """

    initial: int
    count: int
    bytes: Sequence[float]
    records: Sequence[float]
    groups: Mapping[str, GroupLoad] = field(default_factory=dict)
    under_way: str | None = None
    last_change: float | None = None
    hot: HotKey | None = None
    seconds: float = math.inf


def predicted(rates: Sequence[float], initial: int, count: int) -> list[float]:
    """The rates of ``count`` partitions, predicted from those of ``len(rates)``; ``count`` is at least ``initial``."""
    found = list(rates)
    while len(found) < count:
        parent = len(found) - split_base(initial, len(found))
        found[parent] /= 2
        found.append(found[parent])
    while len(found) > count:
        last = found.pop()
        found[len(found) - split_base(initial, len(found))] += last
    return found


def descendants(partition: int, initial: int, count: int, target: int) -> set[int]:
    """The partitions among ``target`` that hold keys of ``partition`` among ``count``."""
    marks = predicted([float(p == partition) for p in range(count)], initial, target)
    return {p for p, mark in enumerate(marks) if mark > 0}


def utilizations(observation: Observation, rules: Rules) -> list[float]:
    """By partition the part of the target that it takes: the greater one of bytes and records."""
    found = [0.0] * observation.count
    for rates, target in (
        (observation.bytes, rules.target_bytes),
        (observation.records, rules.target_records),
    ):
        if target is not None:
            found = [max(part, rate / target) for part, rate in zip(found, rates, strict=True)]
    return found


@dataclass(frozen=True)
class Prediction:
    """Predicts the busiest partition's part of the target. ``parts`` are the utilizations of now."""

    parts: Sequence[float]
    initial: int
    hot: HotKey | None = None

    @property
    def hot_part(self) -> float:
        """What the hot key takes alone."""
        return 0.0 if self.hot is None else self.hot.share * self.parts[self.hot.partition]

    @property
    def splittable(self) -> list[float]:
        """The utilizations without the hot key."""
        parts = list(self.parts)
        if self.hot is not None:
            parts[self.hot.partition] -= self.hot_part
        return parts

    def peak(self, count: int, *, without_hot: bool = False) -> float:
        """The busiest of ``count`` partitions. No split divides a hot key, which is counted where it weighs most."""
        parts = predicted(self.splittable, self.initial, count)
        if self.hot is None or without_hot:
            return max(parts)
        children = descendants(self.hot.partition, self.initial, len(self.parts), count)
        return max(*parts, self.hot_part + max(parts[p] for p in children))

    def least_count(self, goal: float, first: int, last: int, *, without_hot: bool = False) -> int | None:
        """The least count from ``first`` to ``last`` whose peak is at most ``goal``; None: there is none."""
        # A further partition never raises the peak.
        counts = range(first, last + 1)
        index = bisect_left(counts, True, key=lambda n: self.peak(n, without_hot=without_hot) <= goal)
        return counts[index] if index < len(counts) else None
