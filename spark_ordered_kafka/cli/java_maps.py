"""In which order Java's hash maps give their entries back: Kafka's own tools print in it. PURE.

Follows ``java.util.HashMap``: its table doubles whenever it is filled to three quarters, or when one of its bins, in a table
below 64, gets a ninth entry. A bin of nine entries in a larger table becomes a tree, in whose order Java lets decide the
addresses of keys with one and the same hash code, which change from run to run. Here such a bin stays in the order of insertion.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

_KeyT = TypeVar("_KeyT")

_DEFAULT_CAPACITY = 16
_MIN_TREEIFY_CAPACITY = 64
_TREEIFY_THRESHOLD = 8
_WORD = 0xFFFFFFFF


def string_hash(text: str) -> int:
    """``java.lang.String.hashCode``, as an unsigned number."""
    units = text.encode("utf-16-be", "surrogatepass")
    code = 0
    for index in range(0, len(units), 2):
        code = (31 * code + (units[index] << 8) + units[index + 1]) & _WORD
    return code


def partition_hash(topic: str, partition: int) -> int:
    """``org.apache.kafka.common.TopicPartition.hashCode``, as an unsigned number."""
    return (31 * (31 + partition) + string_hash(topic)) & _WORD


def map_order(keys: Iterable[_KeyT], codes: Sequence[int], capacity: int = _DEFAULT_CAPACITY) -> list[_KeyT]:
    """``keys`` as a ``HashMap`` lists them.

    Args:
        keys: in the order in which they are put into it, once each.
        codes: hash code of each, as an unsigned number.
        capacity: that the map is made with; not of one that is made as a copy.
    """
    size = _table_size(capacity)
    bins: dict[int, list[tuple[int, _KeyT]]] = {}
    for count, (key, code) in enumerate(zip(keys, codes, strict=True), 1):
        spread = code ^ (code >> 16)
        chain = bins.setdefault(spread & (size - 1), [])
        chain.append((spread, key))
        if len(chain) > _TREEIFY_THRESHOLD and size < _MIN_TREEIFY_CAPACITY:
            bins, size = _doubled(bins, size)
        if count > size * 3 // 4:
            bins, size = _doubled(bins, size)
    return [key for index in sorted(bins) for _, key in bins[index]]


def integer_order(numbers: Sequence[int], capacity: int = _DEFAULT_CAPACITY) -> list[int]:
    """Numbers as a ``HashMap`` or ``HashSet`` of ``Integer`` lists them; see :func:`map_order`."""
    return map_order(numbers, [number & _WORD for number in numbers], capacity)


def _doubled(
    bins: dict[int, list[tuple[int, _KeyT]]], size: int
) -> tuple[dict[int, list[tuple[int, _KeyT]]], int]:
    """Entries that share a bin stay in their order."""
    doubled: dict[int, list[tuple[int, _KeyT]]] = {}
    for chain in bins.values():
        for spread, key in chain:
            doubled.setdefault(spread & (2 * size - 1), []).append((spread, key))
    return doubled, 2 * size


def _table_size(capacity: int) -> int:
    """``HashMap.tableSizeFor``: the power of two that is at least ``capacity``."""
    return 1 << max(0, capacity - 1).bit_length()
