"""Where the keys of a topic belong under one layout."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.ordering.hashing import HASH_NAMES, key_hashes
from spark_ordered_kafka.ordering.linear import buckets

NO_PARTITION = -1
"""What a null key belongs to: it has no order, so it may lie anywhere."""


@dataclass(frozen=True)
class Routing:
    """The topic's hash (:func:`known_hash`) and its partition counts: ``initial_partition_count`` and the layout's own."""

    hash: str
    initial_count: int
    count: int

    def partitions(self, keys: Sequence[bytes | None]) -> npt.NDArray[np.int32]:
        """The partition of each key, ``NO_PARTITION`` for a null key: shape ``(len(keys),)``."""
        found = buckets(key_hashes(self.hash, keys), self.initial_count, self.count)
        if None in keys:
            found[[row for row, key in enumerate(keys) if key is None]] = NO_PARTITION
        return found

    def partitions_in_turn(
        self, keys: Sequence[bytes | None], turn: int
    ) -> tuple[npt.NDArray[np.int32], int]:
        """As :meth:`partitions`, but null keys take turns over all partitions, of which the next is ``turn``; and whose turn
        it is after that."""
        found = self.partitions(keys)
        for row in np.flatnonzero(found == NO_PARTITION).tolist():
            found[row] = turn % self.count
            turn += 1
        return found, turn


def known_hash(topic: str, name: str) -> str:
    """The hash of a topic; raises ConfigError for one that is not known, as of a topic that a later version has created."""
    if name not in HASH_NAMES:
        known = ", ".join(HASH_NAMES)
        raise ConfigError(
            f"hash of topic {topic!r}", name, f"this version knows {known}; a newer one is needed"
        )
    return name


def rows_by_partition(partitions: npt.NDArray[np.int32]) -> Iterator[tuple[int, npt.NDArray[np.intp]]]:
    """Each partition that rows have, ascending, with those rows in their order."""
    order = np.argsort(partitions, kind="stable")
    found, firsts = np.unique(partitions[order], return_index=True)
    yield from zip(found.tolist(), np.split(order, firsts[1:]), strict=True)
