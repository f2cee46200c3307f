"""A topic policy in a running controller: it sees every request, and what it vetoes is not done."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from spark_ordered_kafka.controller.policy import TopicRequest
from spark_ordered_kafka.kafka.configs import TopicConfigs
from spark_ordered_kafka.local import LocalCluster
from tests.inside import znodes_of
from tests.integration.controllers import InProcess, exists, in_process, several
from tests.integration.policies import ASKED
from tests.servers import TIMEOUT, await_true, create_topic, unique_name


@pytest.fixture(scope="module")
def controller(kafka_cluster: LocalCluster) -> Iterator[InProcess]:
    with in_process(kafka_cluster, topic_policy_class="tests.integration.policies.Recorder") as running:
        yield running


@pytest.fixture(autouse=True)
def _nothing_asked() -> None:
    ASKED.clear()


def since() -> list[TopicRequest]:
    """What the policy was asked since the last call."""
    found = list(ASKED)
    ASKED.clear()
    return found


def test_a_policy_sees_what_a_topic_would_be(controller: InProcess) -> None:
    topic = controller.create(
        2, configs={"retention.ms": "60000"}, ordered_delivery=False, validate_only=True
    )
    expected = TopicRequest(
        operation="create",
        topic=topic,
        partitions=2,
        replication_factor=1,
        assignments=None,
        configs={"retention.ms": "60000"},
        ordered_delivery=False,
        principal="User:ANONYMOUS",
        validate_only=True,
    )
    assert since() == [expected]
    body = {"topic": topic, "assignments": {"1": [1], "0": [1]}, "configs": {"retention.ms": "60000"}}
    assert controller.http.post("/v1/topics", json=body).status_code == 201
    expected = replace(expected, assignments={0: (1,), 1: (1,)}, ordered_delivery=True, validate_only=False)
    assert since() == [expected]

    plain = replace(expected, assignments=None)
    assert controller.alter(topic, 4).error == "NONE"
    assert since() == [replace(plain, operation="partition_count", partitions=4)]
    four = replace(plain, partitions=4)

    item = {"topic": topic, "assignments": {str(p): [1] for p in range(4)}}
    ((_, error, message),) = several(controller, "/v1/replication-factors", [item])
    assert error == "NONE", message
    given = dict.fromkeys(range(4), (1,))
    assert since() == [replace(four, operation="replication_factor", assignments=given)]

    assert moved_within_its_broker(controller, topic) == "NONE"
    assert since() == [replace(four, operation="reassignment", assignments={0: (1,)}, validate_only=True)]

    fields: dict[str, Any] = {"configs": {"retention.ms": None, "cleanup.policy": "compact"}}
    assert controller.http.patch(f"/v1/topics/{topic}", json=fields).status_code == 200
    compacted = replace(four, configs={"cleanup.policy": "compact"})
    assert since() == [replace(compacted, operation="config")]
    # The broker that the next request asks hears of it some time after the answer.
    told = TopicConfigs(controller.service.admin.requests, TIMEOUT)
    await_true(lambda: told.describe(topic, defaults=False) == compacted.configs, "the altered configuration")
    fields = {"ordered_delivery": False}
    answer = controller.http.patch(f"/v1/topics/{topic}", json=fields, params={"wait": TIMEOUT})
    assert answer.json()["error"] == "NONE"
    unordered = replace(compacted, ordered_delivery=False)
    assert since() == [replace(unordered, operation="ordered_delivery")]

    assert controller.http.delete(f"/v1/topics/{topic}").status_code == 200
    assert since() == [replace(unordered, operation="delete")]


def moved_within_its_broker(controller: InProcess, topic: str, *, validate_only: bool = True) -> str:
    """The error of a request that gives partition 0 other replicas: the cluster has one broker with two directories."""
    row = {"topic": topic, "partition": 0, "replicas": [1], "log_dirs": [other_directory(controller, topic)]}
    answer = controller.http.post(
        "/v1/reassignments", json={"partitions": [row], "validate_only": validate_only}
    )
    return str(answer.json()["partitions"][0]["error"])


def other_directory(controller: InProcess, topic: str) -> str:
    """The broker's log directory in which partition 0 is not."""

    def current() -> str | None:
        answer = controller.http.get("/v1/replica-log-dirs", params={"topic": topic, "partition": 0})
        if answer.json().get("error") == "UNKNOWN_TOPIC_OR_PARTITION":
            return None
        (replica,) = answer.json()["replicas"]
        found: str | None = replica["current_replica_log_dir"]
        return found

    # The broker has a new topic in its metadata a moment later, and its log still later.
    await_true(lambda: current() is not None, "the replica is in a log directory")
    (broker,) = controller.http.get("/v1/log-dirs").json()["brokers"]
    (other,) = {row["path"] for row in broker["log_dirs"]} - {current()}
    return str(other)


