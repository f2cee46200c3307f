"""A fingerprint of rows: the sum of their hashes, by the kernel or by Python."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import mmh3

from spark_ordered_kafka.native.contents import Contents, Headers, objects
from spark_ordered_kafka.native.loading import kernel

_MASK = (1 << 64) - 1
_NULL = b"\x00"
_PRESENT = b"\x01"


def fingerprint(keys: Contents, values: Contents, headers: Headers = None) -> int:
    """The sum of 64-bit hashes of (key, value, headers), modulo 2**64, in which their order does not matter.

    No headers, null headers and an empty list of them are the same. Ledgers keep such sums: they stay as they are.
    """
    native = kernel()
    if native is not None:
        total: int = native.fingerprint(keys, values, headers)
        return total
    rows = zip(objects(keys), objects(values), strict=True)
    if headers is None:
        return sum(_hash(value, _seed(key)) for key, value in rows) & _MASK
    return (
        sum(
            _hash(value, mmh3.hash(_packed(of_row), seed=_seed(key), signed=False) if of_row else _seed(key))
            for (key, value), of_row in zip(rows, objects(headers), strict=True)
        )
        & _MASK
    )


def _seed(key: bytes | None) -> int:
    seed: int = mmh3.hash(_NULL if key is None else _PRESENT + key, signed=False)
    return seed


def _hash(value: bytes | None, seed: int) -> int:
    found: int = mmh3.hash64(_NULL if value is None else _PRESENT + value, seed=seed, signed=False)[0]
    return found


def _packed(headers: Sequence[Mapping[str, Any]]) -> bytes:
    """Different headers give different bytes: every text is preceded by its length, -1 for a null."""
    parts = []
    for header in headers:
        for text in (header["key"].encode(), header["value"]):
            parts.append(struct.pack(">q", -1 if text is None else len(text)) + (text or b""))
    return b"".join(parts)
