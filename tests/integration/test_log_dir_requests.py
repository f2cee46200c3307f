"""Moves between log directories as requests: resumed, cancelled, replaced, throttled, refused."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.reassign.throttle.policy import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LOG_DIRS_RATE,
)
from spark_ordered_kafka.controller.settings import ReassignSettings
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.configs import BrokerConfigs, TopicConfigs
from spark_ordered_kafka.local import LocalCluster
from tests.integration.controllers import in_process
from tests.integration.reassigning import Judge, Mover, Row, cleaned, outcomes
from tests.integration.test_reassign_faults import dying, threads_end
from tests.servers import TIMEOUT, await_true, unique_name

# Two partitions at a time of each broker, so that others wait.
SETTINGS = ReassignSettings(max_moves_per_broker=2, broker_timeout=5.0)
SIZE, PACE = 10_000_000, 50_000
"""Bytes of a partition, and bytes per second at which its copy takes more than a minute.

A copy fetches 1 MB at once, and a broker forgets after 11 seconds what it has copied: a slower pace would take as long.
"""
SLOWLY = {"replica_alter_log_dirs_throttle": PACE}
OPERATORS = "9999999"
"""A throttle that was there before."""


@pytest.fixture(scope="module")
def mover(three_brokers: LocalCluster) -> Iterator[Mover]:
    with in_process(three_brokers, reassign=SETTINGS) as controller, cleaned(Mover(controller)) as mover:
        yield mover


@pytest.fixture(scope="module")
def admin(three_brokers: LocalCluster) -> Iterator[KafkaAdmin]:
    opened = KafkaAdmin(three_brokers.bootstrap_servers, timeout=TIMEOUT)
    yield opened
    opened.close()


@pytest.fixture
def throttled(admin: KafkaAdmin, judge: Judge) -> Iterator[None]:
    """Brokers 1 and 2 have a throttle of their operator's; it is there again when the test has ended."""
    configs = BrokerConfigs(admin.requests, TIMEOUT)
    assert configs.alter({broker: {LOG_DIRS_RATE: OPERATORS} for broker in (1, 2)}) == {}
    await_true(lambda: judge.throttles() == limits(), "the operator's throttles")
    yield
    try:
        await_true(lambda: judge.throttles() == limits(), "the operator's throttles again")
    finally:
        assert configs.alter({broker: {LOG_DIRS_RATE: None} for broker in (1, 2)}) == {}


def limits(rate: object = OPERATORS, *brokers: int) -> dict[str, str]:
    """The throttles of brokers, those of ``brokers`` at ``rate``."""
    return {f"{one} {LOG_DIRS_RATE}": str(rate) if one in brokers else OPERATORS for one in (1, 2)}


def replica(topic: str, broker: int, log_dir: str | None, partition: int = 0) -> dict[str, Any]:
    return {"topic": topic, "partition": partition, "broker": broker, "log_dir": log_dir}