def test_a_policy_is_asked_for_reassignments_of_topics_that_are_not_under_management(
    controller: InProcess, kafka_cluster: LocalCluster
) -> None:
    """KIP-179 asks it for every topic of the cluster; nothing is begun when it refuses."""
    vetoed = create_topic(kafka_cluster.bootstrap_servers, unique_name("veto"), 2)
    for validate_only in (True, False):
        assert moved_within_its_broker(controller, vetoed, validate_only=validate_only) == "POLICY_VIOLATION"
    asked = since()
    assert [(one.operation, one.partitions, one.replication_factor) for one in asked] == [
        ("reassignment", 2, 1)
    ] * 2
    assert (asked[0].assignments, asked[0].ordered_delivery) == ({0: (1,)}, False)
    assert controller.http.get("/v1/reassignments").json()["requests"] == []


def test_a_policy_is_asked_for_moves_between_log_directories(
    controller: InProcess, kafka_cluster: LocalCluster
) -> None:
    vetoed = create_topic(kafka_cluster.bootstrap_servers, unique_name("veto"), 2)
    row = {"topic": vetoed, "partition": 0, "broker": 1, "log_dir": other_directory(controller, vetoed)}
    for validate_only in (True, False):
        body = {"replicas": [row], "validate_only": validate_only}
        (answer,) = controller.http.post("/v1/replica-log-dirs", json=body).json()["replicas"]
        assert (answer["error"], answer["error_message"]) == ("POLICY_VIOLATION", "not while I am on duty")
    assert [(one.operation, one.assignments) for one in since()] == [("reassignment", {0: (1,)})] * 2
    assert controller.http.get("/v1/reassignments").json()["requests"] == []


def test_what_a_policy_vetoes_is_not_done(controller: InProcess, kafka_cluster: LocalCluster) -> None:
    good, vetoed, buggy = unique_name("good"), unique_name("veto"), unique_name("bug")
    rows = several(controller, "/v1/topics", [{"topic": t} for t in (vetoed, buggy, good)])
    assert [error for _, error, _ in rows] == ["POLICY_VIOLATION", "UNKNOWN_SERVER_ERROR", "NONE"]
    assert rows[0][2] == "not while I am on duty"
    assert "ZeroDivisionError" in rows[1][2]
    assert not exists(kafka_cluster, vetoed)
    assert znodes_of(controller.service).creations() == []
    answer = controller.http.post("/v1/topics", json={"topic": vetoed, "validate_only": True})
    assert (answer.status_code, answer.json()["error"]) == (400, "POLICY_VIOLATION")

    create_topic(kafka_cluster.bootstrap_servers, vetoed, 2)
    answer = controller.http.post(f"/v1/topics/{vetoed}/adopt", json={})
    assert answer.status_code == 200, answer.text
    before = controller.topic(vetoed)
    for validate_only in (True, False):
        assert controller.alter(vetoed, 3, validate_only=validate_only).error == "POLICY_VIOLATION"
        for path, item in (
            ("/v1/replication-factors", {"topic": vetoed, "replication_factor": 1}),
            ("/v1/topic-deletions", vetoed),
        ):
            ((_, error, _),) = several(controller, path, [item], validate_only=validate_only)
            assert error == "POLICY_VIOLATION", path
        answer = controller.http.post(f"/v1/topics/{vetoed}/release", json={"validate_only": validate_only})
        assert answer.json()["error"] == "POLICY_VIOLATION"
        for fields in ({"configs": {"retention.ms": "60000"}}, {"ordered_delivery": False}):
            body = {**fields, "validate_only": validate_only}
            answer = controller.http.patch(f"/v1/topics/{vetoed}", json=body)
            assert (answer.status_code, answer.json()["error"]) == (400, "POLICY_VIOLATION"), fields
    assert controller.topic(vetoed) == before
    assert znodes_of(controller.service).deletions() == {}
