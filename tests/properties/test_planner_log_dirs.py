"""Plans for the log directories of a broker."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_ordered_kafka.controller.placement.planner import (
    Broker,
    Goal,
    Partition,
    Plan,
    Snapshot,
    plan,
)
from spark_ordered_kafka.controller.placement.planner.swaps import TOLERANCE, WORTHWHILE
from spark_ordered_kafka.controller.placement.planner.volumes import attainable_mean
from spark_ordered_kafka.errors import ErrorCode, RequestError
from spark_ordered_kafka.kafka.values import LogDir
from tests.properties.planner_cases import check_sound

PATHS = ("/a", "/b", "/c")
SIZES = st.sampled_from([0, 1, 10, 100])


@st.composite
def brokers_with_dirs(draw: st.DrawFn) -> Snapshot:
    """Broker 0 with directories, some offline or cordoned, and partitions in them; broker 1 has replicas, too."""
    paths = PATHS[: draw(st.integers(2, 3))]
    dirs = tuple(
        LogDir(
            path, 0 if path == "/a" or draw(st.booleans()) else 56, is_cordoned=draw(st.integers(0, 3)) == 0
        )
        for path in paths
    )
    rows = []
    for number in range(draw(st.integers(0, 12))):
        replicas = draw(st.sampled_from([(0,), (0, 1), (1, 0), (1,)]))
        path, size = draw(st.sampled_from(paths)), draw(SIZES)
        rows.append(
            Partition(
                "t",
                number,
                replicas,
                replicas[0],
                isr=replicas,
                sizes=tuple([size] * len(replicas)),
                log_dirs=tuple(path if broker == 0 else "/other" for broker in replicas),
                status=draw(st.sampled_from(["live", "marked"])),
                moving_log_dir=(0,) if draw(st.integers(0, 5)) == 0 and 0 in replicas else (),
            )
        )
    return Snapshot((Broker(0, log_dirs=dirs), Broker(1)), tuple(rows))


def filled(snapshot: Snapshot, found: Plan, live: bool) -> dict[str, int]:
    """Bytes by directory of broker 0 that takes replicas, after the plan, of live partitions or of the others."""
    moved = {c.partition.partition: c.placed[0] for c in found.changes}
    load = {one.path: 0 for one in snapshot.brokers[0].log_dirs or () if one.takes_replicas}
    for one in snapshot.partitions:
        if 0 in one.replicas and (one.status == "live") == live:
            path = moved.get(one.partition, one.log_dir_on(0))
            if path in load:
                load[path] += one.size_on(0) or 0
    return load


def unmoved(snapshot: Snapshot) -> Plan:
    return Plan((), 0, 0, 0, {}, {})


def check_moves(snapshot: Snapshot, found: Plan) -> None:
    """Only replicas in an online directory move, only to another one that is not cordoned, and between directories alone."""
    takes = {one.path for one in snapshot.brokers[0].log_dirs or () if one.takes_replicas}
    online = {one.path for one in snapshot.brokers[0].log_dirs or () if one.online}
    for change in found.changes:
        one = change.partition
        assert change.replicas == one.replicas
        assert change.placed.keys() == {0}
        assert 0 not in one.moving_log_dir
        assert one.log_dir_on(0) in online
        assert change.placed[0] in takes
        assert one.log_dir_on(0) != change.placed[0]
        assert [path for broker, path in zip(change.replicas, change.log_dirs, strict=True) if broker] in (
            [],
            [None],
        )


@given(brokers_with_dirs())
def test_a_directory_is_emptied_onto_the_others(snapshot: Snapshot) -> None:
    goal = Goal("empty_log_dirs", brokers=(0,), log_dirs=("/a",))
    takes = {one.path for one in snapshot.brokers[0].log_dirs or () if one.takes_replicas}
    if not takes - {"/a"}:
        with pytest.raises(RequestError, match="has no other one that is online and not cordoned") as refused:
            plan(snapshot, goal)
        assert refused.value.code == ErrorCode.INVALID_REQUEST
        return
    found, _ = check_sound(snapshot, goal)
    check_moves(snapshot, found)
    there = [one for one in snapshot.partitions if 0 in one.replicas and one.log_dir_on(0) == "/a"]
    assert {c.partition.partition for c in found.changes} == {
        o.partition for o in there if not o.moving_log_dir
    }


@given(brokers_with_dirs())
def test_directories_are_balanced_as_far_as_a_move_helps(snapshot: Snapshot) -> None:
    found, _ = check_sound(snapshot, Goal("balance_log_dirs", brokers=(0,)))
    check_moves(snapshot, found)
    for live in (True, False):
        before, after = filled(snapshot, unmoved(snapshot), live), filled(snapshot, found, live)
        if not after:
            continue
        assert max(after.values()) - min(after.values()) <= max(before.values()) - min(before.values())
        moved = {c.partition.partition: c.placed[0] for c in found.changes}
        movable = [
            (path, one.size_on(0) or 0)
            for one in snapshot.partitions
            if 0 in one.replicas and not one.moving_log_dir and (one.status == "live") == live
            if (path := moved.get(one.partition, one.log_dir_on(0))) in after
        ]
        mean = attainable_mean(sum(after.values()), (size for _, size in movable), len(after))
        for path, size in movable:
            for load in after.values():
                even = after[path] <= (1 + TOLERANCE) * mean and load >= (1 - TOLERANCE) * mean
                helps = 0 < size < (after[path] - load) * WORTHWHILE
                assert even or not helps, "one more move would have helped"


def test_what_is_even_stays_and_what_is_not_moves_as_little_as_can_be() -> None:
    dirs = (LogDir("/a"), LogDir("/b"))
    row = [Partition("t", p, (0,), 0, (0,), (50,), ("/a" if p < 4 else "/b",)) for p in range(4)]
    found = plan(Snapshot((Broker(0, log_dirs=dirs),), tuple(row)), Goal("balance_log_dirs", brokers=(0,)))
    assert (found.replicas, found.size) == (2, 100)
    even = [Partition("t", p, (0,), 0, (0,), (50,), ("/a" if p < 2 else "/b",)) for p in range(4)]
    assert not plan(
        Snapshot((Broker(0, log_dirs=dirs),), tuple(even)), Goal("balance_log_dirs", brokers=(0,))
    ).changes


def test_what_does_not_fit_on_the_other_volumes_is_refused() -> None:
    dirs = (LogDir("/a"), LogDir("/b", usable_bytes=120))
    rows = tuple(Partition("t", p, (0,), 0, (0,), (70,), ("/a",)) for p in range(2))
    snapshot = Snapshot((Broker(0, log_dirs=dirs),), rows)
    with pytest.raises(
        RequestError, match=r"partition 1 of topic 't' \(70 bytes\).*/b has 50 bytes left"
    ) as refused:
        plan(snapshot, Goal("empty_log_dirs", brokers=(0,), log_dirs=("/a",)))
    assert refused.value.code == ErrorCode.GUARD_RAILS
    # Balancing takes what fits.
    assert plan(snapshot, Goal("balance_log_dirs", brokers=(0,))).replicas == 1
