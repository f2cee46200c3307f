"""Znodes that hold something else than they should, as after a repair by hand: no other topic suffers from them."""

from __future__ import annotations

import json

import pytest

from spark_ordered_kafka.controller.reassign.throttle.policy import LEADER_RATE
from spark_ordered_kafka.controller.state.paths import (
    CREATIONS,
    DELETIONS,
    RELEASES,
    layout_path,
    topic_path,
)
from spark_ordered_kafka.controller.state.reassignments import STATUS
from spark_ordered_kafka.local import LocalCluster
from tests.inside import session_of, znodes_of
from tests.integration.controllers import in_process
from tests.integration.reassigning import PACE, SIZE, Judge, Mover, Row, outcomes
from tests.integration.test_covering import add_partitions
from tests.servers import TIMEOUT, await_true, unique_name


def test_one_topic_that_cannot_be_read_holds_up_no_other(kafka_cluster: LocalCluster) -> None:
    chroot = unique_name("unreadable")
    with in_process(kafka_cluster, chroot=chroot) as first:
        empty, bare, lost, sound = (first.create(1, prefix=prefix) for prefix in "abcd")
        client = session_of(first.service).client
        client.set(topic_path(empty), b"")
        client.set(layout_path(bare, 0), b"{}")
        client.delete(layout_path(lost, 0))
    with in_process(kafka_cluster, chroot=chroot, retire_interval=0.2) as second:
        add_partitions(kafka_cluster, sound, 2)
        await_true(lambda: second.topic(sound).layout_epoch == 1, "what was added is covered")
        for path in ("/v1/topics", "/v1/autoscale"):
            rows = second.http.get(path).json()["topics"]
            assert [row["topic"] for row in rows] == [bare, lost, sound], path
        answer = second.http.get(f"/v1/topics/{empty}")
        assert f"znode {topic_path(empty)} does not hold a TopicRecord" in answer.json()["error_message"]
        # The replicas of the others can be moved, as off a broker that fails.
        plan = second.http.post("/v1/reassignments/plan", json={"goal": "balance"})
        assert plan.status_code == 200, plan.text
        assert [one for one in plan.json()["warnings"] if topic_path(empty) in one] == [
            f"removed partitions of topic {empty!r} are planned like others: {answer.json()['error_message']}"
        ]


@pytest.mark.long
def test_an_intent_that_cannot_be_read_keeps_no_controller_from_leading(kafka_cluster: LocalCluster) -> None:
    chroot = unique_name("intents")
    with in_process(kafka_cluster, chroot=chroot) as first:
        topic = first.create(1)
        for parent in (CREATIONS, DELETIONS, RELEASES):
            session_of(first.service).client.create(f"{parent}/planted", b"")
        first.service.releaser.begin_stop()  # as a process that is about to die
        assert first.http.post(f"/v1/topics/{topic}/release", json={}).status_code == 503
    with in_process(kafka_cluster, chroot=chroot) as second:
        await_true(lambda: znodes_of(second.service).topic(topic) is None, "the release goes on")
        assert znodes_of(second.service).releases() == {}


@pytest.mark.long
@pytest.mark.parametrize("child", ["", pytest.param("/moves", marks=pytest.mark.long)])
def test_a_reassignment_that_cannot_be_read_holds_up_no_other(
    three_brokers: LocalCluster, child: str
) -> None:
    chroot = unique_name("requests")
    with in_process(three_brokers, chroot=chroot) as first:
        topic = unique_name("moved")
        body = {"topic": topic, "assignments": {"0": [1]}}
        assert first.http.post("/v1/topics", json=body).status_code == 201
        mover = Mover(first)
        planted, sound = (moved(mover, topic, broker) for broker in (2, 3))
        client = session_of(first.service).client
        # One that has not ended: its moves are asked for by every change and every move.
        going_on = {"request_id": planted, "created_at": 1.0, "principal": "p", "state": "running"}
        client.set(f"{STATUS}/{planted}", json.dumps(going_on).encode())
        client.set(f"{STATUS}/{planted}{child}", b"")
        client.create(f"{STATUS}/latest", b"")
    with in_process(three_brokers, chroot=chroot) as second:
        last = moved(Mover(second), topic, 1)
        shown = [one["request_id"] for one in second.http.get("/v1/reassignments").json()["requests"]]
        assert shown == [last, sound]
        answer = second.http.get(f"/v1/reassignments/{planted}")
        assert f"znode {STATUS}/{planted}{child} does not hold" in answer.json()["error_message"]
        assert second.alter(topic, 2).error == "NONE"


@pytest.mark.long
@pytest.mark.parametrize("child", ["", "/moves"])
def test_throttles_of_a_request_that_cannot_be_read_stay_until_its_moves_have_ended(
    three_brokers: LocalCluster, child: str
) -> None:
    chroot = unique_name("requests")
    judge = Judge(three_brokers)
    free = judge.throttles()
    try:
        with in_process(three_brokers, chroot=chroot) as first:
            slow, quick = judge.create([1], size=SIZE), judge.create([1, 2], size=50_000)
            mover = Mover(first)
            planted = mover.submit(Row(slow, 0, [2]), throttle=PACE)
            mover.moving(planted)
            throttled = judge.throttles(slow)
            assert f"1 {LEADER_RATE}" in throttled
            first.service.reassigner.stop(TIMEOUT)  # or it writes what it knows
            session_of(first.service).client.set(f"{STATUS}/{planted}{child}", b"")
        with in_process(three_brokers, chroot=chroot) as second:
            mover = Mover(second)
            # Another request has begun and ended beside it: nothing was taken back.
            assert set(
                outcomes(mover.ended(mover.submit(Row(quick, 0, [2, 1]), throttle=PACE))).values()
            ) == {"NONE"}
            assert judge.ongoing(slow) == {0: (2,)}
            assert judge.throttles(slow) == throttled
            assert judge.reassignments.alter({(slow, 0): None}) == {}
            await_true(lambda: judge.throttles(slow, quick) == free, "the throttles are taken back")
    finally:
        judge.close()


@pytest.mark.parametrize("child", ["", pytest.param("/moves", marks=pytest.mark.long)])
def test_a_request_that_is_repaired_in_mid_move_goes_on(three_brokers: LocalCluster, child: str) -> None:
    judge = Judge(three_brokers)
    try:
        with in_process(three_brokers) as controller:
            slow, quick = judge.create([1], size=SIZE), judge.create([1])
            mover = Mover(controller)
            planted = mover.submit(Row(slow, 0, [2]), throttle=PACE)
            mover.moving(planted)
            client = session_of(controller.service).client
            controller.service.reassigner.stop(TIMEOUT)  # or it writes what it knows
            whole = client.get(f"{STATUS}/{planted}{child}")[0]
            client.set(f"{STATUS}/{planted}{child}", b"")
            controller.service.reassigner.resume_all()
            moved(mover, quick, 2)
            reassigner = controller.service.reassigner
            assert reassigner.snapshot(planted) is None
            client.set(f"{STATUS}/{planted}{child}", whole)
            await_true(lambda: reassigner.snapshot(planted) is not None, "the request goes on")
            mover.cancel(planted)
            assert mover.ended(planted).state == "cancelled"
    finally:
        judge.close()


def moved(mover: Mover, topic: str, broker: int) -> int:
    """The id of a request that has moved the topic's partition."""
    request_id = mover.submit(Row(topic, 0, [broker]))
    assert set(outcomes(mover.ended(request_id)).values()) == {"NONE"}
    return request_id
