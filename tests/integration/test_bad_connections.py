"""Requests over real connections that are too long, too slow, cut off, or no HTTP."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import httpx2
import pytest

from tests.integration.controllers import InProcess, free_port, served
from tests.integration.wrong_requests import JSON
from tests.servers import TIMEOUT, unique_name


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
        # It may answer and hang up before it has been sent all of a long request.
        with suppress(ConnectionError):
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
