"""Request ids, logs, metrics, reasons and the audit log of a controller on real servers."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from spark_ordered_kafka.controller.change.protocol import ReadBoundaries
from spark_ordered_kafka.controller.monitoring.logs import formatter
from spark_ordered_kafka.local import LocalCluster
from tests.integration.controllers import Hold, InProcess, in_process
from tests.servers import TIMEOUT, unique_name


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audited")


@pytest.fixture(scope="module")
def audited(kafka_cluster: LocalCluster, directory: Path) -> Iterator[InProcess]:
    """A controller that demands reasons and has an audit log in ``directory``."""
    path = str(directory / "audit.log")
    with in_process(kafka_cluster, audit_log_file=path, reason_required=True) as running:
        yield running


def lines(directory: Path, **fields: Any) -> list[dict[str, Any]]:
    """Of the audit log, those that have ``fields``."""
    path = directory / "audit.log"
    found = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [line for line in found if fields.items() <= line.items()]


def awaited(look: Callable[[], list[Any]]) -> list[Any]:
    deadline = time.monotonic() + TIMEOUT
    while not (found := look()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found


def samples(controller: InProcess) -> dict[str, list[tuple[dict[str, str], float]]]:
    answer = controller.http.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {
        family.name.removeprefix("ordered_kafka_"): [(dict(s.labels), s.value) for s in family.samples]
        for family in text_string_to_metric_families(answer.text)
    }


def create(controller: InProcess, topic: str, **params: str) -> Any:
    body = {"topic": topic, "partitions": 2, "configs": {"retention.ms": "60000"}}
    return controller.http.post("/v1/topics", json=body, params=params)


# -- request ids and the log ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", ["abc-123", "!" * 128])
def test_a_request_id_is_taken_over(controller: InProcess, given: str) -> None:
    for path in ("/healthz", "/v1/topics/missing", "/nothing"):
        assert controller.http.get(path, headers={"x-request-id": given}).headers["x-request-id"] == given


@pytest.mark.parametrize("given", ["", "a b", "x" * 129, "tab\tbed", "ü".encode().decode("latin-1")])
def test_a_request_id_that_is_none_is_replaced(controller: InProcess, given: str) -> None:
    headers = {b"x-request-id": given.encode("latin-1")}
    made = {controller.http.get("/healthz", headers=headers).headers["x-request-id"] for _ in range(2)}
    assert len(made) == 2
    assert all(len(one) == 32 for one in made)


def test_each_request_has_a_line_and_its_change_logs_its_id(
    controller: InProcess, caplog: pytest.LogCaptureFixture
) -> None:
    topic = controller.create(1)
    written: list[dict[str, Any]] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            written.append(json.loads(self.format(record)))

    keep = Keep()
    keep.setFormatter(formatter("json"))
    logger = logging.getLogger("spark_ordered_kafka")
    logger.addHandler(keep)
    try:
        with caplog.at_level(logging.INFO, logger="spark_ordered_kafka"):
            body = {"topics": [{"topic": topic, "partition_count": 2}]}
            headers = {"x-request-id": "grow-1"}
            params: dict[str, float | str] = {"wait": TIMEOUT, "reason": "hidden-from-the-log"}
            assert controller.http.post(
                "/v1/partition-counts", json=body, headers=headers, params=params
            ).is_success
            controller.http.get("/healthz")
    finally:
        logger.removeHandler(keep)
    (access,) = [line for line in written if line["logger"] == "spark_ordered_kafka.access"]
    assert access["event"] == "POST /v1/partition-counts 200"
    assert (access["route"], access["status"]) == ("/v1/partition-counts", 200)
    assert (access["principal"], access["request_id"]) == ("User:ANONYMOUS", "grow-1")
    assert access["milliseconds"] > 0
    (ended,) = [line for line in written if "1 -> 2 partitions" in line["event"]]
    assert ended["request_id"] == "grow-1"
    assert "hidden-from-the-log" not in access["event"]


def test_a_bug_is_answered_and_logged_with_the_request_s_id(
    controller: InProcess, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def bug(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(controller.service.topics, "summaries", bug)
    answer = controller.http.get("/v1/topics", headers={"x-request-id": "bug-1"})
    assert (answer.status_code, answer.json()["error"]) == (500, "UNKNOWN_SERVER_ERROR")
    assert answer.headers["x-request-id"] == "bug-1"
    # What exactly it was is for the log alone.
    assert "ZeroDivision" not in answer.text
    (logged,) = [record for record in caplog.records if record.exc_info is not None]
    assert logged.exc_info is not None
    assert repr(logged.exc_info[1]) == "ZeroDivisionError('a bug')"


# -- metrics --------------------------------------------------------------------------------------------------------


def test_metrics_follow_a_change(controller: InProcess) -> None:
    topic = controller.create(2)
    before = samples(controller)
    with Hold(ReadBoundaries) as hold:
        controller.before = hold
        controller.alter(topic, 4, wait=False)
        hold.await_reached()
        assert ({"kind": "expand", "step": "boundaries"}, 1.0) in samples(controller)["changes_running"]
    controller.await_end(topic)
    labels = {"kind": "expand", "outcome": "done"}

    def done(found: dict[str, list[tuple[dict[str, str], float]]]) -> float:
        return sum(value for given, value in found.get("changes", []) if given == labels)

    def paused(found: dict[str, list[tuple[dict[str, str], float]]]) -> float:
        return sum(
            value for given, value in found.get("writer_pause_seconds", []) if given == {"kind": "expand"}
        )

    # A scrape may come between one figure of an end and the next.
    (after,) = awaited(
        lambda: [
            found
            for found in [samples(controller)]
            if done(found) == done(before) + 1 and paused(found) > paused(before)
        ]
    )
    assert {given["step"] for given, _ in after["change_step_duration_seconds"]} >= {"creating", "boundaries"}
    assert after["changes_running"] == []


def test_metrics_show_role_brokers_and_requests(controller: InProcess) -> None:
    topic = controller.create(3)
    controller.topic(topic)
    # A scrape waits a second for the first samples of Kafka's state.
    sampled = {"broker_capacity", "reassigning_partitions"}
    (found,) = awaited(lambda: [found for found in [samples(controller)] if sampled <= found.keys()])
    assert found["controller_is_leader"] == [({}, 1.0)]
    assert found["controller_epoch"][0][1] >= 1
    assert ({"state": "connected"}, 1.0) in found["zookeeper_session"]
    assert [given for given, _ in found["broker_partitions"]] == [{"broker": "1"}]
    assert found["broker_max_partitions"] == [({"broker": "1"}, 2.0**31 - 1)]
    (hosted,), (capacity,) = found["broker_partitions"], found["broker_capacity"]
    assert hosted[1] + capacity[1] == 2**31 - 1
    assert found["reassigning_partitions"] == [({}, 0.0)]
    routes = {
        (given["method"], given["route"], given["status"])
        for given, _ in found["http_requests"]
        if "status" in given
    }
    assert {("POST", "/v1/topics", "201"), ("GET", "/v1/topics/{topic}", "200")} <= routes
    assert not any(topic in str(given) for given, _ in found["http_requests"])


# -- reason and audit log -------------------------------------------------------------------------------------------


def test_without_a_reason_nothing_is_done(audited: InProcess, directory: Path) -> None:
    topic = unique_name("unreasoned")
    refused = create(audited, topic)
    assert (refused.status_code, refused.json()["error"]) == (400, "INVALID_REQUEST")
    assert "reason is missing" in refused.json()["error_message"]
    assert audited.http.get(f"/v1/topics/{topic}").status_code == 404
    (line,) = lines(directory, topics=[topic])
    assert (line["event"], line["status"], line["results"][0]["error"]) == (
        "answered",
        400,
        "INVALID_REQUEST",
    )
    # A check changes nothing, so there is nothing to give a reason for.
    body = {"topic": topic, "validate_only": True}
    assert audited.http.post("/v1/topics", json=body).is_success
    assert len(lines(directory, topics=[topic])) == 1


@pytest.mark.parametrize("reason", ["", "   ", "x" * 1001, "two\nlines", "nul\x00"])
def test_a_reason_that_is_none_is_refused_wherever_it_is_given(
    controller: InProcess, audited: InProcess, reason: str
) -> None:
    for one in (controller, audited):
        refused = create(one, unique_name("badly-reasoned"), reason=reason)
        assert refused.status_code == 400
        assert refused.json()["error_message"].startswith("reason has the value")


def test_two_reasons_are_refused(audited: InProcess) -> None:
    answer = audited.http.delete("/v1/topics/t/change?reason=a&reason=b")
    assert answer.status_code == 400
    assert "'reason' is there twice" in answer.json()["error_message"]


def test_the_audit_log_says_who_asked_for_what_why_and_what_became_of_it(
    audited: InProcess, directory: Path
) -> None:
    topic = unique_name("audited")
    headers = {"x-request-id": "create-1"}
    body = {"topic": topic, "partitions": 2, "configs": {"retention.ms": "60000"}}
    params = {"reason": "a new service – “orders”"}
    assert audited.http.post("/v1/topics", json=body, headers=headers, params=params).is_success
    requested, answered = lines(directory, topics=[topic])
    for line in (requested, answered):
        assert (line["request_id"], line["reason"]) == ("create-1", params["reason"])
        assert (line["principal"], line["host"]) == ("User:ANONYMOUS", "testclient")
        assert (line["method"], line["route"], line["path"]) == ("POST", "/v1/topics", "/v1/topics")
        assert (line["review_id"], line["approver"]) == (None, None)
    assert (requested["event"], requested["body"]) == ("requested", body)
    assert (answered["event"], answered["status"]) == ("answered", 201)
    assert answered["results"] == [{"topic": topic, "error": "NONE"}]


@pytest.mark.long
def test_a_change_that_outlives_its_request_has_a_line_at_its_end(
    audited: InProcess, directory: Path
) -> None:
    topic = unique_name("outlived")
    assert create(audited, topic, reason="for this test").is_success
    body = {"topics": [{"topic": topic, "partition_count": 3}, {"topic": "missing", "partition_count": 3}]}
    answer = audited.http.post(
        "/v1/partition-counts", json=body, params={"reason": "more"}, headers={"x-request-id": "grow-2"}
    )
    change_id = answer.json()["topics"][0]["change_id"]
    (ended,) = awaited(lambda: lines(directory, event="ended", topic=topic))
    assert (ended["change_id"], ended["request_id"], ended["outcome"]) == (change_id, "grow-2", "done")
    assert (ended["kind"], ended["source"], ended["target"], ended["error"]) == ("expand", 2, 3, "NONE")
    assert ended["seconds"] > 0
    (answered,) = lines(directory, event="answered", request_id="grow-2")
    assert answered["topics"] == [topic, "missing"]
    assert answered["results"][0]["error"] == "INVALID_TOPIC_EXCEPTION"
    assert answered["results"][1] == {"topic": topic, "error": "NONE", "change_id": change_id}


def test_a_large_body_is_not_kept_whole(audited: InProcess, directory: Path) -> None:
    assignments = {str(partition): [1] for partition in range(5000)}
    assignments["5000"] = [99]
    topic = unique_name("large")
    body = {"topic": topic, "assignments": assignments}
    answer = audited.http.post("/v1/topics", json=body, params={"reason": "large"})
    assert answer.json()["error"] == "INVALID_REPLICA_ASSIGNMENT"
    (requested,) = lines(directory, event="requested", topics=[topic])
    assert requested["body"]["bytes"] > 50_000
    assert len(requested["body"]["beginning"]) == 16 * 1024
    assert len(requested["body"]["sha256"]) == 64


def test_what_is_refused_is_audited_and_what_only_reads_is_not(audited: InProcess, directory: Path) -> None:
    topic = unique_name("absent")
    assert audited.http.delete(f"/v1/topics/{topic}/change", params={"reason": "stop"}).status_code == 404
    (_, answered) = lines(directory, topics=[topic])
    assert (answered["status"], answered["results"][0]["error"]) == (404, "UNKNOWN_TOPIC_OR_PARTITION")
    audited.http.get(f"/v1/topics/{topic}")
    audited.http.post(f"/v1/topics/{topic}/misrouted", json={"records": 1})
    audited.http.post(f"/v1/topics/{topic}/truncations", json={})
    assert len(lines(directory, topics=[topic])) == 2


def test_without_an_audit_log_nothing_is_changed(audited: InProcess, directory: Path) -> None:
    topic = unique_name("unaudited")
    elsewhere = directory.with_name("moved")
    directory.rename(elsewhere)
    try:
        refused = create(audited, topic, reason="never done")
        assert (refused.status_code, refused.json()["error"]) == (503, "REQUEST_TIMED_OUT")
        assert "the audit log" in refused.json()["error_message"]
        assert audited.http.get("/v1/topics").is_success
    finally:
        elsewhere.rename(directory)
    assert audited.http.get(f"/v1/topics/{topic}").status_code == 404
    assert create(audited, topic, reason="the disk is back").is_success
    assert samples(audited)["audit_failures"][0][1] >= 1
