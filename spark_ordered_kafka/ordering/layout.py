"""The layout history of a topic: which partition counts it had, and from which offsets on.

Epoch e has a count C_e and, for every Kafka partition p that existed then, ``start_e[p]``: the first offset of p that
can hold records of epoch e. *Segment* (e, p) is ``[start_e[p], start_{e+1}[p])``; that of the newest epoch is open.
It plays the part of KIP-253's ``leaderEpoch`` maps and of KIP-101's leader epoch file, on the side of the clients.

**Folding.** Once every partition's log begins at or behind ``start_k``, nothing of the epochs before k is left, and a reader
at or behind the log starts has met all that the gate asks for their sake (D-006). So a history may begin at epoch k; its
numbers stay. What lies below ``start_k`` was deleted: no epoch is known for it, and it is never read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from spark_ordered_kafka.errors import ConfigError, DataLossError
from spark_ordered_kafka.ordering.linear import split_base

#: End of a segment that is still open.
OPEN_END = int(np.iinfo(np.int64).max)


@dataclass(frozen=True)
class Layout:
    """One layout epoch of a topic, as the controller committed it.

    :param epoch: number of the epoch, from 0.
    :param count: partitions written to (``undeleted_partition_count``), 1 or more: those from 0 to ``count - 1``.
    :param starts: ``starts[p]`` is the first offset of Kafka partition p that can hold records of this epoch. Covers
        the Kafka partitions that existed at the commit, also those from ``count`` on. Any sequence of integers;
        kept as a tuple.
    :raises ConfigError: a number is out of range or not an integer.
    """

    epoch: int
    count: int
    starts: Sequence[int]

    def __post_init__(self) -> None:
        _require_int("layout_epoch", self.epoch, 0)
        _require_int("undeleted_partition_count", self.count, 1)
        starts = np.asarray(self.starts)
        if starts.ndim != 1 or (starts.size and starts.dtype.kind not in "iu"):
            raise ConfigError(f"starts of layout {self.epoch}", self.starts, "must be a sequence of offsets")
        wrong = np.flatnonzero((starts < 0) | (starts >= OPEN_END))
        if wrong.size:
            partition = int(wrong[0])
            raise ConfigError(
                f"starts[{partition}] of layout {self.epoch}",
                int(starts[partition]),
                "an offset is from 0 to 2**63 - 2",
            )
        object.__setattr__(self, "starts", tuple(starts.tolist()))

    def start(self, partition: int) -> int:
        """``start_e[partition]``; 0 for a partition that did not exist when the layout was committed."""
        _require_int("partition", partition, 0)
        return self.starts[partition] if partition < len(self.starts) else 0


@dataclass(frozen=True)
class LayoutHistory:
    """All committed layouts of a topic, oldest first, or those that are left of them after folding.

    Building one costs about 0.1 s per million starts: keep it, and build a new one only when a layout is added.

    :param initial_count: the partition count the topic began with (``initial_partition_count``).
    :param layouts: one per epoch without a gap, from epoch 0 on, or from the first one that was not folded. Any iterable;
        kept as a tuple: ``layouts[i]`` is that of epoch ``first_epoch + i``.
    :raises ConfigError: no layouts, a gap between epochs, a count below ``initial_count``, a start of epoch 0 other
        than 0, a start that decreases from one epoch to the next, or starts missing for partitions of the layout
        before. Nothing is guessed: with any of these the order of keys would be unknown.
    """

    initial_count: int
    layouts: Sequence[Layout]

    def __init__(self, initial_count: int, layouts: Iterable[Layout]) -> None:
        object.__setattr__(self, "initial_count", initial_count)
        object.__setattr__(self, "layouts", tuple(layouts))
        self._validate()

    def __getstate__(self) -> dict[str, Any]:
        # Without the cached arrays: they are as large as the layouts themselves and quickly made again.
        return {"initial_count": self.initial_count, "layouts": self.layouts}

    @property
    def current(self) -> Layout:
        """The newest layout."""
        return self.layouts[-1]

    @property
    def first_epoch(self) -> int:
        """The first epoch that is known; those before it were folded."""
        return self.layouts[0].epoch

    @property
    def partition_count(self) -> int:
        """Number of Kafka partitions this history knows of: every partition from this number on starts at 0."""
        return int(self.bounds.shape[1])

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """``counts[i]`` is the count of ``layouts[i]``."""
        return tuple(layout.count for layout in self.layouts)

    @cached_property
    def bounds(self) -> npt.NDArray[np.int64]:
        """Segment boundaries, read-only, shape ``(len(layouts) + 1, partition_count)``.

        ``bounds[i, p]`` is the start of p under ``layouts[i]``, whose segment of p is ``[bounds[i, p], bounds[i + 1, p])``;
        the last row is :data:`OPEN_END`. Every column ascends.
        """
        width = max(max(layout.count, len(layout.starts)) for layout in self.layouts)
        bounds = np.zeros((len(self.layouts) + 1, width), dtype=np.int64)
        for row, layout in zip(bounds, self.layouts, strict=False):
            row[: len(layout.starts)] = layout.starts
        bounds[-1] = OPEN_END
        bounds.setflags(write=False)
        return bounds

    def count(self, epoch: int) -> int:
        """C_epoch; raises ConfigError for an epoch that is not in the history."""
        return self._layout(epoch).count

    def start(self, epoch: int, partition: int) -> int:
        """``start_epoch[partition]``; of an epoch that was folded the greatest that it can have been.

        :raises ConfigError: ``epoch`` is later than the newest one, or ``partition`` is negative.
        """
        return self._layout(max(epoch, self.first_epoch)).start(partition)

    def first_offset(self, partition: int) -> int:
        """Where what is known of a partition begins: its start in the first layout. What lay below it was deleted."""
        return self.layouts[0].start(partition)

    def until(self, epoch: int) -> LayoutHistory:
        """The history as it was when ``epoch`` was the newest one; of one that was folded the first layout alone."""
        kept = max(epoch - self.first_epoch, 0) + 1
        return self if kept >= len(self.layouts) else LayoutHistory(self.initial_count, self.layouts[:kept])

    def epoch_of(self, partition: int, offset: int) -> int:
        """The epoch whose segment of ``partition`` holds ``offset``: the largest e with ``start_e[partition] <= offset``.

        An offset below :meth:`first_offset` was in one of the folded epochs; ``first_epoch - 1`` stands for any of them.

        :raises ConfigError: ``partition`` or ``offset`` is negative.
        """
        _require_int("offset", offset, 0)
        return int(self._column(partition).searchsorted(offset, side="right")) - 1 + self.first_epoch

    def segments(self, partition: int, start: int, end: int) -> list[tuple[int, int, int]]:
        """``[start, end)`` of a partition cut at the layout boundaries: ``(epoch, start, end)``, non-empty, in order.

        Empty where ``end <= start``.

        :raises ConfigError: ``partition`` or ``start`` is negative.
        :raises DataLossError: some of it lies in epochs that were folded.
        """
        pieces = []
        row = self.epoch_of(partition, start) - self.first_epoch
        column = self._column(partition)
        if row < 0 and start < end:
            raise DataLossError(
                f"offsets {start} to {min(end, self.first_offset(partition)) - 1} of partition {partition} lie before layout"
                f" epoch {self.first_epoch}, the first one that is known: they were deleted, and if they are back, their"
                " order is unknown"
            )
        while start < end:
            last = row + 1 == len(self.layouts)
            stop = end if last else min(end, int(column[row + 1]))
            if start < stop:
                pieces.append((self.first_epoch + row, start, stop))
                start = stop
            row += 1
        return pieces

    def _layout(self, epoch: int) -> Layout:
        if not self.first_epoch <= epoch <= self.current.epoch:
            raise ConfigError(
                "layout_epoch", epoch, f"known are those from {self.first_epoch} to {self.current.epoch}"
            )
        return self.layouts[epoch - self.first_epoch]

    def _column(self, partition: int) -> npt.NDArray[np.int64]:
        _require_int("partition", partition, 0)
        if partition >= self.partition_count:
            return np.zeros(len(self.layouts), dtype=np.int64)
        return self.bounds[:-1, partition]

    def _validate(self) -> None:
        if not self.layouts:
            raise ConfigError("layouts", self.layouts, "a topic has at least one layout")
        before = None
        for expected, layout in enumerate(self.layouts, self.first_epoch):
            if layout.epoch != expected:
                raise ConfigError(
                    "layout_epoch", layout.epoch, f"epochs follow each other: {expected} is missing"
                )
            split_base(self.initial_count, layout.count)
            if before is not None and len(layout.starts) < before.count:
                raise ConfigError(
                    f"starts of layout {layout.epoch}",
                    layout.starts,
                    f"must cover the {before.count} partitions of layout {before.epoch}",
                )
            before = layout
        self._validate_starts()

    def _validate_starts(self) -> None:
        nonzero = np.flatnonzero(self.bounds[0])
        if nonzero.size and self.first_epoch == 0:
            partition = int(nonzero[0])
            raise ConfigError(
                f"starts[{partition}] of layout 0",
                int(self.bounds[0, partition]),
                "epoch 0 starts at offset 0",
            )
        for row in range(1, len(self.layouts)):
            decreased = np.flatnonzero(self.bounds[row] < self.bounds[row - 1])
            if decreased.size:
                partition, epoch = int(decreased[0]), self.layouts[row].epoch
                raise ConfigError(
                    f"starts[{partition}] of layout {epoch}",
                    int(self.bounds[row, partition]),
                    f"must be at least that of layout {epoch - 1}, {int(self.bounds[row - 1, partition])}",
                )


def _require_int(name: str, value: int, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ConfigError(name, value, f"must be an integer, {least} or greater")
