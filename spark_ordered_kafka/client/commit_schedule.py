"""What a topic's sender may do next, and when it sends and commits what has gathered. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from spark_ordered_kafka.client.backlog import Queue

CHUNK_ROWS = 5_000
"""Records that are sent at once."""
_CHUNK_BYTES = 4 * 1024 * 1024


class Task(Enum):
    """What a sender does next."""

    SEND = auto()
    COMMIT = auto()
    ABORT = auto()
    REST = auto()
    END = auto()


def is_ripe(queue: Queue) -> bool:
    """Whether enough is queued to be sent; the backlog's lock is held."""
    return len(queue) >= CHUNK_ROWS or queue.size >= _CHUNK_BYTES


@dataclass(frozen=True)
class CommitSchedule:
    """Commits ``interval`` seconds after the last commit, or the first record if that is later (D-084).

    None: only on request. ``records``: after so many it commits anyway.
    """

    interval: float | None
    records: int

    def due(self, pending: int, oldest: float, settled_at: float) -> float:
        """When to commit ``pending`` records, the first of ``oldest``, after a transaction that ended at ``settled_at``."""
        if self.interval is None or pending == 0:
            return float("inf")
        return 0.0 if pending >= self.records else max(oldest, settled_at) + self.interval

    def worth_waking(self, pending: int, taken: int) -> int:
        """The length of the queue that the sender is woken for, with ``taken`` of the records in the transaction."""
        if self.interval is None:
            return CHUNK_ROWS
        return 1 if pending == 0 else min(CHUNK_ROWS, self.records - taken)
