"""The tombstones that one producer instance sends to a compacted topic: once per key, for its layout never changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from spark_ordered_kafka.native.contents import Contents, objects_at
from spark_ordered_kafka.ordering import TombstoneTargets

REMEMBERED_KEYS = 1_000_000

_Digests = npt.NDArray[np.int64]


class KeySet:
    """A growing set of keys as 64-bit digests, 8 bytes each: sorted runs, each more than twice as long as the next.

    Two keys of the same digest are taken for one. Among a million keys that happens once in 3 * 10**7 sets.
    """

    def __init__(self) -> None:
        self._runs: list[_Digests] = []

    def __len__(self) -> int:
        return sum(run.size for run in self._runs)

    def add(self, keys: Sequence[bytes]) -> npt.NDArray[np.intp]:
        """Add keys; the indices of those that were not there, each at its first occurrence."""
        fresh, indices = np.unique(
            np.fromiter(map(hash, keys), dtype=np.int64, count=len(keys)), return_index=True
        )
        for run in self._runs:
            at = np.minimum(run.searchsorted(fresh), run.size - 1)
            new = run[at] != fresh
            fresh, indices = fresh[new], indices[new]
        if fresh.size:
            self._runs.append(fresh)
        while len(self._runs) > 1 and self._runs[-2].size <= 2 * self._runs[-1].size:
            last = self._runs.pop()
            self._runs[-1] = np.sort(np.concatenate((self._runs[-1], last)), kind="stable")
        return np.sort(indices)


class Tombstones:
    """What a producer instance owes, and what it has sent.

    After a failed or aborted transaction the instance is given up, and this with it: so all that is remembered lies in
    committed transactions or in the open one (D-078). ``limit`` keys are remembered from one transaction to the next; with
    more, all are forgotten, which costs nothing but more tombstones.
    """

    def __init__(self, targets: TombstoneTargets, limit: int = REMEMBERED_KEYS) -> None:
        self._targets = targets
        self._limit = limit
        self._sent = KeySet()

    def due(self, keys: Contents, hashes: npt.NDArray[np.uint32]) -> Iterator[tuple[int, list[bytes]]]:
        """Per partition the keys that get a tombstone there, and that are counted as sent from now on.

        A null key has none: it has no old value.
        """
        rows = np.flatnonzero(self._targets.owing(hashes))
        owing = [
            (row, key)
            for row, key in zip(rows.tolist(), objects_at(keys, rows), strict=True)
            if key is not None
        ]
        new = [owing[index] for index in self._sent.add([key for _, key in owing]).tolist()]
        if not new:
            return
        indices, partitions = self._targets.pairs(hashes[[row for row, _ in new]])
        found, firsts = np.unique(partitions, return_index=True)
        for partition, group in zip(found.tolist(), np.split(indices, firsts[1:]), strict=True):
            yield partition, [new[index][1] for index in group.tolist()]

    def committed(self) -> None:
        """The transaction was committed."""
        if len(self._sent) > self._limit:
            self._sent = KeySet()
