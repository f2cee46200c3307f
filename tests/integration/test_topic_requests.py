"""Requests about one or several topics, right and wrong, on a real broker."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from spark_ordered_kafka.local import LocalCluster
from tests.inside import znodes_of
from tests.integration.controllers import InProcess, errors, exists, several
from tests.servers import TIMEOUT, create_topic, unique_name


def test_several_topics_are_created_each_with_its_result(
    controller: InProcess, kafka_cluster: LocalCluster
) -> None:
    one, two, twice, taken = (unique_name(name) for name in ("one", "two", "twice", "taken"))
    create_topic(kafka_cluster.bootstrap_servers, taken)
    topics: list[dict[str, Any]] = [
        {"topic": one, "partitions": 2, "hash": "crc32"},
        {"topic": twice},
        {"topic": "a b"},
        {"topic": taken},
        {"topic": two, "assignments": {"0": [1], "1": [1], "2": [1]}},
        {"topic": twice, "partitions": 3},
        {"topic": unique_name("bad"), "assignments": {"0": [1]}, "replication_factor": 1},
    ]
    rows = several(controller, "/v1/topics", topics, validate_only=True)
    expected = ["NONE", "INVALID_REQUEST", "INVALID_TOPIC_EXCEPTION", "TOPIC_ALREADY_EXISTS", "NONE"]
    expected += ["INVALID_REQUEST", "INVALID_REQUEST"]
    assert errors(rows) == expected
    assert not exists(kafka_cluster, one)

    rows = several(controller, "/v1/topics", topics)
    assert errors(rows) == expected
    assert [topic for topic, _, _ in rows] == [topic["topic"] for topic in topics]
    assert "2 times" in rows[1][2]
    assert "assignments" in rows[6][2]
    assert (controller.topic(one).hash, len(controller.topic(two).partitions)) == ("crc32", 3)
    assert not exists(kafka_cluster, twice)


def test_a_request_ends_in_time_and_says_what_goes_on(
    controller: InProcess, kafka_cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = unique_name("slow"), unique_name("after")
    admin = controller.service.admin
    held, create = threading.Event(), admin.create_topic

    def slow(*args: Any, **kwargs: Any) -> None:
        assert held.wait(TIMEOUT)
        create(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(admin, "create_topic", slow)
        rows = several(controller, "/v1/topics", [{"topic": first}, {"topic": second}], timeout_ms=3000)
        assert errors(rows) == ["REQUEST_TIMED_OUT", "REQUEST_TIMED_OUT"]
        assert "continues in the background" in rows[0][2]
        assert "nothing was done" in rows[1][2]
        held.set()
        deadline = time.monotonic() + TIMEOUT
        while controller.http.get(f"/v1/topics/{first}").status_code != 200:
            assert time.monotonic() < deadline, "the creation did not go on"
            time.sleep(0.05)
    assert not exists(kafka_cluster, second)
    # Of one topic the request itself fails.
    held.clear()
    with monkeypatch.context() as patch:
        patch.setattr(admin, "create_topic", slow)
        answer = controller.http.post("/v1/topics", json={"topic": second, "timeout_ms": 1})
        held.set()
    assert (answer.status_code, answer.json()["error"]) == (503, "REQUEST_TIMED_OUT")


HUGE = 10**30


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"partitions": 0}, "INVALID_PARTITIONS"),
        ({"partitions": -1}, "INVALID_PARTITIONS"),
        ({"partitions": 2**31}, "INVALID_PARTITIONS"),
        ({"partitions": 2**63}, "INVALID_PARTITIONS"),
        ({"partitions": HUGE}, "INVALID_PARTITIONS"),
        ({"partitions": 1.5}, "INVALID_REQUEST"),
        ({"partitions": True}, "INVALID_REQUEST"),
        ({"replication_factor": 0}, "INVALID_REPLICATION_FACTOR"),
        ({"replication_factor": -3}, "INVALID_REPLICATION_FACTOR"),
        ({"replication_factor": 2}, "INVALID_REPLICATION_FACTOR"),
        ({"replication_factor": 2**31}, "INVALID_REPLICATION_FACTOR"),
        ({"replication_factor": HUGE}, "INVALID_REPLICATION_FACTOR"),
        ({"assignments": {"0": [HUGE]}}, "INVALID_REPLICA_ASSIGNMENT"),
        ({"assignments": {"0": [-1]}}, "INVALID_REPLICA_ASSIGNMENT"),
        ({"assignments": {"0": []}}, "INVALID_REPLICA_ASSIGNMENT"),
        ({"assignments": {str(HUGE): [1]}}, "INVALID_REPLICA_ASSIGNMENT"),
        ({"assignments": {"-1": [1]}}, "INVALID_REPLICA_ASSIGNMENT"),
        ({"assignments": {"x": [1]}}, "INVALID_REQUEST"),
        ({"assignments": {"0": ["1"]}}, "INVALID_REQUEST"),
        ({"assignments": [[1]]}, "INVALID_REQUEST"),
        ({"assignments": {"0": [1]}, "partitions": 1}, "INVALID_REQUEST"),
        ({"hash": 3}, "INVALID_REQUEST"),
        ({"hash": "md5"}, "INVALID_REQUEST"),
        ({"ordered_delivery": "yes"}, "INVALID_REQUEST"),
        ({"configs": {"retention.ms": 1}}, "INVALID_REQUEST"),
        ({"configs": {"retention.ms": "x" * 40_000}}, "INVALID_CONFIG"),
        ({"configs": []}, "INVALID_REQUEST"),
        ({"validate_only": 1}, "INVALID_REQUEST"),
        ({"timeout_ms": 0}, "INVALID_REQUEST"),
        ({"timeout_ms": HUGE}, "INVALID_REQUEST"),
        ({"timeout_ms": "1"}, "INVALID_REQUEST"),
        ({"topic": None}, "INVALID_REQUEST"),
        ({"topic": "__transaction_state"}, "INVALID_TOPIC_EXCEPTION"),
        ({"topic": "x" * 10_000}, "INVALID_TOPIC_EXCEPTION"),
        ({"topic": "a/../b"}, "INVALID_TOPIC_EXCEPTION"),
    ],
)
def test_wrong_fields_of_a_creation(controller: InProcess, fields: dict[str, Any], error: str) -> None:
    body = {"topic": unique_name("wrong"), **fields}
    answer = controller.http.post("/v1/topics", json=body)
    assert (answer.status_code, answer.json()["error"]) == (400, error), answer.text
    assert next(iter(fields)).split("_")[0] in answer.json()["error_message"]
    # Another test's may still go on.
    assert body["topic"] not in znodes_of(controller.service).creations()


@pytest.mark.parametrize(
    "body",
    [
        {"topics": []},
        {"topics": None},
        {"topics": "t"},
        {"topics": [{}]},
        {"topics": [{"topic": "t", "validate_only": True}]},
        {"topics": [{"topic": "t"}], "topic": "t"},
        {"topics": [{"topic": "t"}], "timeout_ms": -1},
        [],
        3,
    ],
)
def test_wrong_requests_for_several_topics(controller: InProcess, body: Any) -> None:
    for path in ("/v1/topics", "/v1/topic-deletions", "/v1/partition-counts", "/v1/replication-factors"):
        answer = controller.http.post(path, json=body)
        assert (answer.status_code, answer.json()["error"]) == (400, "INVALID_REQUEST"), (path, answer.text)
