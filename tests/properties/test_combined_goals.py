"""Plans with several goals, against exhaustive searches on small clusters (D-300)."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import combinations, product

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from spark_ordered_kafka.controller.placement.planner import Broker, Goal, Partition, Snapshot, plan
from spark_ordered_kafka.errors import RequestError
from tests.properties.planner_cases import (
    NO_RACKS,
    apart,
    check_sound,
    clusters,
    counts,
    placements,
    racks_of,
    spread,
)
from tests.seeds import examples

SEARCHED = settings(
    max_examples=examples(120), suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow]
)
RACKS = st.sampled_from(["a", "b", "c"])
UNEQUAL_RACKS = st.sampled_from(["a", "a", "a", "b", "b", "c"])
TIGHT = st.sampled_from([0, 0, 1, 2, 3])
SIZES = st.sampled_from([0, 1, 10, 1_000_000])
FURTHER = [("racks",), ("balance",), ("leaders",), ("racks", "balance"), ("racks", "balance", "leaders")]


def varied(snapshot: Snapshot, data: st.DataObject) -> Snapshot:
    """The cluster with other bytes, rates at which partitions are written, and some that are on the move."""
    rows = []
    for one in snapshot.partitions:
        size = data.draw(SIZES)
        rate = data.draw(st.sampled_from([0.0, 1.0, 1_000_000.0]))
        moving = data.draw(st.integers(0, 9)) == 9
        rows.append(replace(one, sizes=tuple([size] * len(one.replicas)), write_rate=rate, moving=moving))
    return replace(snapshot, partitions=tuple(rows))


def movable(one: Partition) -> bool:
    """Whether a partition may be planned."""
    return one.leader >= 0 and not one.moving


def draining(snapshot: Snapshot, data: st.DataObject) -> tuple[list[int], list[int]]:
    """Brokers to drain, and the live ones that are left; such that every partition has enough of them."""
    ids = [broker.id for broker in snapshot.brokers]
    drained = data.draw(st.lists(st.sampled_from(ids), min_size=1, max_size=2, unique=True))
    left = [broker.id for broker in snapshot.brokers if broker.alive and broker.id not in drained]
    assume(left)
    assume(
        all(
            len(set(one.replicas) & set(drained)) <= len(set(left) - set(one.replicas))
            for one in snapshot.partitions
            if movable(one)
        )
    )
    return drained, left


def goal_sets(
    snapshot: Snapshot, one: Partition, left: Collection[int], drained: Collection[int]
) -> list[tuple[int, ...]]:
    """All sets of brokers that a partition can be on without those ``drained``; on brokers that are down only as now."""
    if not movable(one):
        return [one.replicas]
    known = sorted({*left, *(broker for broker in one.replicas if broker not in drained)})
    return list(combinations(known, len(one.replicas)))


def widest(snapshot: Snapshot, sets: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Those on as many racks as any."""
    racks = racks_of(snapshot)
    most = max(spread(racks, one) for one in sets)
    return [one for one in sets if spread(racks, one) == most]


def squares(
    snapshot: Snapshot, chosen: Sequence[Sequence[int]], brokers: Collection[int], *, live: bool
) -> int:
    """Sum of the squares of replicas by broker: the least is as even as can be."""
    held = Counter(
        broker
        for one, replicas in zip(snapshot.partitions, chosen, strict=True)
        if (one.status == "live") == live
        for broker in replicas
    )
    return sum(held[broker] ** 2 for broker in brokers)


def all_squares(snapshot: Snapshot, chosen: Sequence[Sequence[int]], brokers: Collection[int]) -> int:
    return sum(squares(snapshot, chosen, brokers, live=live) for live in (True, False))


def replicas_of(snapshot: Snapshot) -> list[tuple[int, ...]]:
    return [one.replicas for one in snapshot.partitions]


@SEARCHED
@given(clusters(racks=UNEQUAL_RACKS, down=True, dead=True, least=(3, 2)), st.data())
def test_a_drain_with_racks_moves_no_replica_more_than_needed(
    snapshot: Snapshot, data: st.DataObject
) -> None:
    drained, left = draining(snapshot, data)
    found, after = check_sound(snapshot, Goal("drain", brokers=tuple(drained), also=("racks",)))
    needed = 0
    for one, then in zip(snapshot.partitions, after.partitions, strict=True):
        best = widest(snapshot, goal_sets(snapshot, one, left, drained))
        assert tuple(sorted(then.replicas)) in [tuple(sorted(some)) for some in best]
        needed += min(len(set(some) - set(one.replicas)) for some in best)
    assert found.replicas == needed


