"""Placement for random clusters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_ordered_kafka.controller.placement.place import continue_placement, place, place_again
from spark_ordered_kafka.controller.placement.planner.additional_replicas import add_replicas
from spark_ordered_kafka.errors import ErrorCode, RequestError
from tests.properties.placement_model import possible, possible_placement, round_robin

Cluster = tuple[dict[int, str | None], int]
Replicas = Mapping[int, Sequence[int]]


@st.composite
def clusters(draw: st.DrawFn, most: int = 9, racked: bool | None = None) -> Cluster:
    """Racks by broker, and a replication factor."""
    ids = draw(st.lists(st.integers(0, 50), min_size=1, max_size=most, unique=True))
    if racked is None:
        racked = draw(st.booleans())
    racks = {broker: draw(st.sampled_from("abcd")) if racked else None for broker in ids}
    return racks, draw(st.integers(1, len(ids)))


@given(clusters(), st.integers(1, 40), st.integers(0, 8))
def test_every_assignment_is_sound_and_spread(cluster: Cluster, partitions: int, start: int) -> None:
    racks, factor = cluster
    placed = place(racks, partitions, factor, start=start)
    assert placed == place(dict(reversed(racks.items())), partitions, factor, start=start)
    for replicas in placed:
        assert len(set(replicas)) == factor
        assert set(replicas) <= set(racks)
        used = {racks[broker] for broker in replicas}
        assert len(used) == min(factor, len(set(racks.values())))
    leaders = Counter(replicas[0] for replicas in placed)
    counts = [leaders[broker] for broker in racks]
    assert max(counts) - min(counts) <= 1


@given(clusters(), st.integers(1, 20), st.integers(1, 20), st.integers(0, 8))
def test_growing_is_the_same_as_creating_at_once(
    cluster: Cluster, before: int, more: int, start: int
) -> None:
    racks, factor = cluster
    start %= len(racks)
    whole = place(racks, before + more, factor, start=start)
    existing = dict(enumerate(place(racks, before, factor, start=start)))
    assert continue_placement(racks, existing, more) == whole[before:]


@given(clusters(most=40), st.integers(1, 60), st.integers(0, 200), st.integers(0, 40), st.data())
def test_kafkas_round_robin_wherever_it_gets_through(
    cluster: Cluster, partitions: int, first: int, start: int, data: st.DataObject
) -> None:
    racks, factor = cluster
    rooms = st.one_of(st.just(0), st.integers(1, 60), st.just(1000))
    capacity = {broker: data.draw(rooms) for broker in racks}
    expected = round_robin(racks, partitions, factor, first, start, capacity)
    if expected is None:
        return
    names = {racks[broker] for broker in racks if capacity[broker] > 0}
    everywhere = all(len({racks[b] for b in r}) == min(factor, len(names)) for r in expected)
    placed = place(racks, partitions, factor, first=first, start=start, capacity=capacity)
    if everywhere or factor > len(names):
        assert placed == expected
    else:
        # It ran out of racks; here that is seen ahead, so that racks are used where it does not matter otherwise.
        spread = [sum(len({racks[b] for b in r}) for r in rows) for rows in (placed, expected)]
        assert placed == expected or spread[0] > spread[1]


@given(clusters(most=5), st.integers(1, 5), st.integers(0, 5), st.data())
def test_what_fits_is_placed_and_what_does_not_is_refused(
    cluster: Cluster, partitions: int, start: int, data: st.DataObject
) -> None:
    racks, factor = cluster
    capacity = {broker: data.draw(st.integers(0, partitions + 1)) for broker in racks}
    rooms = list(capacity.values())
    if not possible_placement(racks, partitions, factor, rooms, spread=False):
        with pytest.raises(RequestError) as raised:
            place(racks, partitions, factor, start=start, capacity=capacity)
        assert raised.value.code == ErrorCode.GUARD_RAILS
        return
    placed = place(racks, partitions, factor, start=start, capacity=capacity)
    assert [len(set(replicas)) for replicas in placed] == [factor] * partitions
    used = Counter(broker for replicas in placed for broker in replicas)
    assert all(used[broker] <= room for broker, room in capacity.items())
    usable = {racks[broker] for broker in racks if capacity[broker] > 0}
    if None not in usable and possible_placement(racks, partitions, factor, rooms, spread=True):
        assert all(len({racks[broker] for broker in replicas}) == factor for replicas in placed)


@pytest.mark.long
@given(clusters(most=12), st.integers(1, 80), st.data())
def test_capacity_that_just_suffices(cluster: Cluster, partitions: int, data: st.DataObject) -> None:
    """As many replicas as there is capacity, dealt out at random: nothing may be wasted."""
    racks, factor = cluster
    capacity = dict.fromkeys(racks, 0)
    for _ in range(partitions):
        for broker in data.draw(st.permutations(sorted(racks)))[:factor]:
            capacity[broker] += 1
    placed = place(racks, partitions, factor, capacity=capacity)
    assert Counter(broker for replicas in placed for broker in replicas) == Counter(capacity)
    assert all(len(set(replicas)) == factor for replicas in placed)


def fits(current: Replicas, target: Replicas, capacity: Mapping[int, int]) -> bool:
    gained = Counter(b for p, replicas in target.items() for b in replicas if b not in current[p])
    return all(gained[broker] <= capacity[broker] for broker in gained)


def possible_widening(
    racks: Mapping[int, str | None], current: Replicas, factor: int, capacity: Mapping[int, int]
) -> bool:
    brokers = sorted(racks)
    choices = []
    for replicas in current.values():
        others = [i for i, broker in enumerate(brokers) if broker not in replicas]
        choices.append(list(combinations(others, factor - len(replicas))))
    return possible([capacity[broker] for broker in brokers], choices)


@given(clusters(most=5), st.data())
def test_replicas_are_added_wherever_that_fits(cluster: Cluster, data: st.DataObject) -> None:
    racks, factor = cluster
    lists = st.lists(st.sampled_from([*sorted(racks), 99]), min_size=1, max_size=factor, unique=True)
    current = {p: data.draw(lists) for p in range(data.draw(st.integers(1, 4)))}
    capacity = {broker: data.draw(st.integers(0, 3)) for broker in racks}
    if not possible_widening(racks, current, factor, capacity):
        with pytest.raises(RequestError) as raised:
            add_replicas(racks, current, factor, capacity=capacity)
        assert raised.value.code == ErrorCode.GUARD_RAILS
        return
    widened = add_replicas(racks, current, factor, capacity=capacity)
    for partition, replicas in current.items():
        assert widened[partition][: len(replicas)] == replicas
        assert len(set(widened[partition])) == factor
    assert fits(current, widened, capacity)


@given(clusters(most=8, racked=True), st.integers(1, 12))
def test_replicas_are_added_on_other_racks_and_evenly(cluster: Cluster, partitions: int) -> None:
    racks, factor = cluster
    brokers = sorted(racks)
    current = {p: [brokers[p % len(brokers)]] for p in range(partitions)}
    widened = add_replicas(racks, current, factor)
    everywhere = min(factor, len(set(racks.values())))
    assert all(len({racks[broker] for broker in replicas}) == everywhere for replicas in widened.values())
    if len(set(racks.values())) == 1 and partitions % len(brokers) == 0:
        used = Counter(broker for replicas in widened.values() for broker in replicas)
        # Not 1: the last partitions may be on the very brokers whose turn it is.
        assert max(used.values()) - min(used.values()) <= 2


@given(clusters(most=5), st.integers(2, 12), st.integers(1, 4), st.data())
def test_taking_up_again_keeps_to_the_capacity(
    cluster: Cluster, count: int, taken: int, data: st.DataObject
) -> None:
    racks, factor = cluster
    whole = place(racks, count + taken, factor)
    current = {p: whole[p][-1:] for p in range(count, count + taken)}
    capacity = {broker: data.draw(st.integers(0, 4)) for broker in racks}
    round_robins = {p: whole[p] for p in current}
    assert place_again(racks, whole[0], current) == round_robins
    if fits(current, round_robins, capacity):
        assert place_again(racks, whole[0], current, capacity=capacity) == round_robins
    elif possible_widening(racks, current, factor, capacity):
        again = place_again(racks, whole[0], current, capacity=capacity)
        assert all(set(current[p]) <= set(replicas) for p, replicas in again.items())
        assert fits(current, again, capacity)
    else:
        with pytest.raises(RequestError) as raised:
            place_again(racks, whole[0], current, capacity=capacity)
        assert raised.value.code == ErrorCode.GUARD_RAILS
