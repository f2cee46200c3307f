"""Where keys need tombstones: small cases by hand."""

from __future__ import annotations

import numpy as np
import pytest

from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.ordering import tombstone_targets, vacated


def pairs(*arguments: object, hashes: list[int]) -> list[tuple[int, int]]:
    targets = tombstone_targets(*arguments)  # type: ignore[arg-type]
    rows, partitions = targets.pairs(np.array(hashes, dtype=np.uint32))
    owing = targets.owing(np.array(hashes, dtype=np.uint32))
    assert set(np.flatnonzero(owing).tolist()) == set(rows.tolist())
    return list(zip(rows.tolist(), partitions.tolist(), strict=True))


def test_a_split_owes_its_parent() -> None:
    # Two partitions became three: partition 0 gave the hashes of remainder 2 (modulo 4) to partition 2.
    assert pairs(2, 3, [(2, [10, 10])], {0: 0, 1: 0}, hashes=[0, 1, 2, 3, 6]) == [(2, 0), (4, 0)]


def test_a_merge_owes_what_was_removed() -> None:
    assert pairs(2, 2, [(4, [5, 5, 5, 5])], {}, hashes=[0, 1, 2, 3]) == [(2, 2), (3, 3)]


@pytest.mark.parametrize(("log_start", "owed"), [(9, [(0, 0)]), (10, []), (11, [])])
def test_nothing_is_owed_where_the_log_begins_behind_the_old_records(
    log_start: int, owed: list[tuple[int, int]]
) -> None:
    assert pairs(1, 2, [(1, [10])], {0: log_start}, hashes=[1]) == owed


def test_several_changes_owe_each_partition_once_in_order() -> None:
    # Hash 7 was in 0 of 1, in 1 of 2 and of 3 (7 mod 4 = 3, minus 2), and is in 3 of 4 now.
    earlier = [(3, [9, 9, 9]), (2, [5, 5]), (1, [3])]
    assert pairs(1, 4, earlier, {}, hashes=[7, 7]) == [(0, 0), (1, 0), (0, 1), (1, 1)]


def test_nothing_is_owed_without_earlier_layouts_or_under_the_same_count() -> None:
    cases: list[list[tuple[int, list[int]]]] = [[], [(4, [9, 9, 9, 9])], [(2, [0, 0])], [(2, [])]]
    for earlier in cases:
        targets = tombstone_targets(2, 4, earlier, {})
        assert targets.empty
        rows, partitions = targets.pairs(np.array([0, 1, 2**32 - 1], dtype=np.uint32))
        assert rows.size == partitions.size == 0


def test_no_keys() -> None:
    assert pairs(1, 2, [(1, [10])], {}, hashes=[]) == []


def test_vacated() -> None:
    assert vacated(2, 2, 3).tolist() == [True, False]
    assert vacated(2, 3, 2).tolist() == [False, False, True]
    assert vacated(2, 4, 4).tolist() == [False] * 4


@pytest.mark.parametrize(("initial", "count", "earlier"), [(0, 1, 1), (3, 2, 3), (3, 3, 2)])
def test_a_wrong_count_is_named(initial: int, count: int, earlier: int) -> None:
    with pytest.raises(ConfigError, match="partition_count"):
        tombstone_targets(initial, count, [(earlier, [1])], {})
