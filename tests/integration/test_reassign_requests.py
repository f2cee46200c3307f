"""Requests to reassign partitions on three brokers: taken whole or not at all, shown, repeated, undone, verified."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from spark_ordered_kafka.controller.reassign.requests.metadata_agreement import MetadataAgreement
from spark_ordered_kafka.controller.state.reassignments import ReassignmentStore
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.configs import BrokerConfigs, TopicConfigs
from spark_ordered_kafka.local import LocalCluster
from tests.inside import session_of
from tests.integration.controllers import InProcess, in_process
from tests.integration.policies import ASKED
from tests.integration.reassigning import SIZE, SLOW, Judge, Mover, Row, create_placed, verified
from tests.servers import TIMEOUT, await_true, hosted_replicas, unique_name

PATH = "/v1/reassignments"
CHROOT = unique_name("requests")


@pytest.fixture(scope="module")
def moving(three_brokers: LocalCluster) -> Iterator[InProcess]:
    policy = "tests.integration.policies.Recorder"
    with in_process(three_brokers, topic_policy_class=policy, chroot=CHROOT) as controller:
        yield controller


@pytest.fixture
def mover(moving: InProcess) -> Mover:
    return Mover(moving)


def post(controller: InProcess, body: dict[str, Any], **headers: str) -> dict[str, Any]:
    answer = controller.http.post(PATH, json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    parsed: dict[str, Any] = answer.json()
    return parsed


def plan(*rows: Row) -> dict[str, Any]:
    return {"version": 1, "partitions": [row.json for row in rows]}


def named(answer: dict[str, Any]) -> list[tuple[int, str]]:
    return [(row["partition"], row["error"]) for row in answer["partitions"]]


def refusal(controller: InProcess, body: dict[str, Any]) -> tuple[int, str, str]:
    answer = controller.http.post(PATH, json=body)
    return answer.status_code, answer.json()["error"], answer.json()["error_message"]


def test_whole_or_nothing(moving: InProcess, judge: Judge) -> None:
    topic = judge.create([1, 2], [2, 3], [3, 1])
    before = moving.http.get(PATH).json()["requests"]
    rows = [Row(topic, 0, [3, 2]), Row(topic, 1, [2, 7]), Row(topic, 2, [3]), Row(topic, 9, [1, 2])]
    answer = post(moving, plan(*rows))
    assert answer["request_id"] is None
    assert named(answer) == [
        (0, "INVALID_REQUEST"),
        (1, "UNKNOWN_MEMBER_ID"),
        (2, "INVALID_REPLICA_ASSIGNMENT"),
        (9, "INVALID_REPLICA_ASSIGNMENT"),
    ]
    assert answer["partitions"][0]["error_message"].startswith("not started: other partitions")
    nothing = post(moving, plan(Row(topic, 0, [1, 2])))
    assert (nothing["request_id"], named(nothing)) == (None, [(0, "INVALID_REQUEST")])
    checked = post(moving, {**plan(Row(topic, 0, [3, 2])), "validate_only": True})
    assert (checked["request_id"], named(checked)) == (None, [(0, "NONE")])
    assert judge.replicas(topic) == [(1, 2), (2, 3), (3, 1)]
    assert moving.http.get(PATH).json() == {"requests": before, "ongoing": []}


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({}, "give partitions or rollback, one of the two"),
        ({"partitions": [], "rollback": 1}, "give partitions or rollback, one of the two"),
        ({"partitions": []}, "partitions is empty"),
        ({"rollback": 10**6}, "rollback has the value 1000000: no such reassignment is kept"),
        ({"rollback": -1}, "rollback has the value -1"),
    ],
)
def test_what_is_wrong_with_the_whole(moving: InProcess, body: dict[str, Any], told: str) -> None:
    status, error, message = refusal(moving, body)
    assert (status, error) == (400, "INVALID_REQUEST")
    assert message.startswith(told)


def test_a_request_from_its_id_to_its_undoing(moving: InProcess, mover: Mover, judge: Judge) -> None:
    topic = judge.create([1, 2], [2, 3], [1, 2])
    rows = Row(topic, 0, [3, 2]), Row(topic, 1, [2]), Row(topic, 2, [1, 2])
    assert verified(moving, *rows) == (False, ["differs", "differs", "completed"])
    first = mover.submit(*rows, allow_replication_factor_change=True, additional=False)
    view = mover.ended(first)
    assert (view.state, view.done, view.failed, view.rollback_of) == ("done", 3, 0, None)
    judge.await_replicas(topic, [(3, 2), (2,), (1, 2)])
    assert verified(moving, *rows) == (True, ["completed"] * 3)
    assert mover.view(first) == view

    back = post(moving, {"rollback": first})
    assert named(back) == [(0, "NONE"), (1, "NONE")]
    assert back["request_id"] > first
    ended = mover.ended(back["request_id"])
    assert (ended.state, ended.rollback_of) == ("done", first)
    judge.await_replicas(topic, [(1, 2), (2, 3), (1, 2)])
    latest = moving.http.get(f"{PATH}/latest").json()
    assert latest["request_id"] == back["request_id"]
    listed = [row["request_id"] for row in moving.http.get(PATH).json()["requests"]]
    assert listed[:2] == [back["request_id"], first]
    status, error, message = refusal(moving, {"rollback": first})
    assert (status, error) == (400, "INVALID_REQUEST")
    assert "nothing is to be undone" in message


def test_what_has_ended_is_neither_throttled_nor_cancelled(
    moving: InProcess, mover: Mover, judge: Judge
) -> None:
    topic = judge.create([1])
    ended = mover.ended(mover.submit(Row(topic, 0, [2])))
    answer = moving.http.patch(f"{PATH}/{ended.request_id}", json={"throttle": 1000})
    assert (answer.status_code, answer.json()["error"]) == (400, "NO_REASSIGNMENT_IN_PROGRESS")
    cancelled = moving.http.delete(f"{PATH}/{ended.request_id}").json()
    assert named(cancelled) == [(0, "NO_REASSIGNMENT_IN_PROGRESS")]
    assert "has ended: done" in cancelled["partitions"][0]["error_message"]
    assert mover.view(ended.request_id) == ended


@pytest.mark.long
def test_a_follower_tells_what_is_stored(
    three_brokers: LocalCluster, moving: InProcess, mover: Mover, judge: Judge
) -> None:
    topic = judge.create([1], [1], size=SIZE)
    request = mover.submit(Row(topic, 0, [2]), Row(topic, 1, [3]), throttle=SLOW)
    mover.moving(request)
    with in_process(three_brokers, chroot=CHROOT, await_active=False) as follower:
        seen = Mover(follower)
        view = seen.until(request, lambda view: view.numerator > 0, "bytes are there")
        assert not follower.service.active
        assert (view.state, view.moving, view.rate, view.eta_seconds) == ("running", 2, 0.0, None)
        mover.throttle(request, throttle=None)
        ended = mover.ended(request)
        assert seen.view(request) == ended
        assert ended.numerator == ended.denominator >= 2 * SIZE
        assert follower.http.get(PATH).json() == moving.http.get(PATH).json()
        assert follower.http.get(f"{PATH}/latest").json()["request_id"] == request


def test_a_request_that_comes_again(moving: InProcess, mover: Mover, judge: Judge) -> None:
    topic = judge.create([1], [1])
    key = {"Idempotency-Key": unique_name("key")}
    body = plan(Row(topic, 0, [2]))
    first = post(moving, body, **key)
    assert post(moving, body, **key) == first
    mover.ended(first["request_id"])
    assert post(moving, body, **key) == first
    # Another request, though with the same key; and the same one without a key.
    other = post(moving, plan(Row(topic, 1, [3])), **key)
    assert other["request_id"] > first["request_id"]
    mover.ended(other["request_id"])
    assert named(post(moving, body)) == [(0, "INVALID_REQUEST")]


@pytest.mark.long
def test_one_that_goes_on(moving: InProcess, mover: Mover, judge: Judge) -> None:
    """It holds up others, its throttle can be changed, it cannot be undone; then it is cancelled."""
    topic = judge.create([1], [1], size=SIZE)
    request = mover.submit(Row(topic, 0, [1, 2]), throttle=SLOW, allow_replication_factor_change=True)
    mover.moving(request)
    held_up = post(moving, plan(Row(topic, 1, [3])))
    assert (held_up["request_id"], named(held_up)) == (None, [(1, "REASSIGNMENT_IN_PROGRESS")])
    going = f"{topic}-0 (adding [2], removing [], request {request})"
    assert going in held_up["partitions"][0]["error_message"]
    same = post(moving, {**plan(Row(topic, 0, [3]), Row(topic, 1, [3])), "additional": True})
    assert named(same) == [(0, "REASSIGNMENT_IN_PROGRESS"), (1, "INVALID_REQUEST")]
    assert f"{topic}-0 is being reassigned: adding [2]" in same["partitions"][0]["error_message"]
    assert verified(moving, Row(topic, 0, [1, 2])) == (False, ["in_progress"])
    ongoing = moving.http.get(PATH).json()["ongoing"]
    assert [(row["topic"], row["adding_replicas"], row["request_id"]) for row in ongoing] == [
        (topic, [2], request)
    ]
    status, _, message = refusal(moving, {"rollback": request})
    assert (status, message) == (
        400,
        f"rollback has the value {request}: that request is running: cancel it, or wait for its end",
    )
    answer = moving.http.patch(f"{PATH}/latest", json={"throttle": 2 * SLOW, "validate_only": True})
    assert answer.json()["throttle"] == 2 * SLOW
    assert mover.view(request).throttle == SLOW
    for limits in ((SLOW + 1, 7), (SLOW, None)):
        mover.throttle(request, throttle=limits[0], replica_alter_log_dirs_throttle=limits[1])
        mover.until(
            request,
            lambda view, limits=limits: limits == (view.throttle, view.replica_alter_log_dirs_throttle),  # type: ignore[misc]
            f"throttles {limits}",
        )
    checked = moving.http.delete(f"{PATH}/{request}?validate_only=true").json()
    assert named(checked) == [(0, "NONE")]
    mover.cancel(request)
    ended = mover.ended(request)
    assert (ended.state, ended.throttle) == ("cancelled", SLOW)
    judge.await_replicas(topic, [(1,), (1,)])


def test_reassignments_of_somebody_else_are_noticed(
    moving: InProcess, mover: Mover, judge: Judge, three_brokers: LocalCluster
) -> None:
    foreign, own = judge.create([1], size=SIZE), judge.create([2])
    kafka = KafkaAdmin(three_brokers.bootstrap_servers, timeout=TIMEOUT)
    topics, brokers = TopicConfigs(kafka.requests, TIMEOUT), BrokerConfigs(kafka.requests, TIMEOUT)
    throttled, rate = "leader.replication.throttled.replicas", "leader.replication.throttled.rate"
    try:
        assert topics.alter_many({foreign: {throttled: "*"}}) == {}
        assert brokers.alter({1: {rate: "100"}}) == {}
        await_true(lambda: brokers.describe_own([1]) == {1: {rate: "100"}}, "the throttle is there")
        judge.reassignments.start(foreign, {0: [3]})
        answer = post(moving, plan(Row(own, 0, [3])))
        assert (answer["request_id"], named(answer)) == (None, [(0, "REASSIGNMENT_IN_PROGRESS")])
        assert f"{foreign}-0 (adding [3], removing [1])" in answer["partitions"][0]["error_message"]
        ongoing = moving.http.get(PATH).json()["ongoing"]
        assert [(row["topic"], row["request_id"]) for row in ongoing] == [(foreign, None)]
        answer = post(moving, {**plan(Row(foreign, 0, [2])), "additional": True})
        assert named(answer) == [(0, "REASSIGNMENT_IN_PROGRESS")]
        assert mover.ended(mover.submit(Row(own, 0, [3]))).state == "done"
        assert judge.ongoing(foreign) == {0: (3,)}
    finally:
        judge.reassignments.alter({(foreign, 0): None})
        brokers.alter({1: {rate: None}})
        topics.alter_many({foreign: {throttled: None}})
        kafka.close()
    await_true(lambda: not judge.ongoing(foreign), "nothing goes on")


def test_log_dirs_are_undone_too(moving: InProcess, mover: Mover, judge: Judge) -> None:
    topic = judge.create([1, 2], [1, 2], size=100_000)
    here, there = judge.where(topic, 0, 1)[0], judge.other(topic, 0, 1)
    second, target = judge.where(topic, 1, 2)[0], judge.paths(3)[-1]
    rows = Row(topic, 0, [1, 2], [there, "any"]), Row(topic, 1, [1, 3], ["any", target])
    assert verified(moving, *rows)[0] is False
    request = mover.submit(*rows)
    assert mover.ended(request).state == "done"
    assert (judge.where(topic, 0, 1)[0], judge.where(topic, 1, 3)[0]) == (there, target)
    assert verified(moving, *rows) == (True, ["completed"] * 2)

    back = post(moving, {"rollback": request})
    assert named(back) == [(0, "NONE"), (1, "NONE")]
    assert mover.ended(back["request_id"]).state == "done"
    assert (judge.where(topic, 0, 1)[0], judge.where(topic, 1, 2)[0]) == (here, second)
    judge.await_replicas(topic, [(1, 2), (1, 2)])


def test_wrong_log_dirs(moving: InProcess, judge: Judge) -> None:
    topic = judge.create([1], [1])
    answer = post(moving, plan(Row(topic, 0, [2], ["/nowhere"]), Row(topic, 1, [3], ["relative"])))
    assert named(answer) == [(0, "LOG_DIR_NOT_FOUND"), (1, "INVALID_REPLICA_ASSIGNMENT")]
    assert judge.paths(2)[0] in answer["partitions"][0]["error_message"]


def test_a_topic_made_anew_is_not_touched_by_an_old_request(
    moving: InProcess, mover: Mover, judge: Judge, three_brokers: LocalCluster
) -> None:
    gone, kept = judge.create([1]), judge.create([1])
    request = mover.submit(Row(gone, 0, [2]), Row(kept, 0, [2]))
    assert mover.ended(request).state == "done"
    admin = AdminClient({"bootstrap.servers": three_brokers.bootstrap_servers})
    admin.delete_topics([gone])[gone].result(TIMEOUT)
    kafka = KafkaAdmin(three_brokers.bootstrap_servers, timeout=TIMEOUT)
    create_placed(kafka, gone, [[3]])
    kafka.close()
    back = post(moving, {"rollback": request})
    assert [row["topic"] for row in back["partitions"]] == [kept]
    assert back["warnings"] == [
        f"partitions of request {request} are gone since, with their topics: {gone}-0"
    ]
    assert mover.ended(back["request_id"]).warnings == back["warnings"]
    judge.await_replicas(kept, [(1,)])
    judge.await_replicas(gone, [(3,)])


def test_guard_rails(moving: InProcess, mover: Mover, judge: Judge) -> None:
    """Of two requests that fit each for itself the second one is refused, while the first has not begun."""
    topic = judge.create([1], [1], [1], [1])

    def hosted() -> dict[int, int]:
        return {row["id"]: row["hosted"] for row in moving.http.get("/v1/brokers").json()["brokers"]}

    # What earlier requests were promised counts for some seconds after their end.
    counted: list[int] = []

    def is_settled() -> bool:
        found = hosted()
        counted[:] = [found[3]]
        return found == hosted_replicas(moving.service.admin)

    await_true(is_settled, "nothing is promised any more")
    most = counted[0] + 1
    limit = "/v1/brokers/3/guard-rails"
    may_begin = threading.Event()

    def hold(_: str) -> None:
        may_begin.wait(TIMEOUT)

    try:
        moving.http.put(limit, json={"max_partitions": most}).raise_for_status()
        answer = post(moving, plan(Row(topic, 0, [3]), Row(topic, 1, [3]), Row(topic, 2, [2])))
        assert answer["request_id"] is None
        assert named(answer) == [(0, "GUARD_RAILS"), (1, "GUARD_RAILS"), (2, "INVALID_REQUEST")]
        assert "broker 3 would take 2 more" in answer["partitions"][0]["error_message"]
        checked = post(moving, {**plan(Row(topic, 0, [3])), "validate_only": True})
        assert named(checked) == [(0, "NONE")]
        moving.before_step = hold
        first = mover.submit(Row(topic, 0, [3]))
        second = post(moving, {**plan(Row(topic, 1, [3])), "additional": True})
        assert judge.ongoing(topic) == {}, "Kafka knows of neither"
        assert named(second) == [(1, "GUARD_RAILS")], "the first one has what was left"
        may_begin.set()
        mover.ended(first)
    finally:
        may_begin.set()
        moving.before_step = lambda _: None
        moving.http.put(limit, json={"max_partitions": None}).raise_for_status()
    judge.await_replicas(topic, [(3,), (1,), (1,), (1,)])


def test_the_policy_sees_other_replication_factors_and_other_brokers(moving: InProcess) -> None:
    vetoed = unique_name("veto")
    kept = moving.create(2, "kept", replication_factor=1)
    create_placed(moving.service.admin, vetoed, [[1]])
    adopted = moving.http.post(f"/v1/topics/{vetoed}/adopt", json={"hash": "murmur2"})
    assert adopted.status_code == 200, adopted.text
    del ASKED[:]
    body = {**plan(Row(vetoed, 0, [1, 2]), Row(kept, 0, [2, 3])), "allow_replication_factor_change": True}
    answer = post(moving, body)
    assert [(row["topic"], row["error"]) for row in answer["partitions"]] == [
        (vetoed, "POLICY_VIOLATION"),
        (kept, "INVALID_REQUEST"),
    ]
    asked = {one.topic: one for one in ASKED}
    assert (asked[kept].operation, asked[kept].replication_factor) == ("replication_factor", 2)
    assert asked[kept].assignments == {0: (2, 3)}
    # Where only the place changes, it is asked as well.
    (row,) = post(moving, plan(Row(vetoed, 0, [2])))["partitions"]
    assert (row["error"], ASKED[-1].operation) == ("POLICY_VIOLATION", "reassignment")


@pytest.mark.parametrize("request_id", ["0", "-1", "x", "1.5", "99999999999999999999", "latest%20"])
@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE"])
def test_unknown_ids(moving: InProcess, method: str, request_id: str) -> None:
    body = {"json": {"throttle": 1}} if method == "PATCH" else {}
    answer = moving.http.request(method, f"{PATH}/{request_id}", **body)  # type: ignore[arg-type]
    assert (answer.status_code, answer.json()["error"]) == (400, "INVALID_REQUEST")
    assert answer.json()["error_message"].startswith("request_id has the value")


def test_verifying_what_is_not_there(moving: InProcess, judge: Judge) -> None:
    topic = judge.create([1])
    elsewhere = judge.other(topic, 0, 1)
    rows = [
        Row(topic, 0, [1], [elsewhere]),
        Row(topic, 1, [1]),
        Row("none", 0, [1]),
        Row("no name", 0, [1], ["/x"]),
    ]
    answer = moving.http.post(f"{PATH}/verify", json=plan(*rows)).json()
    assert [row["status"] for row in answer["partitions"]] == ["completed", "unknown", "unknown", "unknown"]
    assert answer["complete"] is False
    (replica,) = answer["partitions"][0]["log_dirs"]
    assert (replica["status"], replica["current_log_dir"]) == ("differs", judge.where(topic, 0, 1)[0])
    assert answer["partitions"][3]["log_dirs"][0]["status"] == "unknown"
    for wrong, told in (
        (plan(), "partitions is empty"),
        (plan(Row(topic, 0, [1]), Row(topic, 0, [1])), f"partitions names {topic}-0 2 times"),
        (plan(Row(topic, 0, [1], [])), f"log_dirs of partition {topic}-0 has 0 entries"),
    ):
        refused = moving.http.post(f"{PATH}/verify", json=wrong)
        assert (refused.status_code, refused.json()["error"]) == (400, "INVALID_REQUEST")
        assert refused.json()["error_message"].startswith(told)


def test_what_a_request_has_just_done_is_remembered(moving: InProcess, mover: Mover, judge: Judge) -> None:
    topic = judge.create([1], [1])
    request = mover.submit(Row(topic, 0, [2]), Row(topic, 1, [1]))
    assert mover.ended(request).state == "done"
    service = moving.service
    store = ReassignmentStore(session_of(service))
    for seconds, remembered in ((0.0, {(topic, 0)}), (60.0, set())):
        now = mover.view(request).ended_at
        assert now is not None
        agreement = MetadataAgreement(
            service.admin.requests, store, partial(float, now + seconds), timeout=TIMEOUT
        )
        assert agreement.moved({(topic, 0), ("other", 0)}).keys() == remembered
    # It is listed without its moves.
    assert store.records()[request].sums is not None
