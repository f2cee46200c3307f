"""Placement of replicas on brokers."""

from __future__ import annotations

from collections import Counter

import pytest

from spark_ordered_kafka.controller.placement.place import continue_placement, place, place_again
from spark_ordered_kafka.controller.placement.planner.additional_replicas import add_replicas
from spark_ordered_kafka.controller.placement.round_robin import Ring
from spark_ordered_kafka.errors import ErrorCode, RequestError

NO_RACKS: dict[int, str | None] = dict.fromkeys(range(5))


def test_round_robin_as_in_kafkas_documentation() -> None:
    # The example of AdminUtils.assignReplicasToBrokers: 5 brokers, 10 partitions, replication factor 3.
    assert place(NO_RACKS, 10, 3) == [
        [0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 0], [4, 0, 1],
        [0, 2, 3], [1, 3, 4], [2, 4, 0], [3, 0, 1], [4, 1, 2],
    ]  # fmt: skip


def test_racks_alternate_as_in_kip_36() -> None:
    racks: dict[int, str | None] = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}
    # The example of the KIP: leaders go round 0, 3, 1, 5, 4, 2.
    assert [replicas[0] for replicas in place(racks, 6, 3)] == [0, 3, 1, 5, 4, 2]
    for replicas in place(racks, 12, 3):
        assert {racks[broker] for broker in replicas} == {"rack1", "rack2", "rack3"}


def test_expansion_goes_on_where_the_topic_ends() -> None:
    whole = place(NO_RACKS, 9, 2, start=3)
    first = dict(enumerate(place(NO_RACKS, 4, 2, start=3)))
    assert continue_placement(NO_RACKS, first, 5) == whole[4:]


def test_expansion_when_the_first_leader_is_gone() -> None:
    placed = continue_placement({1: None, 2: None}, {0: [9, 1]}, 2)
    assert [sorted(replicas) for replicas in placed] == [[1, 2], [1, 2]]


def test_brokers_without_capacity_are_left_out() -> None:
    placed = place(NO_RACKS, 6, 2, capacity={0: 0, 1: 1})
    used = [broker for replicas in placed for broker in replicas]
    assert 0 not in used
    assert used.count(1) <= 1


@pytest.mark.parametrize(
    ("partitions", "factor", "capacity", "code", "words"),
    [
        (0, 1, None, ErrorCode.INVALID_PARTITIONS, "value 0"),
        (-1, 1, None, ErrorCode.INVALID_PARTITIONS, "value -1"),
        (2**31, 1, None, ErrorCode.INVALID_PARTITIONS, "200000 at most"),
        (3, 3, dict.fromkeys(range(5), 0), ErrorCode.GUARD_RAILS, "{0: 0, 1: 0, 2: 0, 3: 0, 4: 0}"),
        (2, 3, {0: -5, 1: 1, 2: 1, 3: 1, 4: 2}, ErrorCode.GUARD_RAILS, "{0: 0, 1: 1, 2: 1, 3: 1, 4: 2}"),
        (1, 0, None, ErrorCode.INVALID_REPLICATION_FACTOR, "value 0"),
        (1, 6, None, ErrorCode.INVALID_REPLICATION_FACTOR, "between 1 and 5"),
        (3, 1, dict.fromkeys(range(5), 0) | {2: 2}, ErrorCode.GUARD_RAILS, "2: 2"),
    ],
)
def test_refusals(
    partitions: int, factor: int, capacity: dict[int, int] | None, code: ErrorCode, words: str
) -> None:
    with pytest.raises(RequestError, match=words) as raised:
        place(NO_RACKS, partitions, factor, capacity=capacity)
    assert raised.value.code == code


