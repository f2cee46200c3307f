"""Made-up requests of anybody, byte by byte as h11 hands them on, to a controller on real servers: none meets a bug."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

import pytest
from fastapi import FastAPI
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.routing import Route
from starlette.types import Message

from spark_ordered_kafka.client import schemas
from tests.fuzz.hostile import contents, names, texts
from tests.fuzz.test_requests import header_values
from tests.integration.controllers import InProcess
from tests.seeds import examples
from tests.servers import TIMEOUT

# The controller's own threads use it meanwhile.
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")
# None creates a topic.
BODIES: list[Any] = [
    {"topics": [{"topic": "no-such-topic", "partition_count": 3}], "validate_only": True},
    {"version": 1, "partitions": [{"topic": "no-such-topic", "partition": 0, "replicas": [1, 2]}]},
    {"positions": [{"partition": 0, "offset": 1, "leader_epoch": 0}], "partitions": [0]},
    {"replicas": [{"topic": "no-such-topic", "partition": 0, "broker": 1, "log_dir": "/d"}]},
]
METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "X"]
# It takes its time.
WITHOUT = "/v1/events"

HEADERS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                b"host", b"origin", b"sec-fetch-site", b"content-type", b"content-length", b"authorization", b"x-request-id",
                b"idempotency-key", b"x-forwarded-for", b"last-event-id", b"accept", b"if-none-match", b"range", b"connection",
            ]
        ),
        header_values | st.sampled_from([b"localhost", b"application/json", b"Basic ", b"Basic \xe9", b"Bearer \xe9"]),
    ),
    max_size=4,
)  # fmt: skip
QUERIES = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "reason",
                "wait",
                "validate_only",
                "writer",
                "from_epoch",
                "timeout_ms",
                "topics",
                "partitions",
                "details",
            ]
        )
        | texts,
        texts,
    ),
    max_size=3,
).map(lambda pairs: "&".join(f"{name}={value}" for name, value in pairs).encode("ascii", "replace")[:4000])


def path_of(template: str, segment: str) -> bytes:
    filled = "/".join(segment if part.startswith("{") else part for part in template.split("/"))
    return "".join(one for one in filled if one.isascii() and one > " " and one not in "?#\x7f").encode()[
        :4000
    ]


async def answered(app: FastAPI, scope: dict[str, Any], body: bytes) -> tuple[int, bytes]:
    """The answer to a client that goes away behind its request."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
    status, content = 0, b""

    async def receive() -> Message:
        return messages.pop() if messages else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        nonlocal status, content
        status = message.get("status", status)
        content += message.get("body", b"")

    await asyncio.wait_for(app(scope, receive, send), TIMEOUT)
    return status, content


@settings(
    max_examples=examples(600),
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
    ],
)
@given(
    method=st.sampled_from(METHODS),
    place=st.integers(0, 1000),
    segment=texts | names,
    query=QUERIES,
    headers=HEADERS,
    body=contents(BODIES),
)
def test_no_request_meets_a_bug(
    running_controller: InProcess,
    method: str,
    place: int,
    segment: str,
    query: bytes,
    headers: list[tuple[bytes, bytes]],
    body: bytes,
) -> None:
    app = running_controller.http.app
    assert isinstance(app, FastAPI)
    templates = sorted({route.path for route in app.routes if isinstance(route, Route)} - {WITHOUT})
    path = path_of(templates[place % len(templates)], segment)
    own = [] if any(name == b"host" for name, _ in headers) else [(b"host", b"localhost")]
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http", "root_path": "",
        "path": unquote(path.decode("ascii")), "raw_path": path, "query_string": query, "state": {},
        "headers": [*own, (b"content-type", b"application/json"), *headers],
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2),
    }  # fmt: skip
    status, content = asyncio.run(answered(app, scope, body))
    # A bug says "internal error".
    assert status != HTTPStatus.INTERNAL_SERVER_ERROR, content
    if status >= HTTPStatus.BAD_REQUEST and method != "HEAD":
        assert schemas.Result.model_validate_json(content).error_code != 0
