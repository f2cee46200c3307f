"""How much a run measures."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """``small`` records of 100 bytes and ``large`` ones of 1 kB are read and written ``rounds`` times by each contender.

    ``large_backlog``: records of 100 bytes that streams run through, so many that their start weighs little.

    ``micro_batches``: of a run whose median counts; ``transactions``: of a writer, one after another; ``backlog_mb``: what
    one worker reads while its memory is watched; ``partitions``: the most of a topic whose planning is timed.
    """

    name: str
    small: int
    large: int
    large_backlog: int
    rounds: int
    micro_batches: int
    transactions: int
    backlog_mb: int
    partitions: int


QUICK = Scale("quick", 1_000_000, 300_000, 3_000_000, 5, 20, 50, 300, 10_000)
FULL = Scale("full", 2_000_000, 600_000, 10_000_000, 5, 40, 100, 2_000, 10_000)
TINY = Scale("tiny", 2_000, 1_000, 3_000, 1, 4, 5, 2, 100)
"""For a test of the benchmark itself."""
