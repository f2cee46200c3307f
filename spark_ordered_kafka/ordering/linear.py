"""Linear hashing (Litwin, 1980): which partition a hash belongs to under a partition count.

With the initial count N and the present count C >= N, let ``m = N * 2**L`` be the largest such number that is <= C.
Then ``bucket = hash mod 2m``, minus m where that is >= C. A partition added splits exactly one, a partition removed
merges into exactly one, and no key moves between partitions that exist both before and after.

Seen from the partition: p holds exactly the hashes congruent to p modulo its *modulus*, which is 2m for the
partitions that are already split or came from a split (``p < C - m`` or ``p >= m``), m for the others.
"""

from __future__ import annotations

from operator import index

import numpy as np
import numpy.typing as npt

from spark_ordered_kafka.errors import ConfigError


def bucket(hash: int, initial_count: int, count: int) -> int:  # noqa: A002 - the public name of section 4
    """The partition, in ``[0, count)``, of a key with this hash.

    :param hash: unsigned, as :func:`~spark_ordered_kafka.ordering.key_hash` gives it.
    :param initial_count: the partition count the topic began with (``initial_partition_count``).
    :param count: the partitions written to now (``undeleted_partition_count``), at least ``initial_count``.
    :raises ConfigError: a count or the hash is out of range.
    """
    base = split_base(initial_count, count)
    if hash < 0:
        raise ConfigError("hash", hash, "a key's hash is unsigned: 0 or greater")
    partition = index(hash) % (2 * base)
    return partition - base if partition >= count else partition


def buckets(hashes: npt.NDArray[np.integer], initial_count: int, count: int) -> npt.NDArray[np.int32]:
    """:func:`bucket` of many hashes at once: an int32 array of the shape of ``hashes``.

    :raises ConfigError: a count is out of range, or a hash is negative.
    """
    base = split_base(initial_count, count)
    if hashes.dtype.kind == "i" and hashes.size and hashes.min() < 0:
        raise ConfigError("hash", int(hashes.min()), "a key's hash is unsigned: 0 or greater")
    partitions: npt.NDArray[np.uint64] = np.remainder(hashes.astype(np.uint64), np.uint64(2 * base))
    np.subtract(partitions, np.uint64(base), out=partitions, where=partitions >= count)
    return partitions.astype(np.int32)


def modulus(partition: int, initial_count: int, count: int) -> int:
    """The number M such that ``partition`` holds exactly the hashes congruent to it modulo M under ``count``.

    :raises ConfigError: a count is out of range, or ``partition`` is not in ``[0, count)``: a partition outside the
        layout holds no keys, so there is no such number.
    """
    base = split_base(initial_count, count)
    if not 0 <= partition < count:
        raise ConfigError("partition", partition, f"must be from 0 to {count - 1} under {count} partitions")
    return 2 * base if partition < count - base or partition >= base else base


def overlaps(p: int, count_p: int, q: int, count_q: int, initial_count: int) -> bool:
    """Whether partition ``p`` under ``count_p`` and partition ``q`` under ``count_q`` can hold a key in common.

    A partition outside its layout (``p >= count_p``) holds no keys and overlaps nothing.

    :raises ConfigError: a count is out of range or a partition negative.
    """
    for name, partition in (("p", p), ("q", q)):
        if partition < 0:
            raise ConfigError(name, partition, "a partition is 0 or greater")
    split_base(initial_count, count_p)
    split_base(initial_count, count_q)
    if p >= count_p or q >= count_q:
        return False
    # One modulus divides the other, so the smaller one decides.
    common = min(modulus(p, initial_count, count_p), modulus(q, initial_count, count_q))
    return (p - q) % common == 0


def split_base(initial_count: int, count: int) -> int:
    """The largest ``initial_count * 2**L`` that is <= ``count``: m of the module's description.

    :raises ConfigError: ``initial_count < 1`` or ``count < initial_count``.
    """
    if initial_count < 1:
        raise ConfigError("initial_partition_count", initial_count, "must be 1 or greater")
    if count < initial_count:
        raise ConfigError(
            "undeleted_partition_count", count, f"must be at least the initial count, {initial_count}"
        )
    return int(index(initial_count) << ((index(count) // index(initial_count)).bit_length() - 1))
