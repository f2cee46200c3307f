"""The gate's rule, one situation at a time; the brute-force comparison is in tests/properties."""

from __future__ import annotations

import pytest

from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.ordering import Layout, LayoutHistory, blockers, readable


def history(initial: int, *layouts: tuple[int, list[int]]) -> LayoutHistory:
    return LayoutHistory(initial, [Layout(e, count, starts) for e, (count, starts) in enumerate(layouts)])


def test_without_a_change_everything_is_readable() -> None:
    once = history(2, (2, [0, 0]))
    assert readable(once, {0: 3}, {0: 9, 1: 4}) == {0: 9, 1: 4}
    assert blockers(once, {0: 3, 1: 0}) == {}


def test_a_split_child_waits_for_its_parents_tail() -> None:
    split = history(1, (1, [0]), (2, [10, 0]))
    assert readable(split, {0: 9, 1: 0}, {0: 30, 1: 5}) == {0: 30, 1: 0}
    assert blockers(split, {0: 9, 1: 0}) == {1: [(0, 10)]}
    assert readable(split, {0: 10, 1: 0}, {0: 30, 1: 5}) == {0: 30, 1: 5}
    assert blockers(split, {0: 10, 1: 0}) == {}


def test_a_batch_does_not_count_on_what_the_same_batch_reads_elsewhere() -> None:
    split = history(1, (1, [0]), (2, [10, 0]))
    assert readable(split, {0: 0, 1: 0}, {0: 10, 1: 5})[1] == 0


def test_a_grandchild_of_an_empty_parent_waits_for_the_grandparent() -> None:
    """N=1, grow to 2, nothing written to partition 1, grow to 4: partition 3's parent has nothing to wait for."""
    grown = history(1, (1, [0]), (2, [10, 0]), (4, [15, 0, 0, 0]))
    ends = {0: 20, 1: 5, 2: 5, 3: 5}
    assert readable(grown, dict.fromkeys(range(4), 0), ends) == {0: 20, 1: 0, 2: 0, 3: 0}
    assert blockers(grown, dict.fromkeys(range(4), 0)) == {1: [(0, 10)], 2: [(0, 15)], 3: [(0, 10)]}
    assert readable(grown, {0: 10, 1: 0, 2: 0, 3: 0}, ends) == {0: 20, 1: 5, 2: 0, 3: 5}


def test_a_merge_target_reads_its_own_tail_then_waits_for_the_removed_partition() -> None:
    merged = history(2, (2, [0, 0]), (3, [5, 5]), (2, [10, 10, 10]))
    positions, ends = {0: 0, 1: 10, 2: 0}, {0: 30, 1: 30, 2: 10}
    assert readable(merged, positions, ends) == {0: 10, 1: 30, 2: 0}
    assert blockers(merged, positions) == {2: [(0, 5)]}
    assert readable(merged, {**positions, 0: 10}, ends) == {0: 10, 1: 30, 2: 10}
    assert blockers(merged, {**positions, 0: 10}) == {0: [(2, 10)]}
    assert readable(merged, {0: 10, 1: 10, 2: 10}, ends) == {0: 30, 1: 30, 2: 10}


def test_a_reused_partition_starts_a_new_life() -> None:
    """Partition 1 is added, removed and added again; its second life waits for what its keys did in between."""
    reused = history(1, (1, [0]), (2, [10, 0]), (1, [20, 5]), (2, [30, 5]))
    ends = {0: 40, 1: 9}
    assert readable(reused, {0: 10, 1: 0}, ends) == {0: 20, 1: 5}
    assert blockers(reused, {0: 20, 1: 5}) == {1: [(0, 30)]}
    assert readable(reused, {0: 20, 1: 5}, ends) == {0: 40, 1: 5}
    assert readable(reused, {0: 30, 1: 5}, ends) == {0: 40, 1: 9}


def test_retention_that_removed_a_tail_satisfies_the_gate() -> None:
    split = history(1, (1, [0]), (2, [10, 0]))
    assert readable(split, {0: 25, 1: 0}, {0: 30, 1: 5}) == {0: 30, 1: 5}


def test_retention_of_a_child_does_not_skip_its_gate() -> None:
    split = history(1, (1, [0]), (2, [10, 0]))
    assert readable(split, {0: 0, 1: 3}, {0: 30, 1: 5}) == {0: 30, 1: 3}
    assert blockers(split, {0: 0, 1: 3}) == {1: [(0, 10)]}


def test_a_removed_partition_blocks_nobody_through_epochs_it_is_not_in() -> None:
    """Offsets 5 to 8 of partition 1 were written after its removal, by something else."""
    foreign = history(1, (2, [0, 0]), (1, [10, 5]), (2, [20, 8]))
    positions = {0: 20, 1: 5}
    assert blockers(foreign, positions) == {}
    assert readable(foreign, positions, {0: 25, 1: 12}) == {0: 25, 1: 12}


def test_what_lies_outside_the_newest_layout_waits_for_nothing() -> None:
    """Partition 1 was removed at 5, partition 2 never in a layout; partition 9 is one the history does not know."""
    shrunk = history(1, (1, [0]), (2, [10, 0]), (1, [20, 5, 0]))
    ends = {0: 30, 1: 7, 2: 4, 9: 2}
    assert readable(shrunk, {0: 20, 1: 0}, ends) == {0: 20, 1: 7, 2: 4, 9: 0}
    assert readable(shrunk, {0: 20, 1: 6, 2: 1, 9: 1}, ends) == {0: 30, 1: 7, 2: 4, 9: 1}
    assert blockers(shrunk, {0: 20, 1: 6, 2: 1, 9: 1}) == {}


def test_a_partition_without_a_position_blocks() -> None:
    split = history(1, (1, [0]), (2, [10, 0]))
    assert readable(split, {}, {1: 5}) == {1: 0}
    assert blockers(split, {1: 2}) == {1: [(0, 10)]}


def test_an_end_below_the_position_is_no_progress() -> None:
    assert readable(history(1, (1, [0])), {0: 8}, {0: 3}) == {0: 8}


def test_nothing_in_nothing_out() -> None:
    split = history(1, (1, [0]), (2, [10, 0]))
    assert readable(split, {}, {}) == {}
    assert blockers(split, {}) == {}


def test_answers_are_plain_integers_and_arguments_stay_as_they_are() -> None:
    split = history(1, (1, [0]), (2, [10, 0]))
    positions, ends = {0: 4, 1: 0}, {0: 30, 1: 5}
    found, waiting = readable(split, positions, ends), blockers(split, positions)
    assert {type(n) for item in found.items() for n in item} == {int}
    assert {type(n) for partition, pairs in waiting.items() for n in (partition, *pairs[0])} == {int}
    assert (positions, ends) == ({0: 4, 1: 0}, {0: 30, 1: 5})
    assert split.bounds[:, 0].tolist()[:2] == [0, 10]


def test_kafkas_markers_for_earliest_and_latest_are_no_offsets() -> None:
    split = history(1, (1, [0]), (2, [10, 0]))
    with pytest.raises(ConfigError, match=r"positions\[1\] has the value -2"):
        readable(split, {0: 0, 1: -2}, {0: 1})
    with pytest.raises(ConfigError, match=r"ends\[0\] has the value -1"):
        readable(split, {0: 0}, {0: -1})
    with pytest.raises(ConfigError, match=r"positions\[-1\]"):
        blockers(split, {-1: 5})
