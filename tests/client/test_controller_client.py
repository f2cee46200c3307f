"""The client of the controller: every route, several URLs, what is sent twice and what never is, and its errors."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.controller.api import create_app
from spark_ordered_kafka.controller.service import ControllerService
from spark_ordered_kafka.controller.settings import ControllerSettings, ZooKeeperSettings
from spark_ordered_kafka.errors import (
    ClosedError,
    ConfigError,
    ErrorCode,
    LayoutChangingError,
    OrderedKafkaError,
    RequestError,
    UnavailableError,
)
from tests.client.playing import (
    COUNTS,
    LIMITS,
    NOBODY,
    ROUTES,
    TOPICS,
    UNKNOWN,
    UNKNOWN_CODE,
    Answer,
    hanging,
    played,
    told,
)
from tests.servers import TIMEOUT


def test_every_route_has_a_method() -> None:
    settings = ControllerSettings(
        {"bootstrap.servers": "127.0.0.1:1"}, ZooKeeperSettings("127.0.0.1:1"), NOBODY
    )
    app = create_app(ControllerService(settings))
    served = {
        (method.upper(), path) for path, methods in app.openapi()["paths"].items() for method in methods
    }
    # A stream has no end that a method could return at.
    assert set(ROUTES) == served - {("GET", "/v1/events")}


@pytest.mark.parametrize("route", ROUTES, ids=" ".join)
def test_methods_ask_their_routes(route: tuple[str, str]) -> None:
    with played(UNKNOWN) as controller, ControllerClient(controller.url) as client:
        with pytest.raises(RequestError, match="why") as refused:
            ROUTES[route](client)
        path = re.sub(r"{(.).*?}", r"\1", re.sub("{broker}|{review_id}|{request_id}", "7", route[1]))
        assert (controller.requests, refused.value.code) == ([(route[0], path)], UNKNOWN_CODE)


def test_a_limit_that_is_taken_away_is_said_and_one_that_stays_is_not() -> None:
    with played(UNKNOWN) as controller, ControllerClient(controller.url) as client:
        for limits in (LIMITS, schemas.ReassignmentThrottleRequest(replica_alter_log_dirs_throttle=7)):
            with pytest.raises(RequestError, match="why"):
                client.alter_reassignment_throttle("latest", limits)
        assert controller.bodies == [b'{"throttle":null}', b'{"replica_alter_log_dirs_throttle":7}']


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (Answer(200, b"<html>"), UnavailableError, "not a TopicList: "),
        (Answer(200, b'{"topics": 3}'), UnavailableError, "not a TopicList: "),
        (Answer(200, b"\xff\xfe"), UnavailableError, "not a TopicList: "),
        (Answer(204), UnavailableError, "not a TopicList: "),
        (Answer(200, b"compressed, unasked", {"content-encoding": "gzip"}), UnavailableError, "not a TopicList: "),
        (Answer(307, headers={"location": "/v1/topics"}), UnavailableError, "answered 307: "),
        (Answer(500, b"Internal Server Error"), UnavailableError, "answered 500: Internal Server Error"),
        (Answer(502, b"<html>bad gateway</html>"), UnavailableError, "answered 502: <html>bad"),
        (told(503, ErrorCode.REQUEST_TIMED_OUT), UnavailableError, "/v1/topics: why"),
        (told(400, 9999), RequestError, "UNKNOWN_SERVER_ERROR: X (9999): why"),
        (told(409, ErrorCode.TOPIC_ALREADY_EXISTS), RequestError, "TOPIC_ALREADY_EXISTS: why"),
        (told(503, 1001, **{"retry-after": "2.5"}), LayoutChangingError, "ask again in 2.5 s"),
        (told(503, 1001, **{"retry-after": "Fri, 21 Nov 2025 10:00:00 GMT"}), LayoutChangingError, "in 0.2 s"),
        (told(503, 1001, **{"retry-after": "nan"}), LayoutChangingError, "in 0.2 s"),
        (told(503, 1001), LayoutChangingError, "in 0.2 s"),
    ],
)  # fmt: skip
def test_every_answer_is_a_result_or_an_error_of_this_package(
    answer: Answer, kind: type[OrderedKafkaError], words: str
) -> None:
    with (
        played(answer) as controller,
        ControllerClient(controller.url, retry_for=0.0) as client,
        pytest.raises(kind, match=re.escape(words)),
    ):
        client.topics()


def test_what_does_not_speak_http() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        with (
            ControllerClient(f"http://127.0.0.1:{listener.getsockname()[1]}") as client,
            pytest.raises(UnavailableError, match="failed: "),
        ):
            client.topics()
        thread.join(TIMEOUT)


@pytest.mark.parametrize(
    "urls",
    ["", " , ", "host:8090", "ftp://host", "http://", "http://h:x", "http://h:99999", "http://[::1", "http://h/?a=1", []],
)  # fmt: skip
def test_wrong_urls(urls: str | list[str]) -> None:
    with pytest.raises(ConfigError, match=r"^controller\.url has the value"):
        ControllerClient(urls)


@pytest.mark.parametrize(
    "settings",
    [{"timeout": 0.0}, {"timeout": float("nan")}, {"timeout": float("inf")}, {"retry_for": -1.0}],
    ids=str,
)
def test_wrong_settings(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"^{next(iter(settings))} has the value .* seconds"):
        ControllerClient(NOBODY, **settings)


@pytest.mark.parametrize(
    "call",
    [
        lambda c: c.topic("\ud800"),
        lambda c: c.topic("x" * 70_000),
        lambda c: c.group_positions("g", "\ud800"),
        lambda c: c.create_topic(schemas.CreateTopicRequest.model_construct(topic="\ud800")),
        lambda c: c.alter_partition_counts(COUNTS, wait=float("nan")),
        lambda c: c.alter_topic("t", schemas.AlterTopicRequest(), wait=0.0),
    ],
)
def test_what_cannot_be_sent(call: Callable[[ControllerClient], object]) -> None:
    with ControllerClient(NOBODY) as client, pytest.raises(ConfigError):
        call(client)


def test_a_closed_client() -> None:
    with played(TOPICS) as controller:
        client = ControllerClient(controller.url, retry_for=TIMEOUT)
        client.topics()
        client.close()
        client.close()
        with pytest.raises(ClosedError):
            client.topics()


def test_a_client_that_is_closed_while_it_waits() -> None:
    with hanging() as slow:
        client = ControllerClient(slow.url, timeout=TIMEOUT, retry_for=TIMEOUT)
        failures: list[BaseException] = []

        def ask() -> None:
            try:
                client.topics()
            except BaseException as error:  # noqa: BLE001 - looked at below
                failures.append(error)

        thread = threading.Thread(target=ask)
        thread.start()
        deadline = time.monotonic() + TIMEOUT
        while not slow.requests:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        client.close()
    thread.join(TIMEOUT)
    assert [type(error) for error in failures] == [ClosedError]