@SEARCHED
@given(clusters(brokers=5, partitions=3, racks=UNEQUAL_RACKS, down=True, dead=True, least=(3, 2)), st.data())
def test_a_drain_with_racks_and_balance_reaches_all_three(snapshot: Snapshot, data: st.DataObject) -> None:
    snapshot = varied(snapshot, data)
    drained, left = draining(snapshot, data)
    goal = Goal("drain", brokers=tuple(drained), also=("racks", "balance"))
    _, after = check_sound(snapshot, goal)
    choices = []
    for one, then in zip(snapshot.partitions, after.partitions, strict=True):
        assert not movable(one) or not set(then.replicas) & set(drained)
        sets = widest(snapshot, goal_sets(snapshot, one, left, drained))
        assert spread(racks_of(snapshot), then.replicas) == spread(racks_of(snapshot), sets[0])
        # Replicas on brokers that are down stay unless they share a rack.
        stay = set(then.replicas) - set(left)
        choices.append([some for some in sets if set(some) - set(left) == stay])
    best = min(all_squares(snapshot, chosen, left) for chosen in product(*choices))
    assert all_squares(snapshot, replicas_of(after), left) == best, "as even as can be on those racks"
    assert not plan(after, goal).changes


def any_goal(snapshot: Snapshot, data: st.DataObject) -> Goal:
    """A goal that moves replicas, and further ones."""
    kind = data.draw(st.sampled_from(["drain", "spread", "replication_factor", "racks", "balance"]))
    also = set(data.draw(st.sampled_from(FURTHER))) - {kind}
    if racks_of(snapshot) is None:
        assume(kind != "racks")
        also.discard("racks")
    alive = [broker.id for broker in snapshot.brokers if broker.alive]
    fields: dict[str, object] = {}
    if kind == "drain":
        fields["brokers"] = tuple(draining(snapshot, data)[0])
    elif kind == "spread":
        fields["brokers"] = tuple(data.draw(st.lists(st.sampled_from(alive), min_size=1, unique=True)))
    elif kind == "replication_factor":
        fields["replication_factor"] = data.draw(st.integers(1, len(alive)))
    return Goal(kind, also=tuple(sorted(also)) or None, **fields)  # type: ignore[arg-type]


WITHOUT_LIMITS = clusters(partitions=14, down=True, dead=True, racks=UNEQUAL_RACKS, least=(3, 3)) | clusters(
    partitions=14, racks=NO_RACKS, least=(3, 3)
)


@SEARCHED
@given(WITHOUT_LIMITS, st.data())
def test_a_second_plan_for_several_goals_is_empty(snapshot: Snapshot, data: st.DataObject) -> None:
    snapshot = varied(snapshot, data)
    goal = any_goal(snapshot, data)
    _, after = check_sound(snapshot, goal)
    assert not plan(after, goal).changes


@settings(SEARCHED, max_examples=examples(30))
@given(st.integers(0, 10**9), st.data())
def test_a_second_plan_for_a_larger_cluster_is_empty(seed: int, data: st.DataObject) -> None:
    rng = random.Random(seed)
    names = [f"rack-{rng.randrange(5)}" for _ in range(rng.randrange(5, 16))]
    brokers = tuple(Broker(n, rack, alive=n < 3 or rng.random() < 0.9) for n, rack in enumerate(names))
    alive = [broker.id for broker in brokers if broker.alive]
    rows = []
    for number in range(rng.randrange(40, 120)):
        held = rng.sample(alive, rng.randrange(1, 4))
        sizes = (int(rng.lognormvariate(10, 2)),) * len(held)
        rows.append(Partition("t", number, tuple(held), held[0], tuple(held), sizes, write_rate=rng.random()))
    snapshot = Snapshot(brokers, tuple(rows))
    goal = any_goal(snapshot, data)
    _, after = check_sound(snapshot, goal)
    assert not plan(after, goal).changes


@SEARCHED
@given(
    clusters(partitions=6, down=True, dead=True, capacity=TIGHT, racks=UNEQUAL_RACKS, least=(3, 2)), st.data()
)
def test_a_further_goal_is_no_reason_to_refuse_a_plan(snapshot: Snapshot, data: st.DataObject) -> None:
    goal = any_goal(varied(snapshot, data), data)
    try:
        plan(snapshot, replace(goal, also=None))
    except RequestError as error:
        with pytest.raises(RequestError, match=re.escape(error.message)):
            plan(snapshot, goal)
    else:
        check_sound(snapshot, goal)


@given(clusters(partitions=14, racks=NO_RACKS, factors=1), st.data())
def test_a_drain_with_balance_moves_as_few_replicas_as_possible(
    snapshot: Snapshot, data: st.DataObject
) -> None:
    snapshot = replace(snapshot, partitions=tuple(replace(one, sizes=(0,)) for one in snapshot.partitions))
    drained, left = draining(snapshot, data)
    found, _ = check_sound(snapshot, Goal("drain", brokers=tuple(drained), also=("balance",)))
    kept = sorted(counts(snapshot, left).values(), reverse=True)
    low, more = divmod(len(snapshot.partitions), len(left))
    too_many = sum(max(0, count - low - (number < more)) for number, count in enumerate(kept))
    assert found.replicas == sum(counts(snapshot, drained).values()) + too_many


