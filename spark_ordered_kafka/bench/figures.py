"""How figures of repeated runs are put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Spread:
    """Median, least and greatest of some measurements."""

    median: float
    min: float
    max: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Those of at least one value."""
        return cls(median(values), min(values), max(values))


@dataclass(frozen=True)
class Comparison:
    """Records per second of a plain client and of ours; ``ratio``: ours to plain, of runs one right after the other."""

    plain: Spread
    ordered: Spread
    ratio: Spread
    goal: float

    @classmethod
    def of(cls, pairs: Sequence[tuple[float, float]], goal: float) -> Comparison:
        """That of (plain, ordered) rates, paired because a machine's speed drifts."""
        return cls(
            Spread.of([plain for plain, _ in pairs]),
            Spread.of([ordered for _, ordered in pairs]),
            Spread.of([ordered / plain for plain, ordered in pairs]),
            goal,
        )
