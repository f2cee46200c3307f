"""How a history ended, and what its failure shows."""

from __future__ import annotations

import sys
import threading
import traceback
from dataclasses import dataclass

from tests.chaos.writers import RecordId


class ChaosError(AssertionError):
    """A history that went wrong: its seed, how to repeat it, and what happened in which order."""


@dataclass(frozen=True)
class Summary:
    """Figures of a history that went right."""

    seed: int
    seconds: float
    records: int
    delivered: int
    changes: int
    batches: int
    replayed: int
    deaths: int
    deleted: int
    overtaken: int
    faults: tuple[str, ...]

    def __str__(self) -> str:
        faults = ", ".join(self.faults) or "no fault"
        return (
            f"seed {self.seed}: {self.records} records, {self.delivered} delivered, {self.changes} changes,"
            f" {self.batches} batches, {self.replayed} replayed, {self.deaths} writers died, {self.deleted} deleted,"
            f" {self.overtaken} of them unread; {faults}; {self.seconds:.1f} s"
        )


def sorted_ids(records: set[RecordId]) -> list[RecordId]:
    """A few of them, always the same."""
    return sorted(records, key=repr)[:5]


def stacks(name: str) -> str:
    """Where the threads stand whose name begins with ``name``."""
    frames = sys._current_frames()
    return "".join(
        "".join(traceback.format_stack(frames[thread.ident]))
        for thread in threading.enumerate()
        if thread.name.startswith(name) and thread.ident in frames
    )
