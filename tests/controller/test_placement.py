"""Placement of replicas on brokers."""

from __future__ import annotations

import pytest

from spark_ordered_kafka.controller.placement import continue_placement, place
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
        (1, 0, None, ErrorCode.INVALID_REPLICATION_FACTOR, "value 0"),
        (1, 6, None, ErrorCode.INVALID_REPLICATION_FACTOR, "between 1 and 5"),
        (3, 1, dict.fromkeys(range(5), 0) | {2: 2}, ErrorCode.GUARD_RAILS, "broker 2: 2"),
    ],
)
def test_refusals(
    partitions: int, factor: int, capacity: dict[int, int] | None, code: ErrorCode, words: str
) -> None:
    with pytest.raises(RequestError, match=words) as raised:
        place(NO_RACKS, partitions, factor, capacity=capacity)
    assert raised.value.code == code
