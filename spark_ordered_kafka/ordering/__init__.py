"""Order of keys across partition counts, as pure functions over plain values: no I/O, no clock, no state."""

from spark_ordered_kafka.ordering.gate import blockers, readable
from spark_ordered_kafka.ordering.hashing import HASH_NAMES, key_hash, key_hashes
from spark_ordered_kafka.ordering.layout import Layout, LayoutHistory
from spark_ordered_kafka.ordering.linear import bucket, buckets, modulus, overlaps
from spark_ordered_kafka.ordering.tombstones import TombstoneTargets, tombstone_targets, vacated

__all__ = [
    "HASH_NAMES",
    "Layout",
    "LayoutHistory",
    "TombstoneTargets",
    "blockers",
    "bucket",
    "buckets",
    "key_hash",
    "key_hashes",
    "modulus",
    "overlaps",
    "readable",
    "tombstone_targets",
    "vacated",
]
