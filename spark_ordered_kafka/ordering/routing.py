"""Where the keys of a topic belong under one layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from spark_ordered_kafka.ordering.hashing import key_hashes
from spark_ordered_kafka.ordering.linear import buckets

NO_PARTITION = -1
"""What a null key belongs to: it has no order, so it may lie anywhere."""


@dataclass(frozen=True)
class Routing:
    """The topic's hash and its partition counts: ``initial_partition_count`` and the layout's own."""

    hash: str
    initial_count: int
    count: int

    def partitions(self, keys: Sequence[bytes | None]) -> npt.NDArray[np.int32]:
        """The partition of each key, ``NO_PARTITION`` for a null key: shape ``(len(keys),)``."""
        found = buckets(key_hashes(self.hash, keys), self.initial_count, self.count)
        if None in keys:
            found[[row for row, key in enumerate(keys) if key is None]] = NO_PARTITION
        return found
