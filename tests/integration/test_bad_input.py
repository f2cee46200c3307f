"""Wrong input to every route: a 4xx with code, field and reason, and nothing half done."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any, get_args

import httpx2
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from pydantic import BaseModel

from spark_ordered_kafka.controller.api.http.bodies import models_of
from spark_ordered_kafka.controller.api.middleware.limits import MAX_BODY
from spark_ordered_kafka.local import LocalCluster
from tests.integration.controllers import InProcess, exists, free_port, served
from tests.servers import TIMEOUT, unique_name

HUGE = 10**30
INT32 = 2**31
JSON = {"content-type": "application/json"}

# method, path ("{t}" is a topic under management with two partitions), wrong body -> the field that the answer names.
Case = tuple[str, str, Any, str]


def of_type(method: str, path: str, body: dict[str, Any], field: str, *values: Any) -> list[Case]:
    """``body`` with each of ``values`` at ``field``, a path of names and indexes."""
    cases = []
    for value in values:
        wrong = json.loads(json.dumps(body))
        *parents, last = [int(part) if part.isdigit() else part for part in field.split(".")]
        node = wrong
        for part in parents:
            node = node[part]
        node[last] = value
        cases.append((method, path, wrong, field))
    return cases


NOT_TEXT: tuple[Any, ...] = (None, 5, True, [], {})
NOT_FLAG: tuple[Any, ...] = (None, 1, "true", [], {})
NOT_NUMBER: tuple[Any, ...] = ("1", True, 1.5, [], {})
NOT_LIST: tuple[Any, ...] = (None, 1, "x", {}, True)

CREATION = {"topic": "t", "partitions": 1, "replication_factor": 1, "configs": {}, "hash": "murmur3"}
COUNTS: dict[str, Any] = {"topics": [{"topic": "{t}", "partition_count": 3}]}
FACTORS: dict[str, Any] = {"topics": [{"topic": "{t}", "replication_factor": 1}]}
LOG_DIRS: dict[str, Any] = {
    "replicas": [{"topic": "{t}", "partition": 0, "broker": 1, "log_dir": "/nowhere"}]
}
CHECK: dict[str, Any] = {"positions": [{"partition": 0, "offset": 0, "leader_epoch": 0}]}
ROWS: dict[str, Any] = {"partitions": [{"topic": "{t}", "partition": 0, "replicas": [1]}]}
MOVES, VERIFY = "/v1/reassignments", "/v1/reassignments/verify"
PLAN = "/v1/reassignments/plan"
ELECTIONS = "/v1/leader-elections"
ELECTED: dict[str, Any] = {"partitions": [{"topic": "{t}", "partition": 0}]}
EMPTYING: dict[str, Any] = {"goal": "empty_log_dirs", "brokers": [1], "log_dirs": ["/nowhere"]}
NAME: dict[str, Any] = {"topic": "{t}", "writer": "w", "nonce": "n"}

WRONG: list[Case] = [
    *of_type("POST", "/v1/topics", CREATION, "topic", *NOT_TEXT),
    *of_type("POST", "/v1/topics", CREATION, "partitions", *NOT_NUMBER, 0, -1, INT32, HUGE, -HUGE),
    *of_type("POST", "/v1/topics", CREATION, "replication_factor", *NOT_NUMBER, 0, -1, 2, INT32, HUGE),
    *of_type("POST", "/v1/topics", CREATION, "hash", *NOT_TEXT, "", "md5", "x" * 10_000),
    *of_type("POST", "/v1/topics", CREATION, "ordered_delivery", *NOT_FLAG),
    *of_type("POST", "/v1/topics", CREATION, "validate_only", *NOT_FLAG),
    *of_type("POST", "/v1/topics", CREATION, "timeout_ms", *NOT_NUMBER, 0, -1, 10**7, HUGE),
    *of_type(
        "POST", "/v1/topics", CREATION, "configs", 1, [], "x", {"retention.ms": 1}, {"retention.ms": None}
    ),
    *of_type("POST", "/v1/topics", CREATION, "assignments", 1, [], "x", {"x": [1]}, {"0": 1}, {"0": ["1"]}),
    *of_type("POST", "/v1/topics", CREATION, "nonsense", 1),
    *of_type("POST", "/v1/topics", {"topics": [CREATION]}, "topics", *NOT_LIST, []),
    *of_type("POST", "/v1/topics", {"topics": [CREATION]}, "topics.0.partitions", *NOT_NUMBER),
    *of_type("POST", "/v1/topics", {"topics": [CREATION]}, "topics.0.topic", *NOT_TEXT),
    *of_type("POST", "/v1/topic-deletions", {"topics": ["t"]}, "topics", *NOT_LIST, [], [1], [None]),
    *of_type("POST", "/v1/topics/{t}/adopt", {}, "hash", *NOT_TEXT, "", "md5"),
    *of_type("POST", "/v1/topics/{t}/adopt", {}, "force", *NOT_FLAG),
    *of_type("POST", "/v1/topics/{t}/release", {}, "force", *NOT_FLAG),
    *of_type("PATCH", "/v1/topics/{t}", {}, "ordered_delivery", 1, "true", []),
    *of_type("PATCH", "/v1/topics/{t}", {}, "configs", None, 1, [], {"retention.ms": 5}),
    *of_type("PATCH", "/v1/topics/{t}", {}, "force", *NOT_FLAG),
    *of_type("POST", "/v1/topics/{t}/delete-records", {}, "partitions", 1, "0", {}, [-1], ["0"], [2], [HUGE]),
    *of_type(
        "POST", "/v1/topics/{t}/misrouted", {}, "records", *NOT_NUMBER, None, 0, -1, 2**63, HUGE, 10**400
    ),
    *of_type("POST", "/v1/writer-names", {}, "topic", 1, [], {}, True, "x" * 250),
    *(
        case
        for field in ("topic", "writer", "nonce")
        for case in of_type("POST", "/v1/writer-names/release", NAME, field, 1, [], {}, True, "x" * 250)
    ),
    *of_type("POST", "/v1/topics/{t}/truncations", CHECK, "partitions", 1, "0", {}, [-1], ["0"], [2], [HUGE]),
    *of_type("POST", "/v1/topics/{t}/truncations", CHECK, "positions", *NOT_LIST, [1]),
    *of_type("POST", "/v1/topics/{t}/truncations", CHECK, "positions.0.partition", *NOT_NUMBER, -1, 2, HUGE),
    *of_type("POST", "/v1/topics/{t}/truncations", CHECK, "positions.0.offset", *NOT_NUMBER, -1, 2**63, HUGE),
    *of_type(
        "POST", "/v1/topics/{t}/truncations", CHECK, "positions.0.leader_epoch", *NOT_NUMBER, INT32, HUGE
    ),
    *of_type("POST", "/v1/partition-counts", COUNTS, "topics", *NOT_LIST, []),
    *of_type("POST", "/v1/partition-counts", COUNTS, "force", *NOT_FLAG),
    *of_type("POST", "/v1/partition-counts", COUNTS, "topics.0.layout_epoch", *NOT_NUMBER),
    *of_type("POST", "/v1/partition-counts", COUNTS, "topics.0.topic", *NOT_TEXT),
    *of_type("POST", "/v1/partition-counts", COUNTS, "topics.0.partition_count", *NOT_NUMBER, None),
    *of_type("POST", "/v1/replication-factors", FACTORS, "topics", *NOT_LIST, []),
    *of_type("POST", "/v1/replication-factors", FACTORS, "topics.0.replication_factor", *NOT_NUMBER),
    *of_type("POST", "/v1/replica-log-dirs", LOG_DIRS, "replicas", *NOT_LIST, [], [1]),
    *of_type("POST", "/v1/replica-log-dirs", LOG_DIRS, "replicas.0.topic", *NOT_TEXT),
    *of_type(
        "POST", "/v1/replica-log-dirs", LOG_DIRS, "replicas.0.partition", *NOT_NUMBER, None, INT32, HUGE
    ),
    *of_type("POST", "/v1/replica-log-dirs", LOG_DIRS, "replicas.0.broker", *NOT_NUMBER, None, INT32, HUGE),
    *of_type("POST", "/v1/replica-log-dirs", LOG_DIRS, "replicas.0.log_dir", *NOT_TEXT),
    *of_type(
        "POST", "/v1/replica-log-dirs", LOG_DIRS, "replica_alter_log_dirs_throttle", *NOT_NUMBER, 0, -1, HUGE
    ),
    *of_type("POST", "/v1/replica-log-dirs", LOG_DIRS, "validate_only", *NOT_FLAG),
    *of_type("POST", "/v1/replica-log-dirs", LOG_DIRS, "timeout_ms", 0, -1, 10**7, HUGE, "1"),
    *of_type("PUT", "/v1/brokers/1/guard-rails", {}, "max_partitions", *NOT_NUMBER, -1, INT32, HUGE),
    *of_type("PUT", "/v1/brokers/1/guard-rails", {"max_partitions": 1}, "validate_only", *NOT_FLAG),
    *(
        case
        for path in (MOVES, VERIFY)
        for case in (
            *of_type("POST", path, ROWS, "version", "1", 1.5, [], {}, 0, 2, None),
            *of_type("POST", path, ROWS, "partitions", 1, "x", {}, True, [], [1]),
            *of_type("POST", path, ROWS, "partitions.0.topic", *NOT_TEXT),
            *of_type("POST", path, ROWS, "partitions.0.partition", *NOT_NUMBER, None, INT32, HUGE),
            *of_type("POST", path, ROWS, "partitions.0.replicas", *NOT_LIST, ["1"], [1.5], [None], [INT32]),
            *of_type("POST", path, ROWS, "partitions.0.log_dirs", 1, "x", {}, True, [1], [None]),
            *of_type("POST", path, ROWS, "partitions.0.nonsense", 1),
            *of_type("POST", path, ROWS, "nonsense", 1),
        )
    ),
    *of_type("POST", MOVES, {}, "rollback", *NOT_NUMBER, INT32, HUGE, None),
    *(
        case
        for method, path, body in (("POST", MOVES, ROWS), ("PATCH", f"{MOVES}/1", {}))
        for field in ("throttle", "replica_alter_log_dirs_throttle")
        for case in of_type(method, path, body, field, *NOT_NUMBER, 0, -1, HUGE)
    ),
    *(
        case
        for field in ("additional", "allow_replication_factor_change", "elect_leaders")
        for case in of_type("POST", MOVES, ROWS, field, *NOT_FLAG)
    ),
    *(
        case
        for method, path, body, fields in (
            ("POST", MOVES, ROWS, ("validate_only", "timeout_ms")),
            ("PATCH", f"{MOVES}/1", {"throttle": 1}, ("validate_only",)),
            ("POST", "/v1/topic-deletions", {"topics": ["t"]}, ("validate_only", "timeout_ms")),
            ("POST", "/v1/topics/{t}/adopt", {}, ("validate_only",)),
            ("POST", "/v1/topics/{t}/release", {}, ("validate_only", "timeout_ms")),
            ("PATCH", "/v1/topics/{t}", {}, ("validate_only",)),
            ("POST", "/v1/topics/{t}/delete-records", {}, ("force", "validate_only")),
            ("POST", "/v1/partition-counts", COUNTS, ("validate_only", "timeout_ms")),
            ("POST", "/v1/replication-factors", FACTORS, ("validate_only", "timeout_ms")),
        )
        for field in fields
        for case in of_type(
            method, path, body, field, *([0, -1, 10**7, HUGE, "1"] if field == "timeout_ms" else NOT_FLAG)
        )
    ),
    *of_type(
        "POST", "/v1/partition-counts", COUNTS, "topics.0.assignments", 1, [], "x", {"x": [1]}, {"0": 1}
    ),
    *of_type(
        "POST", "/v1/replication-factors", FACTORS, "topics.0.assignments", 1, [], "x", {"x": [1]}, {"0": 1}
    ),
]
WRONG += [
    *of_type("POST", ELECTIONS, {}, "partitions", *NOT_LIST[1:], [], [1], [None]),
    *of_type("POST", ELECTIONS, ELECTED, "partitions.0.topic", *NOT_TEXT),
    *of_type("POST", ELECTIONS, ELECTED, "partitions.0.partition", *NOT_NUMBER, None, INT32, HUGE),
    *of_type("POST", ELECTIONS, {}, "validate_only", *NOT_FLAG),
    *of_type(
        "POST", PLAN, {"goal": "balance"}, "also", *NOT_LIST[1:], [], [1], ["drain"], ["leaders", "leaders"]
    ),
    *of_type("POST", PLAN, {"goal": "leaders"}, "also", ["racks"], ["leaders"]),
    *of_type("POST", PLAN, {}, "goal", *NOT_TEXT, "", "nothing", "DRAIN"),
    *of_type("POST", PLAN, {"goal": "drain"}, "brokers", *NOT_LIST, [], ["1"], [1], [9], [INT32], [1, 1]),
    *of_type("POST", PLAN, {"goal": "spread"}, "brokers", None, [], [9], [-1]),
    *of_type("POST", PLAN, {"goal": "racks"}, "brokers", [], [1]),
    *of_type("POST", PLAN, {"goal": "balance"}, "topics", *NOT_LIST[1:], [], [1], ["missing"], ["a b"]),
    *of_type("POST", PLAN, {"goal": "balance"}, "topics", ["{t}", "{t}"], [""], ["x" * 250]),
    *of_type("POST", PLAN, {"goal": "replication_factor"}, "replication_factor", *NOT_NUMBER, None, 0, -1, 2),
    *of_type("POST", PLAN, {"goal": "replication_factor"}, "replication_factor", INT32, HUGE),
    *of_type("POST", PLAN, {"goal": "drain", "brokers": [1]}, "replication_factor", 0, 1),
    *of_type("POST", PLAN, EMPTYING, "log_dirs", *NOT_LIST, [], [1], [""], ["/nowhere"], ["/a", "/a"]),
    *of_type("POST", PLAN, EMPTYING, "brokers", None, [], [9], [1, 9]),
    *of_type("POST", PLAN, {"goal": "balance"}, "log_dirs", [], ["/a"]),
]
# Refused for one topic of several, in whose result the reason is.
PER_TOPIC: list[Case] = [
    *of_type("POST", "/v1/topics", {"topics": [CREATION]}, "topics.0.partitions", 0, -1, INT32, HUGE),
    *of_type(
        "POST",
        "/v1/partition-counts",
        COUNTS,
        "topics.0.partition_count",
        0,
        -1,
        1,
        2,
        2_000_000_000,
        INT32,
        HUGE,
    ),
    *of_type(
        "POST",
        "/v1/partition-counts",
        COUNTS,
        "topics.0.topic",
        "",
        "..",
        "a/b",
        "missing",
        "__consumer_offsets",
    ),
    *of_type(
        "POST",
        "/v1/replication-factors",
        FACTORS,
        "topics.0.replication_factor",
        0,
        -1,
        2,
        32767,
        INT32,
        HUGE,
    ),
    *of_type(
        "POST",
        "/v1/replication-factors",
        FACTORS,
        "topics.0.topic",
        "",
        "..",
        "missing",
        "__consumer_offsets",
    ),
    *of_type(
        "POST",
        "/v1/topic-deletions",
        {"topics": ["t"]},
        "topics.0",
        "",
        "..",
        "missing",
        "__consumer_offsets",
    ),
]
PATHS: list[tuple[str, str, int]] = [
    *(("GET", f"/v1/topics/{name}", 400) for name in ("a%20b", "%00", "%FF%FE", "x" * 250, "__consumer_offsets")),
    *(("GET", f"/v1/topics/{{t}}/layout?from_epoch={n}", 400) for n in ("-1", "x", "", "1.5", "NaN", "9" * 400)),
    *(("GET", f"/v1/topics/{{t}}/layout?writer={n}", 400) for n in ("", "maybe", "2")),
    *(("GET", f"/v1/topics/{{t}}?details={n}", 400) for n in ("", "x", "7")),
    *(("GET", f"/v1/topics/{{t}}/leader-epochs?partitions={n}", 400) for n in ("", "x", "1,", "0x1", "1.5", "%D9%A3", "1_0", "9" * 400)),
    *(("GET", f"/v1/topics/{{t}}/leader-epochs?partitions={n}", 404) for n in ("-1", "2")),
    *(("PATCH", f"/v1/topics/{{t}}?wait={n}", 400) for n in ("0", "-1", "601", "nan", "inf", "1e400", "x", "")),
    *(("POST", f"/v1/partition-counts?wait={n}", 400) for n in ("0", "-1", "nan", "x")),
    *(("DELETE", f"/v1/topics/{{t}}?validate_only={n}", 400) for n in ("", "x", "7")),
    *(("DELETE", f"/v1/topics/{{t}}?validate_only=true&timeout_ms={n}", 400) for n in ("0", "-1", "x", "9" * 400)),
    *(("PUT", f"/v1/brokers/{n}/guard-rails", 400) for n in ("x", "1.5", "-1", "7", "2147483648", "9" * 400)),
    *(("GET", f"/v1/reassignments/{n}", 400) for n in ("x", "1.5", "-1", "0", "7", "9" * 400, "%00", "LATEST")),
    *(("DELETE", f"/v1/reassignments/{n}", 400) for n in ("x", "7", "latest", "7?validate_only=x")),
    *(("GET", f"/v1/groups/{n}/positions", 404) for n in ("missing", "%FF", "a/b", "..")),
    *(("GET", f"/v1/groups/{n}/positions", 400) for n in ("%00", "a%00b")),
    *(("GET", f"/v1/log-dirs?broker={n}", 400) for n in ("x", "", "1,", "-1", "1.5", "%D9%A3", "1_0", "7", "9" * 400)),
    *(("GET", f"/v1/log-dirs?log_dir={n}", 400) for n in ("", "nowhere", "%00", "/a%00")),
    *(("GET", f"/v1/{p}?timeout_ms={n}", 400) for p in ("log-dirs", "replica-log-dirs") for n in ("", "0", "-1", "x", "9" * 400)),
    *(("GET", f"/v1/{p}?topic={n}", 400) for p in ("log-dirs", "replica-status") for n in ("", "a%20b", "%00", "x" * 250)),
    *(("GET", f"/v1/{p}?topic=missing", 404) for p in ("log-dirs", "replica-log-dirs", "replica-status")),
    *(("GET", f"/v1/replica-log-dirs?topic={{t}}&partition={n}", 404) for n in ("2", "2147483647")),
    *(("GET", f"/v1/replica-log-dirs?topic={{t}}&partition={n}", 400) for n in ("", "-1", "x", "2147483648")),
    *(("GET", f"/v1/replica-status?partition={n}", 400) for n in ("0", "x")),
    *(("GET", f"/v1/groups/g/positions?topic={n}", 400) for n in ("a%20b", "", "%00")),
    *(("GET", path, 404) for path in ("/v1", "/v2/topics", "/v1/topics/", "/v1/topics//layout", "/v1/%2e%2e")),
    *((method, "/v1/topics/{t}/layout", 405) for method in ("POST", "PUT", "PATCH", "DELETE", "HEAD", "BREW")),
    ("GET", f"/v1/topics/{'x' * 9000}", 414),
    ("GET", f"/v1/topics?{'x' * 60_001}", 414),
]  # fmt: skip
BODIES: list[tuple[bytes, int]] = [
    (b"", 400),
    (b"{", 400),
    (b"null", 400),
    (b"[]", 400),
    (b'"text"', 400),
    (b"\xff\xfe", 400),
    (b'{"topic": "\xff"}', 400),
    (b'{"topic": "\\ud800"}', 400),
    (b'{"topic": "t", "partitions": NaN}', 400),
    (b'{"topic": "t", "partitions": Infinity}', 400),
    (b'{"topic": "t", "partitions": 1e400}', 400),
    (b'{"topic": "t", "partitions": ' + b"9" * 100_000 + b"}", 400),
    (b"[" * 100_000 + b"]" * 100_000, 400),
    (b'{"topic": ' * 50_000 + b"1" + b"}" * 50_000, 400),
    (b"x" * (MAX_BODY + 1), 413),
]
KINDS = (
    None,
    "",
    "text/plain",
    "application/x-www-form-urlencoded",
    "application/json; charset=latin-1",
    "json",
    "a/b/c",
)


@pytest.fixture(scope="module")
def topic(running_controller: InProcess) -> str:
    return running_controller.create(2)


@pytest.fixture(scope="module")
def untouched(running_controller: InProcess, topic: str) -> Callable[[], Any]:
    """What must be the same after every refused request."""

    def state() -> Any:
        topics = running_controller.http.get("/v1/topics").json()
        brokers = [
            broker["max_partitions"]
            for broker in running_controller.http.get("/v1/brokers").json()["brokers"]
        ]
        return topics, brokers, running_controller.layout(topic)

    return state


def api_routes(controller: InProcess) -> list[APIRoute]:
    app = controller.http.app
    assert isinstance(app, FastAPI)
    return [route for route in app.routes if isinstance(route, APIRoute)]


def fields_of(model: type[BaseModel]) -> Iterator[str]:
    """Names of its fields, and of the fields of those that are lists of models."""
    for name, field in model.model_fields.items():
        yield name
        for inner in get_args(field.annotation):
            if isinstance(inner, type) and issubclass(inner, BaseModel):
                yield from fields_of(inner)


def filled(node: Any, topic: str) -> Any:
    return json.loads(json.dumps(node).replace("{t}", topic))


def test_wrong_fields_of_every_route_are_named(
    controller: InProcess, topic: str, untouched: Callable[[], Any]
) -> None:
    before, wrong = untouched(), []
    for method, path, body, field in WRONG:
        answer = controller.http.request(method, path.replace("{t}", topic), json=filled(body, topic))
        named = field.split(".")[-1]
        refused = 400 <= answer.status_code < 500
        if (
            not refused
            or named not in (answer.json()["error_message"] or "")
            or not answer.json()["error_code"]
        ):
            wrong.append((method, path, field, str(body)[:150], answer.status_code, answer.text[:300]))
    assert not wrong, "\n".join(map(str, wrong))
    assert untouched() == before


def test_every_field_of_every_body_is_among_the_wrong_ones(controller: InProcess) -> None:
    tried = {(method, path, field.split(".")[-1]) for method, path, _, field in (*WRONG, *PER_TOPIC)}
    missing = []
    for route in api_routes(controller):
        for model in models_of(route):
            for name in fields_of(model):
                if not any(
                    method in (route.methods or ()) and route.path_regex.match(path) and field == name
                    for method, path, field in tried
                ):
                    missing.append((sorted(route.methods or ()), route.path, name))
    assert not missing, "\n".join(map(str, missing))


def test_wrong_topics_and_numbers_are_refused_in_their_results(
    controller: InProcess, topic: str, untouched: Callable[[], Any]
) -> None:
    before, wrong = untouched(), []
    for method, path, body, field in PER_TOPIC:
        answer = controller.http.request(method, path, json=filled(body, topic))
        if answer.status_code == 200:
            (result,) = answer.json()["topics"]
        else:
            result = answer.json()
        if answer.status_code >= 500 or not result["error_code"] > 0 or not result["error_message"]:
            wrong.append((method, path, field, str(body)[:150], answer.status_code, answer.text[:300]))
    assert not wrong, "\n".join(map(str, wrong))
    assert untouched() == before


def test_wrong_paths_queries_and_methods(
    controller: InProcess, topic: str, untouched: Callable[[], Any]
) -> None:
    before, wrong = untouched(), []
    for method, path, status in PATHS:
        body = {"json": filled(COUNTS, topic)} if method == "POST" else {"json": {"max_partitions": 1}}
        answer = controller.http.request(
            method, path.replace("{t}", topic), **({} if method == "GET" else body)
        )
        told = method == "HEAD" or (answer.json()["error_code"] > 0 and answer.json()["error_message"])
        if answer.status_code != status or not told:
            wrong.append((method, path[:100], status, answer.status_code, answer.text[:300]))
    assert not wrong, "\n".join(map(str, wrong))
    assert untouched() == before


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/topics"),
        ("POST", "/v1/topics/{t}/adopt"),
        ("PATCH", "/v1/topics/{t}"),
        ("POST", "/v1/topics/{t}/misrouted"),
        ("PUT", "/v1/brokers/1/guard-rails"),
    ],
)
def test_bodies_that_are_none(controller: InProcess, topic: str, method: str, path: str) -> None:
    wrong = []
    for body, status in BODIES:
        answer = controller.http.request(method, path.replace("{t}", topic), content=body, headers=JSON)
        if answer.status_code != status or not answer.json()["error_message"]:
            wrong.append((body[:60], status, answer.status_code, answer.text[:300]))
        assert len(answer.content) < 2000
    for kind in KINDS:
        headers = {} if kind is None else {"content-type": kind}
        answer = controller.http.request(method, path.replace("{t}", topic), content=b"{}", headers=headers)
        if answer.status_code != 415 or "Content-Type" not in answer.json()["error_message"]:
            wrong.append((str(kind).encode(), 415, answer.status_code, answer.text[:300]))
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.parametrize(
    ("items", "told"), [(2_000, "and 3990 more of the kind"), (50_000, "has 100000 wrong fields")]
)
def test_many_errors_are_told_in_few_words(controller: InProcess, items: int, told: str) -> None:
    body = {"topics": [{"topic": number} for number in range(items)]}
    answer = controller.http.post("/v1/partition-counts", json=body)
    assert answer.status_code == 400
    assert told in answer.json()["error_message"]
    assert len(answer.content) < 3000


def test_a_request_with_one_wrong_topic_does_nothing_to_it_and_all_to_the_others(
    controller: InProcess, kafka_cluster: LocalCluster
) -> None:
    right, wrong = unique_name("right"), unique_name("wrong")
    body = {
        "topics": [
            {"topic": right, "partitions": 1},
            {"topic": wrong, "partitions": 1, "configs": {"no": "1"}},
        ]
    }
    answer = controller.http.post("/v1/topics", json=body)
    assert [row["error"] for row in answer.json()["topics"]] == ["NONE", "INVALID_CONFIG"]
    assert (exists(kafka_cluster, right), exists(kafka_cluster, wrong)) == (True, False)


# -- over a real connection -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def port(running_controller: InProcess) -> Iterator[int]:
    free = free_port()
    with served(running_controller, free):
        yield free


def test_a_body_of_100_mb_is_refused_without_being_read(port: int) -> None:
    sent = 0

    def body() -> Iterator[bytes]:
        nonlocal sent
        while sent < 100 * 1024 * 1024:
            sent += 65536
            yield b"x" * 65536

    with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=TIMEOUT) as http:
        announced = {**JSON, "content-length": str(100 * 1024 * 1024)}
        answer = http.post("/v1/topics", content=body(), headers=announced)
        assert (answer.status_code, answer.json()["error"]) == (413, "INVALID_REQUEST")
        assert answer.headers["connection"] == "close"
        announced_sent, sent = sent, 0
        # In chunks, without a length.
        answer = http.post("/v1/topics", content=body(), headers=JSON)
        assert answer.status_code == 413
    # What lies in buffers between the two was sent; the rest was not.
    assert max(announced_sent, sent) < 50 * 1024 * 1024


def said(port: int, request: bytes) -> bytes:
    """The beginning of the answer to bytes that no client would send."""
    with socket.create_connection(("127.0.0.1", port), TIMEOUT) as connection:
        connection.sendall(request)
        return connection.recv(65536)


@pytest.mark.parametrize(
    "request_line",
    [
        b"GET /v1/topics/\xff\xfe HTTP/1.1",
        b"GET /v1/topics/%ff%fe HTTP/1.1",
        b"GET http://other/v1/topics/a%20b HTTP/1.1",
        b"GET * HTTP/1.1",
        b"nonsense",
        b"GET /v1/topics?topic=\xff HTTP/9.9",
        b"POST /v1/topics HTTP/1.1\r\nContent-Length: -5",
        b"GET /" + b"x" * 100_000 + b" HTTP/1.1",
    ],
)
def test_bytes_that_are_no_request_are_answered_4xx(port: int, request_line: bytes) -> None:
    answer = said(port, request_line + b"\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert answer.startswith((b"HTTP/1.1 4",)), answer[:200]


def test_a_client_that_goes_away_in_the_middle_of_its_body_changes_nothing(
    port: int, controller: InProcess
) -> None:
    topic = unique_name("cut-off")
    body = json.dumps({"topic": topic, "partitions": 1}).encode()
    head = f"POST /v1/topics HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body) + 1}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), TIMEOUT) as connection:
        connection.sendall(head.encode() + body)
    # Whatever came of it came before this one, or the server would not be there.
    assert said(port, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").startswith(b"HTTP/1.1 200")
    assert controller.http.get(f"/v1/topics/{topic}").status_code == 404


def test_a_slow_request_does_not_hold_up_others(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), TIMEOUT) as slow:
        slow.sendall(b"POST /v1/topics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        answers: list[bytes] = []
        other = threading.Thread(
            target=lambda: answers.append(said(port, b"GET /v1/topics HTTP/1.1\r\nHost: localhost\r\n\r\n"))
        )
        other.start()
        other.join(TIMEOUT)
        assert answers[0].startswith(b"HTTP/1.1 200")
