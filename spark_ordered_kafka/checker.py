"""The judge of order, loss and duplicates, shared by the demo and all end-to-end tests (D-207). Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

_EXAMPLES = 5
_Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Report:
    """What a check found. ``examples`` shows the first violations in words."""

    records: int
    keys: int
    lost: int
    duplicated: int
    out_of_order: int
    examples: tuple[str, ...] = ()

    @property
    def violations(self) -> int:
        """All violations; 0 means exact."""
        return self.lost + self.duplicated + self.out_of_order


def check(keys: _Array, sequences: _Array, expected: int | None = None) -> Report:
    """Check records in the order of delivery.

    ``keys[i]`` is the source key of the i-th record delivered, ``sequences[i]`` its number among that key's records,
    counted from 0 in the order of writing. ``expected``: how many records were written in all, so that a loss at the
    tail of a key, or of a whole key, is found too. Raises ValueError when the arrays differ in length.
    """
    if len(keys) != len(sequences):
        raise ValueError(f"{len(keys)} keys but {len(sequences)} sequence numbers")
    names, ids = np.unique(keys, return_inverse=True)
    order = np.argsort(ids, kind="stable")
    ids, seqs = ids[order], np.asarray(sequences, dtype=np.int64)[order]

    distinct = np.unique(np.stack([ids, seqs]), axis=1) if len(ids) else np.empty((2, 0), np.int64)
    duplicated = len(ids) - distinct.shape[1]
    top = np.full(len(names), -1, dtype=np.int64)
    np.maximum.at(top, ids, seqs)
    written = int((top + 1).sum()) if expected is None else expected
    lost = max(0, written - distinct.shape[1])

    same_key = ids[1:] == ids[:-1] if len(ids) else np.empty(0, bool)
    backwards = np.flatnonzero(same_key & (seqs[1:] < seqs[:-1]))
    gaps = np.flatnonzero(same_key & (seqs[1:] > seqs[:-1] + 1))
    shown = [
        *(
            f"key {names[ids[i]]}: {seqs[i + 1]} delivered after {seqs[i]}"
            for i in backwards[:_EXAMPLES].tolist()
        ),
        *(f"key {names[ids[i]]}: {seqs[i]} is followed by {seqs[i + 1]}" for i in gaps[:_EXAMPLES].tolist()),
    ]
    return Report(len(ids), len(names), lost, duplicated, len(backwards), tuple(shown))
