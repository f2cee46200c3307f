"""Plans of reassignments between brokers, against exhaustive searches on small clusters."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from spark_ordered_kafka.controller.placement.planner import Broker, Goal, Partition, Snapshot, plan
from spark_ordered_kafka.errors import ErrorCode, RequestError
from tests.properties.planner_cases import (
    RACKS,
    SEARCHED,
    alive,
    apart,
    applied,
    check_sound,
    clusters,
    counts,
    fewest_apart,
    placements,
    racks_of,
    replica_sets,
    spread,
)

TIGHT = st.integers(0, 3)


@given(clusters(down=True, dead=True), st.data())
def test_drained_brokers_end_empty_and_nothing_else_moves(snapshot: Snapshot, data: st.DataObject) -> None:
    ids = [broker.id for broker in snapshot.brokers]
    drained = data.draw(st.lists(st.sampled_from(ids), min_size=1, unique=True))
    left = [broker for broker in alive(snapshot) if broker not in drained]
    assume(left)
    goal = Goal("drain", brokers=tuple(drained))
    planned = [one for one in snapshot.partitions if one.leader >= 0]
    needed = [(one, [b for b in one.replicas if b in drained]) for one in planned]
    if any(len(going) > len(set(left) - set(one.replicas)) for one, going in needed):
        with pytest.raises(RequestError) as refused:
            plan(snapshot, goal)
        assert refused.value.code == ErrorCode.INVALID_REPLICATION_FACTOR
        return
    found, after = check_sound(snapshot, goal)
    assert found.replicas == sum(len(going) for _, going in needed), "exactly what was there moves"
    assert found.size == sum((one.size or 0) * len(going) for one, going in needed)
    for one in after.partitions:
        assert one.leader < 0 or not set(one.replicas) & set(drained)
    racks = racks_of(snapshot)
    for change in found.changes:
        one = change.partition
        kept = set(one.replicas) - set(drained)
        assert kept <= set(change.replicas)
        free = [broker for broker in left if broker not in kept]
        best = max(
            spread(racks, (*kept, *some)) for some in combinations(free, len(one.replicas) - len(kept))
        )
        assert spread(racks, change.replicas) == best, "without limits, on as many racks as possible"
    assert not plan(after, goal).changes


@SEARCHED
@given(clusters(brokers=4, partitions=4, capacity=TIGHT), st.data())
def test_a_drain_is_found_if_there_is_one(snapshot: Snapshot, data: st.DataObject) -> None:
    drained = data.draw(st.sampled_from([broker.id for broker in snapshot.brokers]))
    left = [broker for broker in alive(snapshot) if broker != drained]
    assume(left)
    racks = racks_of(snapshot)
    choices = []
    for one in snapshot.partitions:
        kept = [broker for broker in one.replicas if broker != drained]
        sets = (
            [(*kept, broker) for broker in left if broker not in kept]
            if drained in one.replicas
            else [one.replicas]
        )
        most = max((spread(racks, replicas) for replicas in sets), default=0)
        least = min(most, spread(racks, one.replicas))
        choices.append([replicas for replicas in sets if spread(racks, replicas) >= least])
    goal = Goal("drain", brokers=(drained,))
    if next(placements(snapshot, choices), None) is None:
        with pytest.raises(RequestError) as refused:
            plan(snapshot, goal)
        assert refused.value.code in (ErrorCode.GUARD_RAILS, ErrorCode.INVALID_REPLICATION_FACTOR)
        return
    check_sound(snapshot, goal)


def test_a_drain_goes_to_the_emptiest_and_leaders_are_shared_out() -> None:
    brokers = tuple(Broker(broker) for broker in range(5))
    rows = [Partition("t", p, (0, 1 + p % 2), 0, (0,), (5, 5)) for p in range(12)]
    found, after = check_sound(Snapshot(brokers, tuple(rows)), Goal("drain", brokers=(0,)))
    assert counts(after) == {0: 0, 1: 6, 2: 6, 3: 6, 4: 6}
    assert Counter(one.replicas[0] for one in after.partitions) == {1: 3, 2: 3, 3: 3, 4: 3}
    assert (found.replicas, found.size, found.leaders) == (12, 60, 12)


@SEARCHED
@given(clusters(brokers=4, partitions=4, capacity=st.integers(0, 6), down=True))
def test_balance_is_as_even_as_can_be(snapshot: Snapshot) -> None:
    everybody = alive(snapshot)
    choices = [
        replica_sets(snapshot, one, everybody) if one.leader >= 0 else [one.replicas]
        for one in snapshot.partitions
    ]
    # Of all that capacity allows: those counts, sorted, that are as even as can be.
    best = min(
        sum(Counter(b for replicas in chosen for b in replicas)[broker] ** 2 for broker in everybody)
        for chosen in placements(snapshot, choices)
    )
    _, after = check_sound(snapshot, Goal("balance"))
    assert sum(count**2 for count in counts(after).values()) == best


@given(clusters(partitions=14, down=True, dead=True))
def test_balance_evens_out_each_pool_and_never_makes_it_worse(snapshot: Snapshot) -> None:
    found, after = check_sound(snapshot, Goal("balance"))
    racks = racks_of(snapshot)
    for live in (True, False):
        before, then = counts(snapshot, live=live), counts(after, live=live)
        assert apart(then.values()) <= max(1, apart(before.values()))
        if racks is None and all(one.leader >= 0 and len(one.replicas) == 1 for one in snapshot.partitions):
            assert apart(then.values()) <= 1
    for change in found.changes:
        assert spread(racks, change.replicas) >= spread(racks, change.partition.replicas)
    assert not plan(after, Goal("balance")).changes, "a balanced cluster needs no plan"


@given(clusters(partitions=14, racks=st.none()), st.data())
def test_balance_among_some_moves_only_what_is_on_them(snapshot: Snapshot, data: st.DataObject) -> None:
    some = data.draw(st.lists(st.sampled_from(alive(snapshot)), min_size=1, unique=True))
    found, after = check_sound(snapshot, Goal("balance", brokers=tuple(some)))
    for change in found.changes:
        assert set(change.replicas) - set(some) == set(change.partition.replicas) - set(some)
    before = counts(snapshot, some)
    assert apart(counts(after, some).values()) <= max(1, apart(before.values()))


@given(clusters(partitions=14, racks=st.none(), factors=1))
def test_balance_moves_as_few_replicas_as_possible(snapshot: Snapshot) -> None:
    snapshot = replace(snapshot, partitions=tuple(replace(one, sizes=(0,)) for one in snapshot.partitions))
    found, _ = check_sound(snapshot, Goal("balance"))
    before = sorted(counts(snapshot).values(), reverse=True)
    low, more = divmod(sum(before), len(before))
    assert found.replicas == sum(max(0, count - low - (number < more)) for number, count in enumerate(before))


@SEARCHED
@given(clusters(brokers=4, partitions=6))
def test_preferred_leaders_are_spread_as_evenly_as_reordering_allows(snapshot: Snapshot) -> None:
    _, after = check_sound(snapshot, Goal("balance"))
    led = Counter(dict.fromkeys(alive(snapshot), 0))
    led.update(one.replicas[0] for one in after.partitions)
    assert apart(led.values()) == fewest_apart([one.replicas for one in after.partitions], alive(snapshot))


def test_leaders_alone_are_balanced_without_moving_data() -> None:
    brokers = tuple(Broker(broker) for broker in range(3))
    rows = [Partition("t", p, tuple(sorted((p % 3, (p + 1) % 3))), 0, (0,), (9, 9)) for p in range(30)]
    found, after = check_sound(Snapshot(brokers, tuple(rows)), Goal("balance"))
    assert (found.replicas, found.size) == (0, 0)
    assert Counter(one.replicas[0] for one in after.partitions) == {0: 10, 1: 10, 2: 10}
    assert found.leaders == 10


def test_bytes_are_evened_out_by_exchanging_replicas() -> None:
    brokers = tuple(Broker(broker) for broker in range(2))
    rows = [Partition("t", p, (p // 4,), p // 4, (p // 4,), (100 if p < 4 else 10,)) for p in range(8)]
    found, _ = check_sound(Snapshot(brokers, tuple(rows)), Goal("balance"))
    assert {broker: load.size for broker, load in found.after.items()} == {0: 220, 1: 220}
    assert (found.replicas, found.size) == (4, 220)


def test_where_racks_do_not_allow_even_counts_each_part_is_even() -> None:
    # Both replicas on different racks, and rack a has one broker: it must have one of each partition.
    brokers = (Broker(0, "a"), *(Broker(b, "b") for b in range(1, 5)))
    rows = [Partition("t", p, (0, 1), 0, (0, 1), (1, 1)) for p in range(8)]
    found, after = check_sound(Snapshot(brokers, tuple(rows)), Goal("balance"))
    assert counts(after) == {0: 8, 1: 2, 2: 2, 3: 2, 4: 2}
    assert found.replicas == 6


@pytest.mark.long
@given(clusters(partitions=14, down=True, dead=True, capacity=st.integers(0, 9)), st.data())
def test_spreading_moves_a_fair_share_to_the_named_brokers_alone(
    snapshot: Snapshot, data: st.DataObject
) -> None:
    onto = data.draw(st.lists(st.sampled_from(alive(snapshot)), min_size=1, unique=True))
    found, after = check_sound(snapshot, Goal("spread", brokers=tuple(onto)))
    racks = racks_of(snapshot)
    for change in found.changes:
        assert set(change.added) <= set(onto)
        assert not (set(change.partition.replicas) - set(change.replicas)) & set(onto)
        assert spread(racks, change.replicas) >= spread(racks, change.partition.replicas)
    for live in (True, False):
        before, then = counts(snapshot, live=live), counts(after, live=live)
        share = -(-sum(before.values()) // len(before))
        for broker in onto:
            assert then[broker] <= max(share, before[broker])
        for broker in set(before) - set(onto):
            assert min(share - 1, before[broker]) <= then[broker] <= before[broker]
    assert not plan(after, Goal("spread", brokers=tuple(onto))).replicas


@given(st.integers(1, 5), st.integers(1, 3), st.integers(0, 40))
def test_new_brokers_come_to_as_much_as_the_others(old: int, new: int, partitions: int) -> None:
    brokers = tuple(Broker(broker) for broker in range(old + new))
    rows = [Partition("t", p, (p % old,), p % old, (p % old,), (1,)) for p in range(partitions)]
    found, after = check_sound(
        Snapshot(brokers, tuple(rows)), Goal("spread", brokers=tuple(range(old, old + new)))
    )
    share, more = divmod(partitions, old + new)
    assert share * new <= found.replicas <= share * new + min(more, new)
    assert apart(counts(after).values()) <= 1
    led = Counter(one.replicas[0] for one in after.partitions)
    assert [led[broker] for broker in range(old + new)] == list(counts(after).values())


@given(clusters(racks=RACKS, down=True, dead=True))
def test_racks_are_repaired_as_far_as_there_are_racks(snapshot: Snapshot) -> None:
    found, after = check_sound(snapshot, Goal("racks"))
    racks = racks_of(snapshot)
    assert racks is not None
    there = {racks[broker] for broker in alive(snapshot)}
    moved = 0
    for one, then in zip(snapshot.partitions, after.partitions, strict=True):
        if one.leader < 0:
            assert one == then
            continue
        had = {racks[broker] for broker in one.replicas}
        missing = min(len(one.replicas) - len(had), len(there - had))
        assert spread(racks, then.replicas) == len(had) + missing
        assert len(set(then.replicas) - set(one.replicas)) == missing, "no more moves than help"
        moved += missing
    assert found.replicas == moved
    assert not plan(after, Goal("racks")).changes


@SEARCHED
@given(clusters(brokers=5, partitions=3, racks=RACKS, capacity=st.integers(0, 2)))
def test_a_repair_is_found_if_there_is_one(snapshot: Snapshot) -> None:
    racks = racks_of(snapshot)
    choices = []
    for one in snapshot.partitions:
        sets = list(combinations(alive(snapshot), len(one.replicas)))
        most = max(spread(racks, replicas) for replicas in sets)
        good = [replicas for replicas in sets if spread(racks, replicas) == most]
        fewest = min(len(set(replicas) - set(one.replicas)) for replicas in good)
        choices.append([r for r in good if len(set(r) - set(one.replicas)) == fewest])
    if next(placements(snapshot, choices), None) is None:
        with pytest.raises(RequestError, match="have no place") as refused:
            plan(snapshot, Goal("racks"))
        assert refused.value.code == ErrorCode.GUARD_RAILS
    else:
        check_sound(snapshot, Goal("racks"))


@given(clusters(dead=True), st.data())
def test_the_replication_factor_is_what_was_asked_for(snapshot: Snapshot, data: st.DataObject) -> None:
    factor = data.draw(st.integers(1, len(snapshot.brokers)))
    found, after = check_sound(snapshot, Goal("replication_factor", replication_factor=factor))
    for one, then in zip(snapshot.partitions, after.partitions, strict=True):
        assert len(then.replicas) == factor
        assert set(then.replicas) <= set(one.replicas) or set(then.replicas) >= set(one.replicas)
        assert then.replicas[0] == one.replicas[0]
    assert found.replicas == sum(max(0, factor - len(one.replicas)) for one in snapshot.partitions)
    assert not plan(after, Goal("replication_factor", replication_factor=factor)).changes


def test_what_is_removed_may_make_way_for_what_is_live_and_the_other_way_round() -> None:
    # Live ones alone would take broker 1, the only one that the removed partition can have.
    brokers = (Broker(0, capacity=0), Broker(1, capacity=1), Broker(2, capacity=1))
    rows = (
        Partition("t", 0, (0,), 0, (0,), (1,)),
        Partition("t", 1, (2,), 2, (2,), (1,), status="marked"),
    )
    found, _ = check_sound(Snapshot(brokers, rows), Goal("replication_factor", replication_factor=2))
    assert [change.replicas for change in found.changes] == [(0, 2), (2, 1)]


def test_deleted_partitions_keep_at_most_what_the_controller_lets_them() -> None:
    brokers = tuple(Broker(broker) for broker in range(3))
    live = Partition("t", 0, (0, 1), 0, (0, 1), (1, 1))
    rows = (live, replace(live, partition=1, status="marked"), replace(live, partition=2, status="deleted"))
    found = plan(Snapshot(brokers, rows, retired_factor=1), Goal("replication_factor", replication_factor=3))
    assert [len(change.replicas) for change in found.changes] == [3, 3, 1]


@pytest.mark.parametrize("kind", ["drain", "balance", "racks", "spread", "replication_factor"])
def test_partitions_on_the_move_or_without_a_leader_are_left_out_with_a_warning(kind: str) -> None:
    brokers = (Broker(0, "a"), Broker(1, "a"), Broker(2, "b"), Broker(3, "b"))
    row = Partition("t", 0, (0, 1), 0, (0, 1), (1, 1))
    rows = (replace(row, moving=True), replace(row, partition=1, leader=-1), replace(row, partition=2))
    fields = {
        "drain": {"brokers": (0,)},
        "spread": {"brokers": (2,)},
        "replication_factor": {"replication_factor": 3},
    }.get(kind, {})
    found, _ = check_sound(Snapshot(brokers, rows), Goal(kind, **fields))  # type: ignore[arg-type]
    assert [change.partition.partition for change in found.changes] in ([2], [])
    assert found.warnings[0] == "left out, since being reassigned already: t-0"
    assert found.warnings[1] == "left out, since without a leader: t-1"


def test_bytes_that_nobody_knows_are_not_guessed() -> None:
    brokers = (Broker(0, alive=False), Broker(1), Broker(2), Broker(3))
    rows = (Partition("t", 0, (0, 1), 1, (1,), (None, 7)), Partition("t", 1, (0, 2), 2, (2,)))
    assert plan(Snapshot(brokers, rows[:1]), Goal("drain", brokers=(0,))).size == 7, "the leader's"
    assert plan(Snapshot(brokers, rows), Goal("drain", brokers=(0,))).size is None


def test_no_partitions_need_no_plan() -> None:
    empty = Snapshot((Broker(0, "a"), Broker(1, "b")), ())
    for goal in (Goal("balance"), Goal("racks"), Goal("drain", brokers=(0,)), Goal("spread", brokers=(0,))):
        found, after = check_sound(empty, goal)
        assert not found.changes
        assert applied(empty, found) == after