@SEARCHED
@given(clusters(brokers=5, partitions=3, racks=UNEQUAL_RACKS, capacity=TIGHT, least=(3, 2)), st.data())
def test_limits_of_brokers_keep_racks_shared_only_where_they_must(
    snapshot: Snapshot, data: st.DataObject
) -> None:
    drained, left = draining(snapshot, data)
    goal = Goal("drain", brokers=tuple(drained))
    racks = racks_of(snapshot)
    try:
        plan(snapshot, goal)
    except RequestError:
        assume(False)
    least = [
        min(
            spread(racks, one.replicas),
            max(spread(racks, some) for some in goal_sets(snapshot, one, left, drained)),
        )
        for one in snapshot.partitions
    ]
    choices = [
        [some for some in goal_sets(snapshot, one, left, drained) if spread(racks, some) >= least[number]]
        for number, one in enumerate(snapshot.partitions)
    ]
    most = max(sum(spread(racks, some) for some in chosen) for chosen in placements(snapshot, choices))
    for also in (("racks",), ("racks", "balance")):
        _, after = check_sound(snapshot, replace(goal, also=also))
        assert not any(set(one.replicas) & set(drained) for one in after.partitions)
        there = [spread(racks, one.replicas) for one in after.partitions]
        assert sum(there) == most, also
        assert all(has >= must for has, must in zip(there, least, strict=True))


@SEARCHED
@given(clusters(brokers=4, partitions=4, racks=NO_RACKS), st.data())
def test_a_drain_with_balance_is_as_even_as_can_be(snapshot: Snapshot, data: st.DataObject) -> None:
    drained = data.draw(st.sampled_from([broker.id for broker in snapshot.brokers]))
    left = [broker.id for broker in snapshot.brokers if broker.id != drained]
    assume(left)
    choices = [list(combinations(left, len(one.replicas))) for one in snapshot.partitions]
    assume(all(choices))
    _, after = check_sound(snapshot, Goal("drain", brokers=(drained,), also=("balance",)))
    best = min(
        apart(Counter({b: sum(b in chosen for chosen in every) for b in left}).values())
        for every in placements(snapshot, choices)
    )
    assert apart(counts(after, left).values()) == best


def rows(*replicas: tuple[int, ...]) -> tuple[Partition, ...]:
    """Partitions 0, 1, … of one topic with these replicas."""
    return tuple(Partition("t", n, held, held[0], held, (1,) * len(held)) for n, held in enumerate(replicas))


def test_balance_does_not_take_back_racks_that_a_drain_has_gained() -> None:
    brokers = (Broker(0, "a"), Broker(1, "a"), Broker(2, "b"), Broker(3, "a"))
    for also in (("balance",), ("racks", "balance")):
        goal = Goal("drain", brokers=(0,), also=also)
        _, after = check_sound(Snapshot(brokers, rows(*[(0, 1)] * 4)), goal)
        assert counts(after) == {0: 0, 1: 2, 2: 4, 3: 2}, "broker 2 is the only one of its rack"
        assert not plan(after, goal).changes


def test_a_broker_is_drained_though_others_lack_capacity_for_racks() -> None:
    brokers = (Broker(0, "a"), Broker(1, "a"), Broker(2, "a"), Broker(3, "b", capacity=1))
    snapshot = Snapshot(brokers, rows((0, 1), (1, 2)))
    found, after = check_sound(snapshot, Goal("drain", brokers=(0,), also=("racks",)))
    assert replicas_of(after) == [(3, 1), (1, 2)]
    assert found.warnings == (
        "partitions that share racks, since brokers on other racks have no capacity: 1",
    )


def test_what_a_drain_moves_makes_way_for_racks() -> None:
    # The drained replica would take the place on rack b, which the other partition needs.
    brokers = (
        Broker(0, "a"),
        Broker(1, "a", capacity=0),
        Broker(2, "b", capacity=1),
        Broker(3, "c", capacity=0),
        Broker(4, "a", capacity=1),
    )
    snapshot = Snapshot(brokers, rows((0, 3), (0, 1), (1, 3)))
    found, after = check_sound(snapshot, Goal("drain", brokers=(0,), also=("racks",)))
    assert [sorted(held) for held in replicas_of(after)] == [[3, 4], [1, 2], [1, 3]]
    assert not found.warnings


def test_more_replicas_take_capacity_from_balance() -> None:
    brokers = (Broker(0), Broker(1, capacity=1), Broker(2, capacity=0))
    snapshot = Snapshot(brokers, rows((0,), (0, 2), (0, 2), (0, 2)))
    goal = Goal("replication_factor", replication_factor=2, also=("balance",))
    found, _ = check_sound(snapshot, goal)
    assert found.replicas == 1
