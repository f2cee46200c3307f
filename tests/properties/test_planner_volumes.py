"""Plans for brokers and log directories whose volumes are of different sizes, or nearly full."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_ordered_kafka.controller.placement.planner import Broker, Goal, Partition, Plan, Snapshot, plan
from spark_ordered_kafka.errors import ErrorCode, RequestError
from spark_ordered_kafka.kafka.values import LogDir
from tests.properties.planner_cases import alive, clusters

GB = 10**9
TOLERANCE = 0.1


def one_dir(number: int, total: int, used: int) -> Broker:
    return Broker(number, log_dirs=(LogDir("/a", total_bytes=total, usable_bytes=total - used),))


def partitions(*held: int, size: int = 20 * GB, path: Sequence[str] = ()) -> tuple[Partition, ...]:
    """One of ``size`` with a single replica on each of ``held``."""
    paths = path or ["/a"] * len(held)
    return tuple(
        Partition("t", number, (broker,), broker, (broker,), (size,), (paths[number],))
        for number, broker in enumerate(held)
    )


def copied(found: Plan) -> Counter[int]:
    """Bytes that each broker gets."""
    sizes: Counter[int] = Counter()
    for change in found.changes:
        for broker in change.added:
            sizes[broker] += change.partition.size or 0
    return sizes


@st.composite
def with_volumes(draw: st.DrawFn) -> Snapshot:
    found = draw(clusters(down=True, factors=2, least=(2, 1)))
    brokers = []
    for one in found.brokers:
        free = draw(st.sampled_from([None, 0, 5, 50, 150, 1000]))
        total = None if free is None else free + draw(st.sampled_from([0, 200, 1000]))
        log_dirs = (LogDir("/a", total_bytes=total, usable_bytes=free), LogDir("/b", 56))
        brokers.append(replace(one, log_dirs=log_dirs if one.alive else None))
    return Snapshot(tuple(brokers), found.partitions)


def racked(snapshot: Snapshot) -> bool:
    """Whether every live broker has a rack."""
    return all(broker.rack is not None for broker in snapshot.brokers if broker.alive)


@given(with_volumes(), st.sampled_from(["balance", "drain", "spread", "racks"]), st.data())
def test_no_broker_gets_more_than_it_has_space_for(
    snapshot: Snapshot, kind: str, data: st.DataObject
) -> None:
    up = alive(snapshot)
    named = (data.draw(st.sampled_from(up)),) if kind in ("drain", "spread") else None
    goal = Goal(kind, brokers=named)  # type: ignore[arg-type]  # one of the names above
    try:
        found = plan(snapshot, goal)
    except RequestError:
        return  # what may be refused is asked for below
    free = {one.id: one.free for one in snapshot.brokers}
    for broker, size in copied(found).items():
        assert size <= (size if free[broker] is None else free[broker] or 0)
    if kind == "spread":
        assert {broker for change in found.changes for broker in change.added} <= set(named or ())


@given(
    with_volumes(),
    st.sampled_from(["balance", "drain", "spread", "replication_factor", "leaders"]),
    st.sampled_from([("balance",), ("racks",), ("racks", "balance"), ("leaders",)]),
    st.data(),
)
def test_space_refuses_no_further_goal(
    snapshot: Snapshot, kind: str, also: tuple[str, ...], data: st.DataObject
) -> None:
    up = alive(snapshot)
    further = tuple(one for one in also if one != kind and (one != "racks" or racked(snapshot)))
    goal = Goal(
        kind,  # type: ignore[arg-type]  # one of the names above
        brokers=(data.draw(st.sampled_from(up)),) if kind in ("drain", "spread") else None,
        replication_factor=data.draw(st.integers(1, len(up))) if kind == "replication_factor" else None,
    )
    try:
        plan(snapshot, goal)
    except RequestError:
        assert kind not in ("balance", "leaders"), "what moves nothing is such a plan, too"
        return
    found = plan(snapshot, replace(goal, also=further or None))  # type: ignore[arg-type]  # likewise
    free = {one.id: one.free for one in snapshot.brokers}
    for broker, size in copied(found).items():
        assert size <= (size if free[broker] is None else free[broker] or 0)


def test_a_drain_does_what_fits_though_balance_does_not() -> None:
    brokers = (one_dir(1, 1000, 950), one_dir(2, 1000, 850), one_dir(3, 1000, 100))
    snapshot = Snapshot(brokers, partitions(*[1] * 6, 3, size=100))
    found = plan(snapshot, Goal("drain", brokers=(3,), also=("balance",)))
    assert [(change.partition.partition, change.replicas) for change in found.changes] == [(6, (2,))]


@pytest.mark.parametrize("used", [1000, 100])
def test_a_full_broker_keeps_what_no_other_has_space_for(used: int) -> None:
    """The same where its volume has space and it is at its limit of replicas: it takes none, but has these."""
    brokers = (replace(one_dir(1, 1000, used), capacity=0), one_dir(2, 1000, 880))
    found = plan(Snapshot(brokers, partitions(*[1] * 6, size=100)), Goal("balance"))
    assert [change.replicas for change in found.changes] == [(2,)]


def test_a_replica_goes_where_a_single_directory_has_space_for_it() -> None:
    two = Broker(1, log_dirs=tuple(LogDir(path, 0, (), 1000, 60) for path in ("/a", "/b")))
    one = one_dir(2, 1000, 900)
    rows = partitions(3, size=100)
    goal = Goal("drain", brokers=(3,))
    found = plan(Snapshot((two, one, one_dir(3, 1000, 100)), rows), goal)
    assert [change.replicas for change in found.changes] == [(2,)]
    with pytest.raises(RequestError, match=r"replica of 100 bytes and has 60 left in a directory") as caught:
        plan(Snapshot((two, one_dir(3, 1000, 100)), rows), goal)
    assert caught.value.code == ErrorCode.GUARD_RAILS


@given(st.lists(st.integers(0, 6), min_size=2, max_size=5), st.integers(0, 20))
def test_a_drain_fits_where_it_can(slots: list[int], going: int) -> None:
    """Partitions of one size: the plan is refused exactly when there is less space than they need."""
    brokers = tuple(one_dir(number, 100, 100 - 10 * free) for number, free in enumerate(slots, 1))
    snapshot = Snapshot((one_dir(0, 1000, 500), *brokers), partitions(*[0] * going, size=10))
    if going > sum(slots):
        with pytest.raises(RequestError, match=r"would get \d+ bytes and has \d+ left") as caught:
            plan(snapshot, Goal("drain", brokers=(0,)))
        assert caught.value.code == ErrorCode.GUARD_RAILS
    else:
        found = plan(snapshot, Goal("drain", brokers=(0,)))
        assert len(found.changes) == going


def test_a_small_broker_gets_its_share() -> None:
    totals = {1: 1000 * GB, 2: 4000 * GB, 3: 4000 * GB}
    sizes = [1, 4, 40] * 45
    rows = tuple(
        replace(one, sizes=(size * GB,))
        for one, size in zip(partitions(*[1] * 9, *[2, 3] * 63), sizes, strict=True)
    )
    used = Counter(dict.fromkeys(totals, 0))
    for one in rows:
        used[one.replicas[0]] += one.size or 0
    snapshot = Snapshot(tuple(one_dir(b, total, used[b]) for b, total in totals.items()), rows)
    after = plan(snapshot, Goal("balance")).after
    mean = sum(load.size for load in after.values()) / sum(totals.values())
    for broker, total in totals.items():
        assert abs(after[broker].size / total / mean - 1) <= TOLERANCE, after
    assert max(load.replicas for load in after.values()) - min(load.replicas for load in after.values()) <= 1


def test_a_small_log_directory_gets_its_share() -> None:
    dirs = (LogDir("/a", 0, (), 1000 * GB, 700 * GB), LogDir("/b", 0, (), 4000 * GB, 1600 * GB))
    rows = partitions(*[1] * 135, path=["/a"] * 15 + ["/b"] * 120)
    found = plan(Snapshot((Broker(1, log_dirs=dirs),), rows), Goal("balance_log_dirs", brokers=(1,)))
    held = Counter(one.log_dirs[0] for one in rows)
    for change in found.changes:
        held.subtract([change.partition.log_dirs[0]])
        held.update([change.placed[1]])
    shares = [held["/a"] * 20 / 1000, held["/b"] * 20 / 4000]
    assert max(shares) <= min(shares) * (1 + TOLERANCE) / (1 - TOLERANCE), held
    # Not a byte more than it takes.
    assert len(found.changes) <= 15


def test_a_partition_larger_than_all_others_stays_and_the_others_are_evened_out() -> None:
    """Copied, it would make another broker as uneven; and the mean with it is one that no other broker can have (D-396)."""
    chance = random.Random(1)
    rows = []
    for number in range(600):
        replicas = tuple(chance.sample(range(20), 2))
        size = 10_000 * GB if number == 0 else chance.randrange(1, 1000) * GB // 100
        rows.append(Partition("t", number, replicas, replicas[0], replicas, (size, size)))
    found = plan(Snapshot(tuple(map(Broker, range(20))), tuple(rows)), Goal("balance"))
    assert copied(found).total() < 1000 * GB
    left = [load.size for broker, load in found.after.items() if broker not in rows[0].replicas]
    mean = sum(left) / len(left)
    assert max(left) <= 1.2 * mean
    assert min(left) >= 0.8 * mean
    assert max(load.replicas for load in found.after.values()) == 60


def test_a_replica_larger_than_all_others_stays_in_its_log_directory() -> None:
    dirs = tuple(LogDir(path, 0, (), 9000 * GB, 5000 * GB) for path in ("/a", "/b", "/c"))
    rows = partitions(*[1] * 28, path=["/a"] * 5 + ["/b"] * 21 + ["/c"] * 2)
    rows = (replace(rows[0], sizes=(2000 * GB,)), *rows[1:])
    found = plan(Snapshot((Broker(1, log_dirs=dirs),), rows), Goal("balance_log_dirs", brokers=(1,)))
    held = Counter(one.log_dirs[0] for one in rows)
    for change in found.changes:
        assert change.partition.partition != 0
        held.subtract([change.partition.log_dirs[0]])
        held.update([change.placed[1]])
    assert held["/a"] == 1
    assert {held["/b"], held["/c"]} <= {13, 14}
