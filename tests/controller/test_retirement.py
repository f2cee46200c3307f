"""What becomes of removed partitions: their status, who waits for them, their replicas."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_ordered_kafka.controller.placement.place import continue_placement, place_again
from spark_ordered_kafka.controller.topics.retired_replicas import reduced, staying
from spark_ordered_kafka.controller.topics.retirement import new_statuses
from spark_ordered_kafka.controller.topics.unread_groups import unread_groups
from spark_ordered_kafka.kafka.values import PartitionDescription, Reassignment, TopicDescription


def test_removed_partition_is_deleted_once_it_is_empty_and_marked_again_when_it_is_not() -> None:
    assert new_statuses(1, {1: "marked", 2: "marked"}, {1: (0, 5), 2: (5, 5)}) == {2: "deleted"}
    assert new_statuses(1, {1: "deleted", 2: "deleted"}, {1: (0, 5), 2: (5, 5)}) == {1: "marked"}


def test_partition_without_a_record_gets_one() -> None:
    assert new_statuses(1, {}, {1: (0, 0), 2: (0, 3)}) == {1: "deleted", 2: "marked"}


def test_live_partitions_are_never_given_a_status() -> None:
    assert new_statuses(3, {2: "deleted"}, {0: (0, 0), 2: (0, 9), 3: (7, 7)}) == {3: "deleted"}


def ask(records: Mapping[int, set[int]], asked: list[Mapping[int, tuple[int, int]]]):  # type: ignore[no-untyped-def]
    def holds_records(ranges: Mapping[int, tuple[int, int]]) -> set[int]:
        asked.append(dict(ranges))
        return {p for p, (start, end) in ranges.items() if records[p] & set(range(start, end))}

    return holds_records


def test_group_that_stopped_before_a_commit_marker_has_read_all() -> None:
    # Records at 0 to 3, a marker at 4.
    committed = {"plain": {2: 4}, "exact": {2: 5}, "slow": {2: 3}, "absent": {0: 7}}
    found = unread_groups({2: (0, 5)}, committed, ask({2: {0, 1, 2, 3}}, []))
    assert found == {2: ["absent", "slow"]}


def test_partition_that_holds_only_control_records_waits_for_nobody() -> None:
    assert unread_groups({2: (3, 5)}, {"absent": {0: 7}}, ask({2: set()}, [])) == {}


def test_all_partitions_are_asked_about_at_once_and_what_follows_is_not_asked() -> None:
    asked: list[Mapping[int, tuple[int, int]]] = []
    committed = {"a": {1: 9, 2: 1}, "b": {1: 4, 2: 0}, "c": {1: 2}, "d": {1: 10, 2: 10}}
    found = unread_groups({1: (0, 10), 2: (0, 10)}, committed, ask({1: {3}, 2: {5}}, asked))
    assert found == {1: ["c"], 2: ["a", "b", "c"]}
    assert asked == [{1: (9, 10), 2: (1, 10)}, {1: (4, 9)}, {1: (2, 4)}]


@given(
    st.sets(st.integers(0, 20)), st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 20), max_size=6)
)
def test_behind_is_whoever_has_a_record_left(records: set[int], offsets: dict[str, int]) -> None:
    start, end = 3, 20
    committed = {group: {5: offset} for group, offset in offsets.items()}
    found = unread_groups({5: (start, end)}, committed, ask({5: records}, []))
    expected = sorted(
        group for group, offset in offsets.items() if records & set(range(max(start, offset), end))
    )
    assert found == ({5: expected} if expected else {})


@pytest.mark.parametrize(
    ("leader", "isr", "factor", "kept"),
    [
        (2, (1, 2, 3), 1, [2]),
        (2, (2, 3), 2, [2, 3]),
        (2, (2,), 2, [2, 1]),
        (2, (1, 2, 3), 3, None),
        (2, (1, 2, 3), 5, None),
        (-1, (), 1, None),
    ],
)
def test_leader_and_replicas_in_sync_are_kept(
    leader: int, isr: tuple[int, ...], factor: int, kept: list[int] | None
) -> None:
    row = PartitionDescription(7, leader, 0, (1, 2, 3), isr)
    assert reduced([row], factor) == ({} if kept is None else {7: kept})


def test_replicas_given_back_are_those_of_the_round_robin() -> None:
    racks: dict[int, str | None] = {1: "a", 2: "b", 3: "a", 4: "b"}
    first = [[1, 2]]
    grown = continue_placement(racks, dict(enumerate(first)), 6)
    assert place_again(racks, first[0], {p: [1] for p in (3, 4, 5)}) == {p: grown[p - 1] for p in (3, 4, 5)}


@pytest.mark.parametrize("shown", [(2, 3), (1, 2, 3), (1,)], ids=["before", "amid", "after"])
def test_what_stays_does_not_depend_on_when_the_topic_was_described(shown: tuple[int, ...]) -> None:
    """One replica of two was taken for the replication factor, or none."""
    topic = TopicDescription("t", "id", False, (PartitionDescription(0, shown[0], 5, shown, shown),))
    going = Reassignment(replicas=(1, 2, 3), adding=(1,), removing=(2, 3))
    assert staying(topic, {0: going}, 0) == [1]
    assert staying(topic, {}, 0) == [*shown]
