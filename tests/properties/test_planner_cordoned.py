"""Plans for clusters of which brokers or log directories are cordoned (KIP-1066)."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from spark_ordered_kafka.client.schemas.reassignments import FurtherPlanGoal
from spark_ordered_kafka.controller.placement.planner import Broker, Goal, Partition, Snapshot, plan
from spark_ordered_kafka.errors import ErrorCode, RequestError
from spark_ordered_kafka.kafka.values import LogDir
from tests.properties.planner_cases import alive, check_sound, clusters

_REFUSED = (ErrorCode.GUARD_RAILS, ErrorCode.INVALID_REPLICATION_FACTOR, ErrorCode.INVALID_REQUEST)


def cordoned(snapshot: Snapshot) -> list[int]:
    return [broker.id for broker in snapshot.brokers if broker.is_cordoned]


def cordoned_up(snapshot: Snapshot) -> set[int]:
    return set(cordoned(snapshot)).intersection(alive(snapshot))


@st.composite
def goals(draw: st.DrawFn, snapshot: Snapshot) -> Goal:
    named = tuple(draw(st.lists(st.sampled_from(alive(snapshot)), min_size=1, unique=True)))
    further: list[tuple[FurtherPlanGoal, ...] | None] = [None, ("balance",), ("leaders",)]
    has_racks = all(broker.rack is not None for broker in snapshot.brokers if broker.alive)
    if has_racks:
        further += [("racks",), ("racks", "balance")]
    also = draw(st.sampled_from(further))
    possible = [
        Goal("balance"),
        Goal("leaders"),
        Goal("drain", brokers=named, also=also),
        Goal("spread", brokers=named, also=also),
        Goal("replication_factor", replication_factor=draw(st.integers(1, len(alive(snapshot))))),
    ]
    return draw(st.sampled_from([*possible, Goal("racks")] if has_racks else possible))


@given(clusters(brokers=5, down=True, dead=True, cordoned=True, least=(2, 0)), st.data())
def test_no_plan_gives_a_cordoned_broker_anything(snapshot: Snapshot, data: st.DataObject) -> None:
    goal = data.draw(goals(snapshot))
    refused: RequestError | None = None
    try:
        found, after = check_sound(snapshot, goal)
    except RequestError as error:
        refused = error
    if refused is not None:
        assert refused.code in _REFUSED, refused
        is_said = "cordoned (cordoned.log.dirs): " in refused.message
        assert is_said == (refused.code == ErrorCode.GUARD_RAILS and bool(cordoned_up(snapshot)))
        return
    kept = set(cordoned(snapshot)) - set(goal.brokers or ())
    if goal.kind in ("balance", "drain") and "racks" not in (goal.also or ()):
        for before, now in zip(snapshot.partitions, after.partitions, strict=True):
            assert kept.intersection(before.replicas) <= set(now.replicas), "it keeps what it has"
    said = [one for one in found.warnings if one.startswith("cordoned, so they get nothing")]
    assert len(said) == (goal.kind != "leaders" and bool(kept & cordoned_up(snapshot)))


@given(clusters(brokers=5, cordoned=True, least=(2, 1)), st.data())
def test_a_drain_succeeds_as_if_the_cordoned_were_down(snapshot: Snapshot, data: st.DataObject) -> None:
    drained = data.draw(st.sampled_from(alive(snapshot)))
    left = set(alive(snapshot)) - {drained} - set(cordoned(snapshot))
    assume(left)
    has_place = all(drained not in one.replicas or left - set(one.replicas) for one in snapshot.partitions)
    if not has_place:
        with pytest.raises(RequestError, match="brokers left that are up"):
            plan(snapshot, Goal("drain", brokers=(drained,)))
        return
    _, after = check_sound(snapshot, Goal("drain", brokers=(drained,)))
    assert not any(drained in one.replicas for one in after.partitions)


@pytest.mark.parametrize(
    ("goal", "said"),
    [
        (Goal("spread", brokers=(1,)), r"brokers has the value 1, which is cordoned"),
        (
            Goal("drain", brokers=(0,)),
            r"no other broker is up, and not cordoned, that could take the replicas",
        ),
    ],
)
def test_a_goal_that_needs_a_cordoned_broker_is_refused(goal: Goal, said: str) -> None:
    brokers = (Broker(0), Broker(1, log_dirs=(LogDir("/a", is_cordoned=True), LogDir("/b", 56))))
    with pytest.raises(RequestError, match=said) as refused:
        plan(Snapshot(brokers, (Partition("t", 0, (0,), 0, (0,)),)), goal)
    assert refused.value.code == ErrorCode.INVALID_REQUEST
