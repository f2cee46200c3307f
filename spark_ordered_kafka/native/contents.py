"""Columns as both ways take them, the kernel's and Python's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    # Plain clients give lists, and need not wait for the import.
    import pyarrow as pa

Contents: TypeAlias = "list[bytes | None] | pa.Array"
"""Keys or values: a list, or an Arrow array of binary or large_binary."""

Headers: TypeAlias = "pa.Array | None"
"""The headers of rows: an array of list<struct<key: utf8, value: binary>>; None where no row has any."""

Timestamps: TypeAlias = "pa.Array | None"
"""Milliseconds since 1970-01-01 UTC as int64; null, and None for all rows: the time of sending."""


@dataclass(frozen=True)
class Records:
    """Records to write, as columns."""

    keys: Contents
    values: Contents
    headers: Headers = None
    timestamps: Timestamps = None

    def __len__(self) -> int:
        return len(self.keys)


def objects(column: Any) -> list[Any]:
    """A column's values as Python objects."""
    return column if isinstance(column, list) else column.to_pylist()


def objects_at(column: Contents, indices: npt.NDArray[np.intp]) -> list[bytes | None]:
    """The values at some indices as Python objects."""
    if isinstance(column, list):
        return [column[index] for index in indices.tolist()]
    found: list[bytes | None] = column.take(indices).to_pylist()
    return found
