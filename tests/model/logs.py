"""Partitions of the model: what is in their logs, in the smallest form that behaves alike, and the gate over them.

An entry of a log is an int: 0 for an offset that holds nothing to deliver (a marker, an aborted record), otherwise
:func:`entry` of a record, odd while its transaction is open.

Offsets are kept relative to the reader's position, which is therefore always 0. That forgets nothing that matters:
offsets are only ever compared, with each other and with positions, and below the position nothing is compared any more.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from spark_ordered_kafka.ordering import Layout, LayoutHistory, bucket, readable

MAX_EPOCHS = 4


class Part(NamedTuple):
    """One partition. ``starts[e - 1]`` is the start of layout epoch e; ``boundary`` is the log end that the controller
    has read and not yet committed; ``held`` is the end offset a reader took and has not used up; both -1 for none."""

    entries: tuple[int, ...]
    starts: tuple[int, ...] = ()
    boundary: int = -1
    held: int = -1


def entry(record: int, epoch: int, *, is_open: bool) -> int:
    """The log entry of a record (its number, from 0) written under layout ``epoch``."""
    return ((record * MAX_EPOCHS + epoch) << 1) + 2 + is_open


def record_of(value: int) -> tuple[int, int]:
    """The record's number and the epoch it was written under."""
    return divmod((value - 2) >> 1, MAX_EPOCHS)


def end_of_transaction(
    entries: tuple[int, ...], first: int, last: int, *, committed: bool
) -> tuple[int, ...]:
    """The log with the marker that ends the transaction of the writer whose records are ``first`` to ``last`` - 1."""
    low, high = entry(first, 0, is_open=False), entry(last, 0, is_open=False)
    ended = [
        value if not (value & 1 and low <= value < high) else value - 1 if committed else 0
        for value in entries
    ]
    return (*ended, 0)


@cache
def stable_end(entries: tuple[int, ...]) -> int:
    """The last stable offset: the first record of an open transaction, or the log end."""
    return next((offset for offset, value in enumerate(entries) if value & 1), len(entries))


def shifted(part: Part, by: int) -> Part:
    """The partition after the reader has passed ``by`` more offsets."""
    return Part(
        part.entries[by:],
        tuple(max(0, start - by) for start in part.starts),
        part.boundary if part.boundary < 0 else max(0, part.boundary - by),
        part.held if part.held < 0 else max(0, part.held - by),
    )


@cache
def canonical(part: Part) -> Part:
    """The partition with every run of empty offsets shortened to one.

    A run behaves like a single offset as long as no start, boundary or end of a reader lies inside it: a position in
    its midst is one from which the reader can only go on to its end. It keeps the logs finite although writers crash
    without limit, so that no bound on crashes is needed.
    """
    marks = {*part.starts, part.boundary, part.held}
    kept: list[int] = []
    place = [0]  # old offset -> new offset
    for offset, value in enumerate(part.entries):
        if value or not kept or kept[-1] or offset in marks:
            kept.append(value)
        place.append(len(kept))
    if len(kept) == len(part.entries):
        return part
    return Part(
        tuple(kept),
        tuple(place[start] for start in part.starts),
        part.boundary if part.boundary < 0 else place[part.boundary],
        part.held if part.held < 0 else place[part.held],
    )


@cache
def history(initial: int, counts: tuple[int, ...], starts: tuple[tuple[int, ...], ...]) -> LayoutHistory:
    """The real history of the layouts with these counts; ``starts[p]`` as in :class:`Part`."""
    layouts = [Layout(0, counts[0], [0] * counts[0])]
    for epoch in range(1, len(counts)):
        existing = max(counts[: epoch + 1])
        layouts.append(Layout(epoch, counts[epoch], [starts[p][epoch - 1] for p in range(existing)]))
    return LayoutHistory(initial, layouts)


@cache
def gated(
    initial: int, counts: tuple[int, ...], starts: tuple[tuple[int, ...], ...], partition: int, end: int
) -> int:
    """How far the real gate lets ``partition`` be read, from position 0 of every partition."""
    positions = dict.fromkeys(range(len(starts)), 0)
    return readable(history(initial, counts, starts), positions, {partition: end})[partition]


@cache
def gated_by_parents(
    initial: int, counts: tuple[int, ...], starts: tuple[tuple[int, ...], ...], partition: int, end: int
) -> int:
    """KIP-253's gate: a partition added waits for the one it split from, a merge target for the one removed."""
    for epoch in range(1, len(counts)):
        before, after = counts[epoch - 1], counts[epoch]
        start = starts[partition][epoch - 1]
        waits_for = [q for q in range(after, before) if bucket(q, initial, after) == partition]
        if before <= partition < after:
            waits_for.append(bucket(partition, initial, before))
        if start < end and any(starts[q][epoch - 1] > 0 for q in waits_for):
            return start
    return end
