"""Replication factors against an oracle that tries every choice of replicas."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_ordered_kafka.controller.placement.planner import Partition
from spark_ordered_kafka.controller.placement.planner.replication_factor import plan_factor
from spark_ordered_kafka.errors import ErrorCode, RequestError

Racks = dict[int, str | None]


@st.composite
def clusters(draw: st.DrawFn, brokers: int = 5) -> Racks:
    count = draw(st.integers(1, brokers))
    ids = draw(st.lists(st.integers(0, 20), min_size=count, max_size=count, unique=True))
    names = st.just(None) if draw(st.booleans()) else st.sampled_from(["a", "b", "c"])
    return {broker: draw(names) for broker in ids}


@st.composite
def topics(draw: st.DrawFn, racks: Racks, partitions: int = 6) -> dict[int, Partition]:
    """Partitions with replicas on these brokers and on one that is down, in sync or not."""
    known = [*racks, 99]
    found = {}
    for partition in range(draw(st.integers(1, partitions))):
        replicas = draw(st.lists(st.sampled_from(known), min_size=1, max_size=len(known), unique=True))
        alive = [broker for broker in replicas if broker != 99]
        in_sync = [broker for broker in alive if draw(st.booleans())]
        leader = draw(st.sampled_from(in_sync)) if in_sync else -1
        found[partition] = Partition("t", partition, tuple(replicas), leader, tuple(in_sync))
    return found


@st.composite
def cases(draw: st.DrawFn) -> tuple[Racks, dict[int, Partition], int]:
    racks = draw(clusters())
    return racks, draw(topics(racks)), draw(st.integers(1, len(racks)))


def spread(replicas: tuple[int, ...] | list[int], racks: Racks) -> int:
    """On how many racks these replicas are; one of a broker that is down counts for itself."""
    return len({racks.get(broker, f"down-{broker}") for broker in replicas})


@given(cases())
def test_what_a_plan_is(case: tuple[Racks, dict[int, Partition], int]) -> None:
    racks, partitions, factor = case
    planned = plan_factor(racks, partitions, factor)
    assert planned == plan_factor(racks, partitions, factor)
    assert planned.keys() == {p for p, held in partitions.items() if len(held.replicas) != factor}
    for partition, replicas in planned.items():
        held = partitions[partition]
        assert len(replicas) == len(set(replicas)) == factor
        if factor > len(held.replicas):
            assert tuple(replicas[: len(held.replicas)]) == held.replicas, "what is there stays, in its order"
            assert set(replicas[len(held.replicas) :]) <= racks.keys(), (
                "nothing goes to a broker that is down"
            )
            continue
        assert set(replicas) <= set(held.replicas), "nothing is moved"
        if held.replicas[0] in held.isr:
            assert replicas[0] == held.replicas[0]
        elif held.leader >= 0:
            assert replicas[0] == held.leader
        # As many as possible of those that stay are in sync, and nobody is kept on a broker that is down but for need.
        kept = len(set(replicas) & set(held.isr))
        forced = replicas[0] not in held.isr
        assert kept == min(factor - forced, len(held.isr))
        rest = [broker for broker in replicas[1:] if broker == 99]
        assert not rest or {*held.replicas} - {99} <= {*replicas}


@given(cases(), st.data())
def test_a_partition_without_a_leader_keeps_a_replica_that_was_in_sync_last(
    case: tuple[Racks, dict[int, Partition], int], data: st.DataObject
) -> None:
    """Its broker is down, most often: no other has all records."""
    racks, partitions, factor = case
    up = data.draw(st.sets(st.sampled_from(sorted(racks)), min_size=factor))
    held = {
        p: replace(one, leader=-1, isr=(data.draw(st.sampled_from(one.replicas)),))
        for p, one in partitions.items()
    }
    planned = plan_factor({broker: racks[broker] for broker in up}, held, factor)
    for partition, replicas in planned.items():
        assert set(held[partition].isr) <= set(replicas)


@given(cases())
def test_replicas_are_spread_over_racks_as_far_as_possible(
    case: tuple[Racks, dict[int, Partition], int],
) -> None:
    racks, partitions, factor = case
    if None in racks.values():
        return
    for partition, replicas in plan_factor(racks, partitions, factor).items():
        held = partitions[partition]
        missing = factor - len(held.replicas)
        if missing > 0:
            free = [broker for broker in racks if broker not in held.replicas]
            best = max(spread([*held.replicas, *more], racks) for more in combinations(free, missing))
        elif set(held.isr) == set(held.replicas):
            rest = held.replicas[1:]
            best = max(spread([held.replicas[0], *some], racks) for some in combinations(rest, factor - 1))
        else:
            continue
        assert spread(replicas, racks) == best, (held, replicas)


@st.composite
def tight_cases(draw: st.DrawFn) -> tuple[Racks, dict[int, Partition], int, dict[int, int]]:
    racks = draw(clusters(brokers=4))
    partitions = draw(topics(racks, partitions=4))
    factor = draw(st.integers(1, len(racks)))
    return racks, partitions, factor, {broker: draw(st.integers(0, 3)) for broker in racks}


def fits(racks: Racks, partitions: dict[int, Partition], factor: int, capacity: dict[int, int]) -> bool:
    """Whether some choice of brokers gives every partition what it lacks."""
    choices = [
        combinations([b for b in racks if b not in held.replicas], factor - len(held.replicas))
        for held in partitions.values()
        if len(held.replicas) < factor
    ]
    return any(
        all(sum(broker in more for more in choice) <= room for broker, room in capacity.items())
        for choice in product(*choices)
    )


@pytest.mark.long
@given(tight_cases())
def test_what_fits_is_found_and_what_does_not_is_refused_whole(
    case: tuple[Racks, dict[int, Partition], int, dict[int, int]],
) -> None:
    racks, partitions, factor, capacity = case
    if not fits(racks, partitions, factor, capacity):
        with pytest.raises(RequestError) as refused:
            plan_factor(racks, partitions, factor, capacity=capacity)
        assert refused.value.code == ErrorCode.GUARD_RAILS
        return
    planned = plan_factor(racks, partitions, factor, capacity=capacity)
    for broker, room in capacity.items():
        added = [p for p, replicas in planned.items() if broker in {*replicas} - {*partitions[p].replicas}]
        assert len(added) <= room


@given(cases(), st.integers(1, 3))
def test_retired_partitions_get_nothing_and_keep_little(
    case: tuple[Racks, dict[int, Partition], int], kept: int
) -> None:
    racks, partitions, factor = case
    retired = {partition: kept for partition in partitions if partition % 2}
    planned = plan_factor(racks, partitions, factor, retired=retired)
    for partition, held in partitions.items():
        count = len(planned.get(partition, held.replicas))
        if partition in retired:
            assert count == min(len(held.replicas), factor, kept)
        else:
            assert count == factor


@pytest.mark.parametrize("factor", [0, -1, 3, 10**30])
def test_factors_that_no_plan_has(factor: int) -> None:
    with pytest.raises(RequestError, match=f"value {factor}: with 2 brokers") as refused:
        plan_factor({1: None, 2: None}, {0: Partition("t", 0, (1,), 1, (1,))}, factor)
    assert refused.value.code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_a_topic_is_spread_evenly() -> None:
    brokers: Racks = dict.fromkeys(range(5))
    partitions = {p: Partition("t", p, (p % 5,), p % 5, (p % 5,)) for p in range(50)}
    planned = plan_factor(brokers, partitions, 3)
    load = [sum(broker in replicas for replicas in planned.values()) for broker in brokers]
    assert sum(load) == 150
    assert max(load) - min(load) <= 2
