"""Which partitions of a compacted topic still owe a tombstone to a key that is written now.

After a change of the partition count a key's old value stays in the partition it had before, where compaction would
keep it for ever. So the writer sends a *tombstone* (the key with a null value) there, with the key's new record.

**Rule.** A key with hash h, written now to p under count C, needs a tombstone in q if for some earlier epoch d
``q = bucket(h, C_d) != p`` and ``log_start[q] < start_{d+1}[q]``: q may still hold what epoch d wrote (KIP-253, step 9,
states the opposite: docs/proposals.md).

**How it is fast.** All moduli divide the largest one, M, so what a key owes depends on its hash modulo M (its
*residue*) alone, and is worked out once per layout for all residues.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from spark_ordered_kafka.ordering.linear import buckets, split_base

_Bools = npt.NDArray[np.bool_]
_Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class TombstoneTargets:
    """Per residue the partitions that owe a tombstone: ``partitions[firsts[r]:firsts[r + 1]]``, ascending.

    Attributes:
        firsts: int64, shape ``(residues + 1,)``.
        partitions: int64, shape ``(firsts[-1],)``.
    """

    firsts: _Ints
    partitions: _Ints

    @property
    def empty(self) -> bool:
        """Whether no key owes any."""
        return self.partitions.size == 0

    def owing(self, hashes: npt.NDArray[np.uint32]) -> _Bools:
        """Which keys, given by their hashes, need a tombstone anywhere: shape ``(len(hashes),)``."""
        residues = self._residues(hashes)
        return self.firsts[residues + 1] > self.firsts[residues]

    def pairs(self, hashes: npt.NDArray[np.uint32]) -> tuple[_Ints, _Ints]:
        """The tombstones of keys: indices of ``hashes`` and partitions, sorted by partition, each pair once."""
        residues = self._residues(hashes)
        first = self.firsts[residues]
        owed = self.firsts[residues + 1] - first
        rows = np.repeat(np.arange(len(hashes)), owed)
        # Within a key's run: its first target, then one further each.
        within = np.arange(rows.size) - np.repeat(np.cumsum(owed) - owed, owed)
        partitions = self.partitions[np.repeat(first, owed) + within]
        order = np.argsort(partitions, kind="stable")
        return rows[order], partitions[order]

    def _residues(self, hashes: npt.NDArray[np.uint32]) -> _Ints:
        return hashes.astype(np.int64) % (len(self.firsts) - 1)


def tombstone_targets(
    initial_count: int,
    count: int,
    earlier: Iterable[tuple[int, Sequence[int]]],
    log_starts: Mapping[int, int],
) -> TombstoneTargets:
    """Where keys written under ``count`` need tombstones.

    Args:
        initial_count: the partition count the topic began with.
        count: the partitions written to now.
        earlier: per earlier partition count C_d the offsets below which its epochs wrote, by partition
            (``start_{d+1}``); partitions beyond the end of the sequence were not written to.
        log_starts: partition -> log start offset. A partition that is missing counts as holding everything, since a
            needless tombstone does no harm.

    Raises:
        ConfigError: a count is out of range.
    """
    counts = [(earlier_count, ends) for earlier_count, ends in earlier if earlier_count != count]
    largest = max([count, *(earlier_count for earlier_count, _ in counts)])
    residues = np.arange(2 * split_base(initial_count, largest))
    now = buckets(residues, initial_count, count)
    found = [np.empty(0, dtype=np.int64)]
    for earlier_count, ends in counts:
        then = buckets(residues, initial_count, earlier_count).astype(np.int64)
        owing = np.flatnonzero((then != now) & _holding(earlier_count, ends, log_starts)[then])
        found.append(owing * largest + then[owing])
    owed, partitions = np.divmod(np.unique(np.concatenate(found)), largest)
    firsts = np.searchsorted(owed, np.arange(residues.size + 1))
    return TombstoneTargets(firsts.astype(np.int64), partitions)


def vacated(initial_count: int, earlier_count: int, count: int) -> _Bools:
    """Which partitions under ``earlier_count`` held keys that lie elsewhere under ``count``: shape ``(earlier_count,)``.

    The others keep their keys, so that nothing in them can be out of date because of the change.

    Raises:
        ConfigError: a count is out of range.
    """
    residues = np.arange(2 * split_base(initial_count, max(earlier_count, count)))
    then = buckets(residues, initial_count, earlier_count)
    left = np.zeros(earlier_count, dtype=np.bool_)
    left[then[then != buckets(residues, initial_count, count)]] = True
    return left


def _holding(count: int, ends: Sequence[int], log_starts: Mapping[int, int]) -> _Bools:
    below = np.zeros(count, dtype=np.int64)
    below[: len(ends)] = ends[:count]
    starts = np.fromiter((log_starts.get(q, 0) for q in range(count)), dtype=np.int64, count=count)
    return starts < below
