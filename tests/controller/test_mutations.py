"""Requests that may change something, before they come to their route."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.api import create_app
from spark_ordered_kafka.controller.api.http.bodies import JsonRoute
from spark_ordered_kafka.controller.api.http.caller import ANONYMOUS, Caller
from spark_ordered_kafka.controller.api.http.errors import add_handlers
from spark_ordered_kafka.controller.api.http.routing import operation_of
from spark_ordered_kafka.controller.api.middleware.mutations import Mutation
from spark_ordered_kafka.controller.service import ControllerService
from spark_ordered_kafka.controller.settings import ControllerSettings, ZooKeeperSettings
from spark_ordered_kafka.controller.state.reviews import ReviewRecord, review_view

CALLER = Caller(ANONYMOUS, "h")


@pytest.fixture(scope="module")
def app() -> FastAPI:
    settings = ControllerSettings(
        kafka={"bootstrap.servers": "nobody:9092"}, zookeeper=ZooKeeperSettings("nobody:2181"), url="http://x"
    )
    return create_app(ControllerService(settings))


def mutation(app: FastAPI, method: str, path: str, body: bytes, **headers: str) -> Mutation:
    scope: dict[str, Any] = {
        "type": "http",
        "app": app,
        "method": method,
        "path": path,
        "query_string": b"",
        "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()],
    }
    route = operation_of(scope)
    assert route is not None
    return Mutation.of(scope, route, body, CALLER)


def test_a_body_that_a_route_does_not_take_is_not_kept(app: FastAPI) -> None:
    """Or a review of it could not be shown: what is kept is shown as JSON."""
    asked = mutation(app, "DELETE", "/v1/topics/t", b"no JSON")
    assert (asked.body, asked.parsed) == (b"", None)
    record = ReviewRecord(
        method=asked.method,
        path=asked.path,
        query=asked.query,
        body=asked.body,
        reason=None,
        principal=CALLER.principal,
        host=CALLER.host,
        requested_at=0.0,
        # A route that met a bug has answered nothing.
        answer_status=500,
        answer=b"",
    )
    view = review_view(1, record, "failed")
    assert (view.body, view.answer) == (None, None)


def test_millions_of_wrong_fields_are_counted_and_not_listed() -> None:
    app = FastAPI()
    app.router.route_class = JsonRoute
    add_handlers(app)
    app.post("/")(_delete)

    async def ask() -> httpx2.Response:
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://c") as client:
            return await client.post("/", json={"topics": [0] * 20_000})

    answer = asyncio.run(ask())
    assert (answer.status_code, answer.json()["error"]) == (400, "INVALID_REQUEST")
    assert "20000 wrong fields" in answer.json()["error_message"]
    assert len(answer.content) < 300


async def _delete(request: schemas.DeleteTopicsRequest) -> None:
    raise AssertionError(request)
