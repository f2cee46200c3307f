"""Guard rails: what a broker may still take, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from spark_ordered_kafka.controller.placement.guards import added, capacities, check, hosted, refusal, shown
from spark_ordered_kafka.errors import ErrorCode, RequestError


def test_capacity_is_what_the_limit_leaves_and_never_negative() -> None:
    limits = {1: 10, 2: 10, 3: 10, 4: 0, 5: 2**31 - 1}
    assert capacities(limits, {1: 8, 2: 10, 3: 13, 9: 4}) == {1: 2, 2: 0, 3: 0, 4: 0, 5: 2**31 - 1}


def test_replicas_are_counted_by_broker() -> None:
    assert hosted([(1, 2), (2, 3), (2,)]) == {1: 1, 2: 3, 3: 1}


@pytest.mark.parametrize(
    ("current", "target", "gained"),
    [
        ({}, {0: [1, 2], 1: [2, 1]}, {1: 2, 2: 2}),
        ({0: (1, 2)}, {0: [2, 1]}, {}),
        ({0: (1, 2)}, {0: [1]}, {}),
        ({0: (1, 2)}, {0: [1, 3]}, {3: 1}),
        # Both move one to the other: meanwhile each has both.
        ({0: (1,), 1: (2,)}, {0: [2], 1: [1]}, {1: 1, 2: 1}),
        # Being moved from 2 to 3 already: it counts on both, and goes on to 4.
        ({0: (1, 2, 3)}, {0: [1, 4]}, {4: 1}),
        ({0: (1, 2), 1: (1, 2)}, {1: [3, 4]}, {3: 1, 4: 1}),
    ],
)
def test_replicas_that_are_added(
    current: Mapping[int, Sequence[int]], target: Mapping[int, Sequence[int]], gained: Mapping[int, int]
) -> None:
    assert added(current, target) == gained


def test_what_fits_exactly_passes_and_brokers_without_a_limit_take_anything() -> None:
    check("topic 't'", {1: 2, 2: 0, 7: 10**6}, {1: 2, 2: 0})


def test_a_refusal_names_what_lacks_and_all_capacities() -> None:
    with pytest.raises(RequestError) as raised:
        check("topic 't'", {1: 3, 2: 1, 3: 1}, {1: 2, 2: 4, 3: 0})
    assert raised.value.code == ErrorCode.GUARD_RAILS
    assert raised.value.message == (
        "topic 't': broker 1 would take 3 more, broker 3 would take 1 more: this does not fit the brokers' capacity "
        "for replicas, which is {1: 2, 2: 4, 3: 0}"
    )


def test_the_map_of_a_large_cluster_is_shortened() -> None:
    capacity = {broker: broker % 3 for broker in range(1000)}
    text = shown(capacity, [999, 0])
    assert text.startswith("{999: 0, 0: 0, 2: 2, 5: 2, ")
    assert text.endswith("980 more} (666 of 1000 brokers have any, 999 together)")
    assert text.count(":") == 20
    assert len(refusal("x", dict.fromkeys(range(1000), 2**31 - 1)).message) < 600


def test_the_brokers_that_lack_capacity_are_shortened_too() -> None:
    with pytest.raises(RequestError, match="and 980 more brokers too many") as raised:
        check("x", dict.fromkeys(range(1000), 1), dict.fromkeys(range(1000), 0))
    assert len(raised.value.message) < 1200
