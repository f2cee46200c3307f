"""Wrong input to every route: a 4xx with code, field and reason, and nothing half done."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, get_args

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from pydantic import BaseModel

from spark_ordered_kafka.controller.api.http.bodies import models_of
from spark_ordered_kafka.controller.api.middleware.limits import MAX_BODY
from spark_ordered_kafka.local import LocalCluster
from tests.integration.controllers import InProcess, exists
from tests.integration.wrong_requests import COUNTS, JSON, PATHS, PER_TOPIC, WRONG
from tests.servers import unique_name

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


@pytest.mark.long
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


@pytest.mark.long
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
