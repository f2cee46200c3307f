"""Plans for brokers and log directories whose volumes are of different sizes, or nearly full."""

from __future__ import annotations

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
