"""Which segments of a topic can be read apart from which others, because no key leads from one to the other.

Moduli of linear hashing divide each other, so what partitions hold nests: two segments hold keys in common only if the
residue of one lies under that of the other. The segments that are read so make trees, and the trees have no key in common.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from spark_ordered_kafka.ordering.linear import modulus

Root = tuple[int, int]
"""A modulus and a residue; modulus 0 and a partition for what holds no keys."""


def roots(initial_count: int, segments: Sequence[tuple[int, int]]) -> list[Root]:
    """For each segment the root of its tree: those with the same one are connected by keys, through each other.

    :param initial_count: the partition count the topic began with.
    :param segments: (partition, partition count of the layout that it was written under). A partition outside its layout
        holds no keys: it is a tree of its own, together with all others of that partition.
    :raises ConfigError: a count is out of range or a partition negative.
    """
    held = [_held(initial_count, partition, count) for partition, count in segments]
    present = frozenset(held)
    return [_highest(initial_count, one, present) for one in held]


def _held(initial_count: int, partition: int, count: int) -> Root:
    if partition >= count:
        return 0, partition
    return modulus(partition, initial_count, count), partition


def _highest(initial_count: int, held: Root, present: Collection[Root]) -> Root:
    """The widest of those present that ``held`` lies under, itself if there is none."""
    narrowest, residue = held
    wide = initial_count
    while wide < narrowest:
        if (wide, residue % wide) in present:
            return wide, residue % wide
        wide *= 2
    return held
