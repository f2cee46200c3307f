"""Key hashes: which unsigned integer a record key stands for.

The hash function is recorded per topic and never changes. ``murmur3`` is the default; the other two let an existing
topic be adopted without moving a key: ``murmur2`` is that of Kafka's Java producer, ``crc32`` that of librdkafka's
``consistent`` partitioners. A null key has no hash, for it has no order; an empty key is a key.
"""

from __future__ import annotations

import struct
import zlib
from collections import defaultdict
from collections.abc import Callable, Sequence

import mmh3
import numpy as np
import numpy.typing as npt

from spark_ordered_kafka.errors import ConfigError

_MURMUR2_SEED = 0x9747B28C
_MURMUR2_M = 0x5BD1E995
_UINT32 = 0xFFFFFFFF
# The sign bit Kafka's Java partitioner clears (Utils.toPositive).
_POSITIVE = 0x7FFFFFFF
# Below this many keys of one length, numpy's overhead per step costs more than the scalar loop.
_MURMUR2_GROUP = 8


def key_hash(name: str, key: bytes) -> int:
    """The hash of a record key, an integer in ``[0, 2**32)``.

    :param name: ``murmur3`` (MurmurHash3_x86_32, seed 0), ``murmur2`` (Kafka's ``Utils.murmur2`` with the sign bit
        cleared, as ``BuiltInPartitioner`` has it) or ``crc32`` (librdkafka's ``rd_crc32``, the same as zlib's).
    :param key: the serialised key; may be empty.
    :raises ConfigError: ``name`` is none of the three, or ``key`` is not bytes (``None`` has no hash).
    """
    if not isinstance(key, (bytes, bytearray, memoryview)):
        raise ConfigError(
            "key", key, "a record key to hash must be bytes; a null key may go to any partition"
        )
    return _scalar(name)(bytes(key))


def key_hashes(name: str, keys: Sequence[bytes | None]) -> npt.NDArray[np.uint32]:
    """:func:`key_hash` of many keys at once: a uint32 array of shape ``(len(keys),)``.

    Where a key is ``None`` the number means nothing: the caller chooses the partition.

    :raises ConfigError: ``name`` is not a known hash.
    :raises TypeError: a key is neither bytes nor ``None``.
    """
    scalar = _scalar(name)
    present = [b"" if key is None else key for key in keys]
    if name == "murmur2":
        return _murmur2_many(present)
    return np.fromiter(map(scalar, present), dtype=np.uint32, count=len(present))


def _scalar(name: str) -> Callable[[bytes], int]:
    try:
        return _HASHES[name]
    except KeyError:
        raise ConfigError("hash", name, f"must be one of {', '.join(HASH_NAMES)}") from None


def _murmur2(data: bytes) -> int:
    length = len(data)
    h = _MURMUR2_SEED ^ length
    for (word,) in struct.iter_unpack("<I", data[: length & ~3]):
        k = (word * _MURMUR2_M) & _UINT32
        k ^= k >> 24
        h = ((h * _MURMUR2_M) & _UINT32) ^ ((k * _MURMUR2_M) & _UINT32)
    if length & 3:
        h = ((h ^ int.from_bytes(data[length & ~3 :], "little")) * _MURMUR2_M) & _UINT32
    h = ((h ^ (h >> 13)) * _MURMUR2_M) & _UINT32
    return (h ^ (h >> 15)) & _POSITIVE


def _murmur2_many(keys: Sequence[bytes]) -> npt.NDArray[np.uint32]:
    rows_by_length: dict[int, list[int]] = defaultdict(list)
    for row, key in enumerate(keys):
        rows_by_length[len(key)].append(row)
    hashes = np.empty(len(keys), dtype=np.uint32)
    for length, rows in rows_by_length.items():
        if len(rows) < _MURMUR2_GROUP:
            hashes[rows] = [_murmur2(keys[row]) for row in rows]
        else:
            hashes[rows] = _murmur2_equal_length([keys[row] for row in rows], length)
    return hashes


def _murmur2_equal_length(keys: Sequence[bytes], length: int) -> npt.NDArray[np.uint32]:
    # Zero padding makes the tail a word of its own, the same as Kafka's fall-through switch over its 1 to 3 bytes.
    words = -(-length // 4)
    padded = np.zeros((len(keys), words * 4), dtype=np.uint8)
    padded[:, :length] = np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(len(keys), length)
    # One row per word position: each step below then reads contiguous memory.
    columns = np.ascontiguousarray(padded.view("<u4").T).astype(np.uint32, copy=False)
    m = np.uint32(_MURMUR2_M)
    h = np.full(len(keys), _MURMUR2_SEED ^ length, dtype=np.uint32)
    for k in columns[: length // 4]:
        k *= m
        k ^= k >> np.uint32(24)
        k *= m
        h *= m
        h ^= k
    if length & 3:
        h ^= columns[-1]
        h *= m
    h ^= h >> np.uint32(13)
    h *= m
    h ^= h >> np.uint32(15)
    h &= np.uint32(_POSITIVE)
    return h


_HASHES: dict[str, Callable[[bytes], int]] = {
    "murmur3": mmh3.mmh3_32_uintdigest,
    "murmur2": _murmur2,
    "crc32": zlib.crc32,
}

#: Names of the known hashes, the default first.
HASH_NAMES = tuple(_HASHES)