def asked(mover: Mover, *replicas: Mapping[str, Any], key: str | None = None, **fields: Any) -> Any:
    headers = {} if key is None else {"Idempotency-Key": key}
    body = {"replicas": list(replicas), **fields}
    answer = mover.controller.http.post("/v1/replica-log-dirs", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    return schemas.ReplicaLogDirsResult.model_validate_json(answer.content)


def taken(mover: Mover, *replicas: Mapping[str, Any], **more: Any) -> int:
    """The id of the request for valid moves."""
    answer = asked(mover, *replicas, **more)
    assert [row.error for row in answer.replicas] == ["NONE"] * len(replicas), answer
    assert answer.request_id is not None
    return int(answer.request_id)


def refused(mover: Mover, *replicas: Mapping[str, Any]) -> list[tuple[str, str]]:
    answer = asked(mover, *replicas)
    assert answer.request_id is None
    return [(row.error, row.error_message or "") for row in answer.replicas]


# -- controllers that die ---------------------------------------------------------------------------------------------


@pytest.mark.long
@threads_end
def test_a_controller_dies_in_the_middle_and_the_next_one_completes_the_move(
    three_brokers: LocalCluster, judge: Judge, throttled: None
) -> None:
    topic = judge.create([1, 2], size=SIZE)
    here = {broker: judge.where(topic, 0, broker)[0] for broker in (1, 2)}
    there = {broker: judge.other(topic, 0, broker) for broker in (1, 2)}
    chroot = unique_name("deaths")
    requests: list[int] = []

    def submit(mover: Mover) -> None:
        rows = [replica(topic, broker, there[broker]) for broker in (1, 2)]
        # Nothing begins, since this controller has died by then. The brokers have the same time to answer.
        requests.append(taken(mover, *rows, timeout_ms=6000, **SLOWLY))

    dying(three_brokers, chroot, "throttle", submit)
    for step in ("intend", "place", "store"):
        dying(three_brokers, chroot, step)
    for broker in (1, 2):
        assert judge.where(topic, 0, broker) == (here[broker], there[broker])
    assert judge.throttles() == limits(PACE, 1, 2)
    with in_process(three_brokers, chroot=chroot, reassign=SETTINGS) as controller:
        mover = Mover(controller)
        mover.throttle(requests[0], replica_alter_log_dirs_throttle=None)
        view = mover.ended(requests[0])
    assert (view.state, outcomes(view)) == ("done", {(0, 1): "NONE", (0, 2): "NONE"})
    for broker in (1, 2):
        assert judge.where(topic, 0, broker) == (there[broker], None)
    # Leaders stay who they are.
    assert judge.leaders(topic) == [1]


class Command:
    """Runs ``ordered-kafka`` as a process."""

    def __init__(self, url: str) -> None:
        self._environment = os.environ | {"ORDERED_KAFKA_CONTROLLER": url}

    def __call__(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "spark_ordered_kafka.cli", *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=2 * TIMEOUT,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.mark.long
def test_the_process_of_a_controller_is_killed_and_another_one_completes_the_move(
    three_brokers: LocalCluster, judge: Judge, throttled: None
) -> None:
    topic = judge.create([2, 1], size=SIZE)
    here, there = judge.where(topic, 0, 2)[0], judge.other(topic, 0, 2)
    run = Command(three_brokers.controller_url)
    place = ("--topic", topic, "--partition", "0", "--broker", "2", "--log-dir", there)
    limit = "--replica-alter-log-dirs-throttle"
    out = run("log-dirs", "move", *place, limit, str(PACE), "--no-wait")
    (request_id,) = re.findall(r"^Request id: (\d+)$", out, re.MULTILINE)
    await_true(lambda: judge.where(topic, 0, 2) == (here, there), "a copy")
    three_brokers.kill("controller-1")
    try:
        assert judge.where(topic, 0, 2) == (here, there)
        assert judge.throttles() == limits(PACE, 2)
    finally:
        three_brokers.start("controller-1")
    run("reassign", "throttle", "--request", request_id, limit, "none")
    assert f"request {request_id} done: 1 of 1 partition done" in run(
        "reassign", "status", "--request", request_id, "--follow"
    )
    assert judge.where(topic, 0, 2) == (there, None)
    assert "is there" in run("log-dirs", "verify", *place)


# -- cancelled, replaced, repeated ------------------------------------------------------------------------------------


def test_a_cancel_leaves_replicas_where_they_are_and_restores_throttles(
    mover: Mover, judge: Judge, throttled: None
) -> None:
    topic = judge.create([1, 2], size=SIZE)
    rows = [replica(topic, broker, judge.other(topic, 0, broker)) for broker in (1, 2)]
    here = [judge.where(topic, 0, broker)[0] for broker in (1, 2)]
    request = taken(mover, *rows, **SLOWLY)
    # It has begun when it is answered.
    for row, path in zip(rows, here, strict=True):
        assert judge.where(topic, 0, row["broker"]) == (path, row["log_dir"])
    view = mover.view(request)
    assert view.replica_alter_log_dirs_throttle == PACE
    assert judge.throttles() == limits(PACE, 1, 2)
    mover.cancel(request)
    view = mover.ended(request)
    assert outcomes(view) == dict.fromkeys([(0, 1), (0, 2)], "OPERATION_NOT_ATTEMPTED")
    assert [judge.where(topic, 0, broker) for broker in (1, 2)] == [(path, None) for path in here]


@pytest.mark.long
def test_one_replica_goes_back_and_the_others_of_its_request_continue(mover: Mover, judge: Judge) -> None:
    topic = judge.create([1, 2], size=SIZE)
    here, there = judge.where(topic, 0, 1)[0], judge.other(topic, 0, 1)
    follower = replica(topic, 2, judge.other(topic, 0, 2))
    both = [replica(topic, 1, there), follower]
    first = taken(mover, *both, **SLOWLY)
    # The same again, whole or in part, is the same request.
    assert taken(mover, *both) == taken(mover, follower) == first
    # Which keeps its limit, and says so.
    assert asked(mover, *both, replica_alter_log_dirs_throttle=PACE).warnings == []
    again = asked(mover, *both, replica_alter_log_dirs_throttle=PACE + 1)
    assert (again.request_id, len(again.warnings)) == (first, 1)
    assert f"reassign throttle --request {first} " in again.warnings[0]
    assert mover.view(first).replica_alter_log_dirs_throttle == PACE
    second = taken(mover, replica(topic, 1, here), **SLOWLY)
    assert second == first + 1
    view = mover.ended(first)
    assert outcomes(view) == dict.fromkeys([(0, 1), (0, 2)], "OPERATION_NOT_ATTEMPTED")
    assert {row.error_message for row in view.replicas} == {f"request {second} has replaced it"}
    await_true(lambda: judge.where(topic, 0, 1) == (here, None), "the end of the leader's copy")
    assert judge.where(topic, 0, 2)[1] == follower["log_dir"]
    mover.throttle(second, replica_alter_log_dirs_throttle=None)
    view = mover.ended(second)
    assert (view.state, outcomes(view)) == ("done", {(0, 2): "NONE"})
    assert judge.where(topic, 0, 1) == (here, None)
    assert judge.where(topic, 0, 2) == (follower["log_dir"], None)
    # It is undone like any other request, the leader included, which it has not moved.
    undone = mover.controller.http.post("/v1/reassignments", json={"rollback": second}).json()["request_id"]
    assert mover.ended(undone).state == "done"
    assert judge.where(topic, 0, 1) == (here, None)
    assert judge.where(topic, 0, 2)[0] != follower["log_dir"]


@pytest.mark.long
def test_a_request_with_the_key_of_an_earlier_one_is_that_one(mover: Mover, judge: Judge) -> None:
    topic = judge.create([1])
    # In this order: the broker knows the topic before it has made the log.
    there, here = judge.other(topic, 0, 1), judge.where(topic, 0, 1)[0]
    key = unique_name("key")
    request = taken(mover, replica(topic, 1, there), key=key)
    assert mover.ended(request).state == "done"
    back = taken(mover, replica(topic, 1, here))
    assert mover.ended(back).state == "done"
    assert taken(mover, replica(topic, 1, there), key=key) == request
    assert judge.where(topic, 0, 1) == (here, None)
    # Without a key it is another one, and none where nothing is to be done.
    assert asked(mover, replica(topic, 1, here)).request_id is None
    assert asked(mover, replica(topic, 1, there), validate_only=True).request_id is None
    assert taken(mover, replica(topic, 1, there)) == back + 1


# -- what else goes on ------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_partition_that_is_being_reassigned_is_refused_and_by_whom(mover: Mover, judge: Judge) -> None:
    topic = judge.create([1], [1], size=SIZE)
    row, free = (replica(topic, 1, judge.other(topic, p, 1), p) for p in (0, 1))
    request = mover.submit(Row(topic, 0, [3]), throttle=PACE)
    mover.moving(request)
    (error, message), (also, _) = refused(mover, row, free)
    assert (error, also) == ("REASSIGNMENT_IN_PROGRESS", "INVALID_REQUEST")
    assert f"by request {request}: wait for its end, or cancel it" in message
    # And the other way round.
    move = taken(mover, free, **SLOWLY)
    answer = mover.controller.http.post(
        "/v1/reassignments", json={"partitions": [Row(topic, 1, [3]).json], "additional": True}
    )
    (refusal,) = answer.json()["partitions"]
    assert (refusal["error"], f"request {move}" in refusal["error_message"]) == (
        "REASSIGNMENT_IN_PROGRESS",
        True,
    )
    # What the error says.
    mover.cancel(request)
    mover.ended(request)
    later = taken(mover, row, **SLOWLY)
    assert later > move
    for one in (move, later):
        mover.cancel(one)
        mover.ended(one)


def test_what_another_tool_reassigns_is_refused(mover: Mover, judge: Judge, admin: KafkaAdmin) -> None:
    topic = judge.create([1], size=SIZE)
    row = replica(topic, 1, judge.other(topic, 0, 1))
    configs = BrokerConfigs(admin.requests, TIMEOUT)
    TopicConfigs(admin.requests, TIMEOUT).alter(topic, {FOLLOWER_REPLICAS: "*"})
    assert configs.alter({3: {FOLLOWER_RATE: str(PACE)}}) == {}
    # A broker that hears of the move before it hears of the throttle has copied all before anyone asks.
    limited = {f"{topic} {FOLLOWER_REPLICAS}": "*", f"3 {FOLLOWER_RATE}": str(PACE)}
    await_true(lambda: judge.throttles(topic) == limited, "the throttle of broker 3")
    try:
        assert judge.reassignments.alter({(topic, 0): [3]}) == {}
        ((error, message),) = refused(mover, row)
        assert (error, "by another tool: wait for its end" in message) == ("REASSIGNMENT_IN_PROGRESS", True)
        assert judge.reassignments.alter({(topic, 0): None}) == {}
    finally:
        assert configs.alter({3: {FOLLOWER_RATE: None}}) == {}
    await_true(lambda: judge.ongoing(topic) == {}, "the end of theirs")
    judge.await_replicas(topic, [(1,)])
    assert mover.ended(taken(mover, row)).state == "done"


@pytest.mark.long
def test_what_waits_for_others_is_answered_in_time_and_done_in_the_end(mover: Mover, judge: Judge) -> None:
    topics = [judge.create([3], size=SIZE) for _ in range(3)]
    rows = [replica(topic, 3, judge.other(topic, 0, 3)) for topic in topics]
    first = taken(mover, *rows, **SLOWLY)
    # The answer comes with the first that moves.
    mover.until(first, lambda view: (view.moving, view.waiting) == (2, 1), "two moves, and one that waits")
    other = judge.create([3])
    second = taken(mover, replica(other, 3, judge.other(other, 0, 3)), timeout_ms=3000)
    assert mover.view(second).waiting == 1
    mover.throttle(first, replica_alter_log_dirs_throttle=None)
    assert [mover.ended(request).state for request in (first, second)] == ["done", "done"]
    assert [judge.where(row["topic"], 0, 3) for row in rows] == [(row["log_dir"], None) for row in rows]


@pytest.mark.long
def test_a_broker_that_dies_ends_its_move_and_the_rest_is_done(
    three_brokers: LocalCluster, mover: Mover, judge: Judge
) -> None:
    topic = judge.create([3, 1], [1, 3], size=SIZE)
    dead = replica(topic, 3, judge.other(topic, 0, 3))
    rest = replica(topic, 1, judge.other(topic, 1, 1), 1)
    request = taken(mover, dead, rest, **SLOWLY)
    three_brokers.kill("broker-3")
    try:
        view = mover.until(request, lambda view: view.failed == 1, "the end of what the dead broker copies")
        assert outcomes(view) == {(0, 3): "BROKER_NOT_AVAILABLE", (1, 1): "REASSIGNMENT_IN_PROGRESS"}
        mover.throttle(request, replica_alter_log_dirs_throttle=None)
        assert mover.ended(request).state == "failed"
        assert judge.where(topic, 1, 1) == (rest["log_dir"], None)

        def is_said_to_be_down() -> bool:
            ((error, message),) = refused(mover, dead)
            return error == "UNKNOWN_MEMBER_ID" and "broker 3 is down" in message

        # Brokers hear of it one after another.
        await_true(is_said_to_be_down, "broker 3 is down")
    finally:
        three_brokers.start("broker-3")
    await_true(lambda: judge.answers(3), "broker 3 again")
    # The broker goes on copying by itself, and the same request is what follows it to its end.
    await_true(lambda: judge.where(topic, 0, 3)[0] is not None, "the replica on broker 3")
    again = asked(mover, dead).request_id
    assert again is None or mover.ended(again).state == "done"
    assert judge.where(topic, 0, 3) == (dead["log_dir"], None)
    await_true(lambda: judge.throttles() == {}, "the end of the throttles")
