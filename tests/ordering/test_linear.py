from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.ordering import bucket, buckets, modulus, overlaps
from tests.properties.model import hashes_of, split_bucket, universe
from tests.seeds import examples

INITIAL = st.integers(1, 7)
ADDED = st.integers(0, 40)


def test_samples() -> None:
    assert [bucket(h, 2, 5) for h in range(8)] == [0, 1, 2, 3, 4, 1, 2, 3]
    assert [bucket(h, 3, 7) for h in range(12)] == [0, 1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5]


def test_initial_count_is_plain_remainder() -> None:
    """An existing topic can be adopted without moving a key."""
    assert [bucket(h, 6, 6) for h in range(100)] == [h % 6 for h in range(100)]


@given(st.integers(0, 2**32 - 1), INITIAL, ADDED)
def test_bucket_agrees_with_splitting_one_by_one(hash_: int, initial: int, added: int) -> None:
    assert bucket(hash_, initial, initial + added) == split_bucket(hash_, initial, initial + added)


@given(st.lists(st.integers(0, 2**32 - 1)), st.integers(1, 2**20), st.integers(0, 2**20))
def test_buckets_agree_with_bucket(hashes: list[int], initial: int, added: int) -> None:
    for dtype in (np.uint32, np.int64):
        found = buckets(np.array(hashes, dtype=dtype), initial, initial + added)
        assert found.dtype == np.int32
        assert found.tolist() == [bucket(h, initial, initial + added) for h in hashes]


def test_the_largest_hash_and_count() -> None:
    largest = 2**31 - 1
    assert bucket(2**32 - 1, 1, largest) == 2**31 - 1 - 2**30
    assert buckets(np.array([2**32 - 1], dtype=np.uint32), 1, largest).tolist() == [2**31 - 1 - 2**30]


@given(INITIAL, ADDED)
def test_modulus_describes_exactly_the_hashes_of_a_partition(initial: int, added: int) -> None:
    count = initial + added
    hashes = universe(initial, count)
    for partition in range(count):
        expected = {h for h in range(hashes) if h % modulus(partition, initial, count) == partition}
        assert hashes_of(partition, initial, count, hashes) == expected


@settings(max_examples=examples(1000))
@given(INITIAL, ADDED, ADDED, st.floats(0, 1), st.floats(0, 1))
def test_overlap_agrees_with_trying_all_hashes(
    initial: int, added_p: int, added_q: int, at_p: float, at_q: float
) -> None:
    count_p, count_q = initial + added_p, initial + added_q
    p, q = int(at_p * (count_p - 1)), int(at_q * (count_q - 1))
    hashes = universe(initial, count_p, count_q)
    common = hashes_of(p, initial, count_p, hashes) & hashes_of(q, initial, count_q, hashes)
    assert overlaps(p, count_p, q, count_q, initial) == bool(common)
    assert overlaps(q, count_q, p, count_p, initial) == bool(common)


@given(INITIAL, ADDED)
def test_adding_splits_exactly_one_and_removing_merges_into_exactly_one(initial: int, added: int) -> None:
    count = initial + added
    hashes = range(2 * universe(initial, count + 1))
    moved = [(bucket(h, initial, count), bucket(h, initial, count + 1)) for h in hashes]
    changed = {(before, after) for before, after in moved if before != after}
    assert len(changed) == 1
    assert {after for _, after in changed} == {count}


@given(INITIAL, ADDED, ADDED, st.integers(0, 2**32 - 1))
def test_keys_never_move_between_partitions_that_exist_before_and_after(
    initial: int, added_before: int, added_after: int, hash_: int
) -> None:
    count_before, count_after = initial + added_before, initial + added_after
    before, after = bucket(hash_, initial, count_before), bucket(hash_, initial, count_after)
    assert before == after or max(before, after) >= min(count_before, count_after)


def test_a_partition_outside_its_layout_overlaps_nothing() -> None:
    assert not overlaps(4, 4, 0, 2, 2)
    assert not overlaps(0, 4, 2, 2, 2)


def test_bad_counts_and_partitions_are_named() -> None:
    with pytest.raises(ConfigError, match="initial_partition_count has the value 0"):
        bucket(1, 0, 4)
    with pytest.raises(
        ConfigError, match=r"undeleted_partition_count has the value 1.*at least the initial count, 2"
    ):
        buckets(np.array([1]), 2, 1)
    with pytest.raises(ConfigError, match="hash has the value -1"):
        bucket(-1, 1, 1)
    with pytest.raises(ConfigError, match="hash has the value -5"):
        buckets(np.array([3, -5]), 1, 1)
    with pytest.raises(ConfigError, match="partition has the value 4: must be from 0 to 3"):
        modulus(4, 2, 4)
    with pytest.raises(ConfigError, match="q has the value -1"):
        overlaps(0, 2, -1, 2, 2)
    with pytest.raises(ConfigError, match="undeleted_partition_count has the value 1"):
        overlaps(0, 2, 3, 1, 2)
