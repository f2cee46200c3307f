"""What the plain clients count for their metrics."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class WriterCounts:
    """Of one topic of a producer: records and transactions by what became of them, and how often a change fenced one."""

    records_committed: int = 0
    records_dropped: int = 0
    committed: int = 0
    aborted: int = 0
    layout_changes: int = 0


@dataclass
class ReaderCounts:
    """Of a consumer, by topic: records delivered, and how often the gate held a partition back; rebalances of all."""

    records: Counter[str] = field(default_factory=Counter)
    blocks: Counter[str] = field(default_factory=Counter)
    rebalances: int = 0


@dataclass(frozen=True)
class PartitionFigures:
    """An assigned partition: records between its position and the end of the log, and whether the gate holds it back."""

    topic: str
    partition: int
    lag: int
    is_blocked: bool
