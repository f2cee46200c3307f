"""The gate: how far each partition may be read now so that every key stays in the order of writing.

**Rule.** A reader at positions ``pos`` may read segment (e, p) iff for every earlier epoch d < e and every other
partition q < C_d whose keys under C_d overlap those of p under C_e: ``pos[q] >= start_{d+1}[q]``, in words: q's tail
of epoch d is read. The own partition's earlier segments are met by reading p in order. Positions are where *all*
reading has got to, so the partitions of one batch may be read in parallel up to the offsets returned. The oldest
unfinished segments are always open, so a reader always makes progress.

**Partitions outside a layout** (p >= C_e: removed, or created by a change not yet committed) hold no keys under C_e, so
they neither block another partition through epoch e nor wait for one. What lies there is the tombstones of a compacted
topic, which the reader drops, or was written by something else than an ordered writer, which the reader reports
(D-001). A partition that no layout has seen yet (p >= ``history.partition_count``) is held.

**Folded epochs** (a history that does not begin at epoch 0) have ended below the log start of every partition, so at
positions behind those nothing waits for them. What a position before the first known layout
owes to others is not known any more, so it holds back its whole initial bucket, which keys never leave, itself
included, until it is moved on (D-006, D-007).

**How it is fast.** All moduli divide the largest one, M <= 2 * max(C), and each hash modulo M (a *residue*) has one
owner per count. Going up from the oldest unfinished epoch, each residue carries which partitions have not finished
it. Epochs that everyone has finished cost nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import numpy as np
import numpy.typing as npt

from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.ordering.layout import LayoutHistory
from spark_ordered_kafka.ordering.linear import split_base

_Ints = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]

# Of the positions before the first known layout, how many are named per partition that waits for them all.
_MOST_NAMED = 100


def readable(history: LayoutHistory, positions: Mapping[int, int], ends: Mapping[int, int]) -> dict[int, int]:
    """How far each partition may be read now.

    :param positions: partition -> next offset to read, all below it being processed. A partition that is missing is
        at 0, and blocks others until it is there.
    :param ends: partition -> end offset (exclusive) that reading is not to pass, such as the last stable offset. The
        layouts in ``history`` must have been fetched *after* the end offsets.
    :returns: for every partition of ``ends`` the greatest offset <= its end such that every record below may be read;
        its position where it is blocked, and also where the end lies below the position.
    :raises ConfigError: a partition or offset is negative.
    """
    bounds = history.bounds
    known = history.partition_count
    pos = _dense("positions", positions, known)
    end = _dense("ends", ends, known)
    stop = np.where(_held_by_folding(history, pos), pos, np.maximum(pos, end))
    active = np.flatnonzero(stop > pos)
    for epoch, blocked in _blocked_by_epoch(history, pos):
        candidates = active[active < blocked.size]
        candidates = candidates[blocked[candidates]]
        low = np.maximum(pos[candidates], bounds[epoch, candidates])
        holds_records = low < np.minimum(stop[candidates], bounds[epoch + 1, candidates])
        stop[candidates[holds_records]] = low[holds_records]
        active = active[stop[active] > bounds[epoch + 1, active]]
        if not active.size:
            break
    offsets = stop.tolist()
    return {p: offsets[p] if p < known else positions.get(p, 0) for p in ends}


def blockers(
    history: LayoutHistory, positions: Mapping[int, int], partitions: Collection[int] | None = None
) -> dict[int, list[tuple[int, int]]]:
    """What each blocked partition waits for.

    :param positions: as in :func:`readable`.
    :param partitions: those that are asked about; by default all of ``positions``.
    :returns: for every such partition whose segment at its position is blocked, the partitions it waits
        for, in order, each with the offset that partition's position must reach. Partitions that may be read are left
        out. A partition whose own position lies before the first known layout waits for itself; of many that do, others
        name the first hundred.
    :raises ConfigError: a partition or offset is negative.
    """
    known = history.partition_count
    pos = _dense("positions", positions, known)
    asked = np.zeros(known, dtype=np.bool_)
    asked[[p for p in (positions if partitions is None else partitions) if p < known]] = True
    # needed[l][q]: the offset q must reach, from the latest unfinished epoch in which its modulus was initial * 2**l.
    # Starts never decrease, so the latest epoch asks for the most.
    levels = _level(history, max(history.counts)) + 2
    needed = [np.zeros(history.initial_count << level, dtype=np.int64) for level in range(levels)]
    found = list(_waits_for_folded(history, pos, asked))
    for epoch in range(_oldest_unfinished(history, pos) + 1, len(history.layouts)):
        _note_unfinished(history, pos, epoch - 1, needed)
        count = history.counts[epoch]
        here = asked & (history.bounds[epoch] <= pos) & (pos < history.bounds[epoch + 1])
        for level, members in _by_level(history, count, np.flatnonzero(here[:count])):
            found.extend(_waits(history.initial_count, level, members, needed))
    return _group(found)


def _dense(name: str, offsets: Mapping[int, int], size: int) -> _Ints:
    """``offsets`` as an array over the partitions below ``size``, 0 where missing."""
    partitions = np.fromiter(offsets.keys(), dtype=np.int64, count=len(offsets))
    values = np.fromiter(offsets.values(), dtype=np.int64, count=len(offsets))
    if values.size and (values.min() < 0 or partitions.min() < 0):
        partition, offset = next((p, o) for p, o in offsets.items() if p < 0 or o < 0)
        raise ConfigError(f"{name}[{partition}]", offset, "partition and offset must both be 0 or greater")
    dense = np.zeros(size, dtype=np.int64)
    inside = partitions < size
    dense[partitions[inside]] = values[inside]
    return dense


def _held_by_folding(history: LayoutHistory, pos: _Ints) -> _Bools:
    """Which partitions share an initial bucket with a position before the first known layout."""
    missed: _Bools = pos < history.bounds[0]
    if not missed.any():
        return missed
    held = np.zeros(history.initial_count, dtype=np.bool_)
    held[np.flatnonzero(missed) % history.initial_count] = True
    whole: _Bools = held[np.arange(pos.size) % history.initial_count]
    return whole


def _waits_for_folded(history: LayoutHistory, pos: _Ints, asked: _Bools) -> Iterator[_Ints]:
    """Rows (partition, blocking partition, needed offset) for positions before the first known layout."""
    missed = pos < history.bounds[0]
    initial = history.initial_count
    for bucket in np.unique(np.flatnonzero(missed) % initial).tolist():
        waiting = np.flatnonzero(asked[bucket::initial]) * initial + bucket
        others = np.flatnonzero(missed[bucket::initial]) * initial + bucket
        own = waiting[missed[waiting]]
        pairs = np.stack(
            (
                np.concatenate((np.repeat(waiting, others[:_MOST_NAMED].size), own)),
                np.concatenate((np.tile(others[:_MOST_NAMED], waiting.size), own)),
            )
        )
        yield np.vstack((pairs, history.bounds[0, pairs[1]]))


# Below, an epoch is counted from the first one that is known: it is a row of the history's bounds.


def _oldest_unfinished(history: LayoutHistory, pos: _Ints) -> int:
    """The first epoch whose tail some partition has not read; the newest one if there is none before."""
    # Starts ascend with the epoch, so "someone is not past the end of epoch d" is false, then true: bisect.
    low, high = 0, len(history.layouts) - 1
    while low < high:
        middle = (low + high) // 2
        if (pos < history.bounds[middle + 1]).any():
            high = middle
        else:
            low = middle + 1
    return low


def _blocked_by_epoch(history: LayoutHistory, pos: _Ints) -> Iterator[tuple[int, _Bools]]:
    """For every epoch that can be blocked, oldest first: which of its partitions are, shape ``(count,)``."""
    oldest = _oldest_unfinished(history, pos)
    if oldest == len(history.layouts) - 1:
        return
    residues = 2 * split_base(history.initial_count, max(history.counts))
    # Of the partitions that have not finished a residue, the first; and whether there is another. More need not be
    # known to answer "is there one other than p?".
    first = np.full(residues, -1, dtype=np.int32)
    several = np.zeros(residues, dtype=np.bool_)
    owner = _owners(history.initial_count, history.counts[oldest], residues)
    for epoch in range(oldest + 1, len(history.layouts)):
        past = history.counts[epoch - 1]
        late = (pos[:past] < history.bounds[epoch, :past])[owner]
        several |= late & (first != owner) & (first >= 0)
        np.copyto(first, owner, where=late & (first < 0))
        owner = _owners(history.initial_count, history.counts[epoch], residues)
        waiting = several | ((first >= 0) & (first != owner))
        yield epoch, _any_by_owner(waiting, history.initial_count, history.counts[epoch])


def _owners(initial_count: int, count: int, residues: int) -> npt.NDArray[np.int32]:
    """The partition of every residue under ``count``: :func:`~.linear.bucket` of 0, 1, ..., ``residues - 1``."""
    base = split_base(initial_count, count)
    cycle = np.arange(2 * base, dtype=np.int32)
    cycle[count:] -= base
    return np.tile(cycle, residues // (2 * base))


def _any_by_owner(flags: _Bools, initial_count: int, count: int) -> _Bools:
    """For every partition under ``count``, whether any of its residues is flagged."""
    base = split_base(initial_count, count)
    cycle: _Bools = np.logical_or.reduce(flags.reshape(-1, 2 * base), axis=0)
    by_partition: _Bools = cycle[:count].copy()
    # Residues from count on belong to the partition one base below.
    by_partition[count - base : base] |= cycle[count:]
    return by_partition


def _level(history: LayoutHistory, count: int) -> int:
    return (split_base(history.initial_count, count) // history.initial_count).bit_length() - 1


def _by_level(history: LayoutHistory, count: int, partitions: _Ints) -> Iterator[tuple[int, _Ints]]:
    """``partitions`` under ``count`` in two groups by modulus; level l stands for ``initial_count * 2**l``."""
    base = split_base(history.initial_count, count)
    level = _level(history, count)
    split = (partitions < count - base) | (partitions >= base)
    yield level, partitions[~split]
    yield level + 1, partitions[split]


def _note_unfinished(history: LayoutHistory, pos: _Ints, epoch: int, needed: list[_Ints]) -> None:
    count = history.counts[epoch]
    target = history.bounds[epoch + 1]
    late = np.flatnonzero(pos[:count] < target[:count])
    for level, members in _by_level(history, count, late):
        needed[level][members] = target[members]


def _waits(initial_count: int, level: int, members: _Ints, needed: list[_Ints]) -> Iterator[_Ints]:
    """Rows (partition, blocking partition, needed offset) for partitions whose modulus is of this level."""
    if not members.size:
        return
    own_modulus = initial_count << level
    is_member = np.zeros(own_modulus, dtype=np.bool_)
    is_member[members] = True
    for other_level, offsets in enumerate(needed):
        if other_level <= level:
            partitions = members
            others = members % (initial_count << other_level)
        else:
            others = np.flatnonzero(offsets)
            partitions = others % own_modulus
        # A partition is never found to wait for itself: at this epoch, it is past its own earlier ones.
        keep = (offsets[others] > 0) & is_member[partitions]
        yield np.stack((partitions[keep], others[keep], offsets[others[keep]]))


def _group(found: list[_Ints]) -> dict[int, list[tuple[int, int]]]:
    """Rows to lists per partition, keeping the greatest offset where a pair was found under several moduli."""
    if not found:
        return {}
    partitions, others, offsets = np.concatenate(found, axis=1)
    order = np.lexsort((offsets, others, partitions))
    partitions, others, offsets = partitions[order], others[order], offsets[order]
    last = np.ones(partitions.size, dtype=np.bool_)
    last[:-1] = (partitions[1:] != partitions[:-1]) | (others[1:] != others[:-1])
    waits: dict[int, list[tuple[int, int]]] = {}
    for partition, other, offset in zip(
        partitions[last].tolist(), others[last].tolist(), offsets[last].tolist(), strict=True
    ):
        waits.setdefault(partition, []).append((other, offset))
    return waits