def test_the_example_of_kip_578() -> None:
    """Three brokers that may host 10 replicas and host 8, 6 and 9."""
    brokers: dict[int, str | None] = dict.fromkeys((1, 2, 3))
    assert [sorted(r) for r in place(brokers, 1, 3, capacity={1: 2, 2: 4, 3: 1})] == [[1, 2, 3]]
    with pytest.raises(RequestError, match=r"\{1: 1, 2: 3, 3: 0\}"):
        place(brokers, 1, 3, capacity={1: 1, 2: 3, 3: 0})
    assert [sorted(r) for r in place(brokers, 1, 2, capacity={1: 1, 2: 3, 3: 0})] == [[1, 2]]
    with pytest.raises(RequestError, match="2 partitions with replication factor 3"):
        place(brokers, 2, 3, capacity={1: 2, 2: 4, 3: 1})


def test_the_round_robin_is_left_where_it_would_get_stuck() -> None:
    # It would begin with 0 and 1, and then have 2 alone for a partition with two replicas.
    placed = place({0: None, 1: None, 2: None}, 2, 2, capacity={0: 1, 1: 1, 2: 2})
    assert [sorted(replicas) for replicas in placed] == [[0, 2], [1, 2]]


def test_racks_are_not_used_up_early() -> None:
    racks: dict[int, str | None] = {0: "a", 1: "b", 2: "c", 3: "a"}
    for replicas in place(racks, 10, 2, capacity={0: 5, 1: 5, 2: 5, 3: 5}):
        assert len({racks[broker] for broker in replicas}) == 2


def test_a_broker_without_rack_and_without_capacity_does_not_hide_the_racks() -> None:
    racks: dict[int, str | None] = {0: "a", 1: "a", 2: "b", 3: None}
    for replicas in place(racks, 6, 2, capacity={3: 0}):
        assert 2 in replicas


def test_a_large_cluster_is_used_to_the_last_replica() -> None:
    racks: dict[int, str | None] = {broker: f"rack-{broker % 4}" for broker in range(1000)}
    placed = place(racks, 20_000, 3, capacity=dict.fromkeys(racks, 60))
    assert Counter(broker for replicas in placed for broker in replicas) == dict.fromkeys(racks, 60)
    assert all(len({racks[broker] for broker in replicas}) == 3 for replicas in placed)


def test_brokers_that_take_part_in_every_partition_lead_no_more_than_others() -> None:
    capacity = {0: 60, 1: 60, **dict.fromkeys(range(2, 12), 6)}
    placed = place(dict.fromkeys(capacity), 60, 3, capacity=capacity)
    assert Counter(broker for replicas in placed for broker in replicas) == capacity
    led = Counter(replicas[0] for replicas in placed)
    assert {led[broker] for broker in capacity} <= {4, 5, 6}


def test_replicas_make_way_for_each_other() -> None:
    # Partition 0 would take broker 1, the first with room, and partition 1 could take no other.
    brokers: dict[int, str | None] = dict.fromkeys((1, 2, 3))
    widened = add_replicas(brokers, {0: [3], 1: [2]}, 2, capacity={1: 1, 2: 1, 3: 0})
    assert widened == {0: [3, 2], 1: [2, 1]}


def test_replicas_on_brokers_that_are_gone_are_replaced() -> None:
    racks: dict[int, str | None] = {1: "a", 2: "a", 3: "b"}
    # The round robin would have broker 2, which is full.
    assert place_again(racks, [1, 3], {1: [9, 1]}, capacity={2: 0}) == {1: [1, 3]}


def test_a_ring_with_too_few_brokers_ends() -> None:
    with pytest.raises(ValueError, match="3 replicas cannot be on different ones of 2 brokers"):
        Ring({1: None, 2: None}).replicas(0, 3, 0)


def test_neighbours_that_must_all_be_used_do_not_hold_the_walk_up() -> None:
    # Six of eight have nothing to spare, so that both partitions must use them; the seventh replica lies behind them.
    capacity = {0: 2, 1: 2, 2: 2, 3: 2, 4: 2, 5: 1, 6: 1, 7: 2}
    placed = place(dict.fromkeys(range(8)), 2, 7, capacity=capacity)
    assert Counter(broker for replicas in placed for broker in replicas) == capacity
