"""Rows to be written, as Parquet files that take next to nothing to read."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

FILES = 2
"""Files, and so tasks of Spark; all rows of a key are in one of them."""

_KEYS = 10_000
_SEED = 253


def write(directory: Path, records: int, value_bytes: int, headers: int = 0) -> None:
    """Write rows with ``key`` and ``value``, and with so many ``headers`` of 16 bytes each, in two files.

    Values are random digits, since compression would flatter uniform ones; each key has its own, and they come again
    after more bytes than lz4 looks back.
    """
    directory.mkdir(parents=True)
    rng = random.Random(_SEED)
    for number in range(FILES):
        keys = range(number, _KEYS, FILES)
        count = len(range(number, records, FILES))
        places = pa.array(np.arange(count, dtype=np.int32) % len(keys))
        values = [rng.randbytes(value_bytes).hex()[:value_bytes].encode() for _ in keys]
        columns = {
            "key": _dictionary(places, [b"key-%d" % key for key in keys]),
            "value": _dictionary(places, values),
        }
        if headers:
            columns["headers"] = _headers(count, headers)
        pq.write_table(
            pa.table(columns),
            directory / f"{number}.parquet",
            compression="none",
            # The default would give dictionaries up at 1 MB.
            dictionary_pagesize_limit=64_000_000,
        )


def _dictionary(places: pa.Array, values: list[bytes]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(places, pa.array(values, pa.binary()))


def _headers(count: int, each: int) -> pa.Array:
    names = pa.array([f"header-{number}" for number in range(each)] * count, pa.string())
    values = pa.array([b"0123456789abcdef"] * (each * count), pa.binary())
    ends = pa.array(np.arange(count + 1, dtype=np.int32) * each)
    return pa.ListArray.from_arrays(ends, pa.StructArray.from_arrays([names, values], ["key", "value"]))
