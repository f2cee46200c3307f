"""The client of the controller: every route, several URLs, what is sent twice and what never is, and its errors."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI

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
from spark_ordered_kafka.local import LocalCluster
from tests.integration.controllers import in_process
from tests.servers import TIMEOUT, unique_name

NOBODY = "http://127.0.0.1:1"
CREATE = schemas.CreateTopicRequest(topic="t", partitions=1)
COUNTS = schemas.PartitionCountsRequest(topics=[])
LIMITS = schemas.ReassignmentThrottleRequest(throttle=None)
PATIENCE = 0.3

ROUTES: dict[tuple[str, str], Callable[[ControllerClient], object]] = {
    ("GET", "/healthz"): lambda c: c.healthz(),
    ("GET", "/readyz"): lambda c: c.readyz(),
    ("GET", "/metrics"): lambda c: c.metrics(),
    ("GET", "/v1/topics"): lambda c: c.topics(),
    ("POST", "/v1/topics"): lambda c: c.create_topic(CREATE),
    ("GET", "/v1/topics/{topic}"): lambda c: c.topic("t", details=True),
    ("PATCH", "/v1/topics/{topic}"): lambda c: c.alter_topic("t", schemas.AlterTopicRequest(), wait=1),
    ("POST", "/v1/topics/{topic}/adopt"): lambda c: c.adopt_topic("t", schemas.AdoptTopicRequest()),
    ("POST", "/v1/topics/{topic}/release"): lambda c: c.release_topic("t", schemas.ReleaseTopicRequest()),
    ("GET", "/v1/topics/{topic}/layout"): lambda c: c.layout("t", 3),
    ("GET", "/v1/topics/{topic}/leader-epochs"): lambda c: c.leader_epochs("t", [0, 1]),
    ("POST", "/v1/topics/{topic}/delete-records"): lambda c: c.delete_records("t", schemas.DeleteRecordsRequest()),
    ("POST", "/v1/topics/{topic}/truncations"): lambda c: c.truncations("t"),
    ("POST", "/v1/topics/{topic}/misrouted"): lambda c: c.report_misrouted("t", 1),
    ("POST", "/v1/writer-names"): lambda c: c.take_writer_name("t"),
    ("POST", "/v1/writer-names/release"): lambda c: c.release_writer_name("t", "w", "n"),
    ("POST", "/v1/partition-counts"): lambda c: c.alter_partition_counts(COUNTS, wait=1),
    ("GET", "/v1/topics/{topic}/change"): lambda c: c.change("t"),
    ("DELETE", "/v1/topics/{topic}/change"): lambda c: c.cancel_change("t"),
    ("GET", "/v1/controllers"): lambda c: c.controllers(),
    ("GET", "/v1/diagnostics"): lambda c: c.diagnostics(),
    ("GET", "/v1/kafka-topics"): lambda c: c.kafka_topics(),
    ("GET", "/v1/topics/{topic}/foreign-producers"): lambda c: c.foreign_producers("t"),
    ("GET", "/v1/topics/{topic}/hanging-transactions"): lambda c: c.hanging_transactions("t"),
    ("GET", "/v1/brokers"): lambda c: c.brokers(),
    ("GET", "/v1/autoscale"): lambda c: c.autoscale(),
    ("GET", "/v1/healing"): lambda c: c.healing(),
    ("POST", "/v1/leader-elections"): lambda c: c.elect_leaders(schemas.LeaderElectionRequest()),
    ("PUT", "/v1/brokers/{broker}/guard-rails"): lambda c: c.set_guard_rails(
        7, schemas.GuardRailsRequest(max_partitions=None)
    ),
    ("GET", "/v1/groups/{group}/positions"): lambda c: c.group_positions("g", "t"),
    ("GET", "/v1/groups"): lambda c: c.groups(),
    ("GET", "/v1/caller"): lambda c: c.caller(),
    ("GET", "/v1/audit-log"): lambda c: c.audit_log(),
    ("GET", "/v1/reviews"): lambda c: c.reviews(),
    ("GET", "/v1/reviews/{review_id}"): lambda c: c.review(7),
    ("POST", "/v1/reviews/{review_id}/approve"): lambda c: c.approve_review(7),
    ("POST", "/v1/reviews/{review_id}/discard"): lambda c: c.discard_review(7),
    ("DELETE", "/v1/topics/{topic}"): lambda c: c.delete_topic("t"),
    ("POST", "/v1/topic-deletions"): lambda c: c.delete_topics(schemas.DeleteTopicsRequest(topics=["t"])),
    ("POST", "/v1/reassignments"): lambda c: c.reassign(schemas.ReassignmentRequest(rollback=1)),
    ("GET", "/v1/reassignments"): lambda c: c.reassignments(),
    ("GET", "/v1/reassignments/{request_id}"): lambda c: c.reassignment(7),
    ("PATCH", "/v1/reassignments/{request_id}"): lambda c: c.alter_reassignment_throttle(7, LIMITS),
    ("DELETE", "/v1/reassignments/{request_id}"): lambda c: c.cancel_reassignment(7),
    ("POST", "/v1/reassignments/verify"): lambda c: c.verify_reassignment(schemas.VerifyRequest(partitions=[])),
    ("POST", "/v1/reassignments/plan"): lambda c: c.plan_reassignment(schemas.ReassignmentPlanRequest(goal="balance")),
    ("GET", "/v1/log-dirs"): lambda c: c.log_dirs(),
    ("GET", "/v1/replica-log-dirs"): lambda c: c.replica_log_dirs(),
    ("POST", "/v1/replica-log-dirs"): lambda c: c.alter_replica_log_dirs(schemas.ReplicaLogDirsRequest(replicas=[])),
    ("GET", "/v1/replica-status"): lambda c: c.replica_status(),
    ("POST", "/v1/replication-factors"): lambda c: c.alter_replication_factors(
        schemas.ReplicationFactorsRequest(topics=[]), wait=1
    ),
}  # fmt: skip
# Sent twice they do the same as once.
READING = [
    route
    for route in ROUTES
    if route[0] in ("GET", "PUT")
    or route[1].endswith(("/truncations", "/replication-factors", "/verify", "/plan", "/replica-log-dirs"))
    or route == ("PATCH", "/v1/reassignments/{request_id}")
]
KEYED = [
    ("POST", "/v1/topics"),
    ("PATCH", "/v1/topics/{topic}"),
    ("POST", "/v1/partition-counts"),
    ("POST", "/v1/reassignments"),
]
NOT_TWICE = [route for route in ROUTES if route not in READING and route not in KEYED]


@dataclass
class Answer:
    """What a played controller answers; a status of 0 cuts the connection."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


class Played:
    """An HTTP server that plays a controller in a state that a real one is hard to bring into."""

    def __init__(self, answer: Callable[[], Answer]) -> None:
        self.requests: list[tuple[str, str]] = []
        self.headers: list[dict[str, str]] = []
        self.bodies: list[bytes] = []
        self.paths: list[str] = []
        played = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self) -> None:
                played.bodies.append(self.rfile.read(int(self.headers.get("content-length", "0"))))
                played.headers.append({name.lower(): value for name, value in self.headers.items()})
                played.paths.append(self.path)
                played.requests.append((self.command, self.path.partition("?")[0]))
                answered = answer()
                if answered.status == 0:
                    self.close_connection = True
                    return
                self.send_response(answered.status)
                for name, value in (answered.headers | {"content-length": str(len(answered.body))}).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answered.body)

            do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = _answer  # noqa: N815 - BaseHTTPRequestHandler's names

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - overridden
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    @property
    def keys(self) -> list[str | None]:
        return [headers.get("idempotency-key") for headers in self.headers]


@contextmanager
def played(answer: Answer | Callable[[], Answer]) -> Iterator[Played]:
    server = Played((lambda: answer) if isinstance(answer, Answer) else answer)
    thread = threading.Thread(target=server.server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server
    finally:
        server.server.shutdown()
        thread.join(TIMEOUT)
        server.server.server_close()


@contextmanager
def hanging() -> Iterator[Played]:
    """Takes requests and does not answer before the end of the test."""
    ended = threading.Event()

    def wait() -> Answer:
        ended.wait(TIMEOUT)
        return Answer(0)

    with played(wait) as server:
        try:
            yield server
        finally:
            ended.set()


def told(status: int, code: int, message: str = "why", **headers: str) -> Answer:
    body = schemas.Result(error_code=code, error="X", error_message=message).model_dump_json()
    return Answer(status, body.encode(), headers)


STANDBY = told(503, ErrorCode.NOT_CONTROLLER)
TOPICS = Answer(200, b'{"topics": []}')
CREATED = Answer(201, b'{"topic": "t"}')
UNKNOWN_CODE = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
UNKNOWN = told(404, UNKNOWN_CODE)


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


# -- several URLs ---------------------------------------------------------------------------------------------------


def test_the_active_controller_is_found_and_remembered() -> None:
    with played(STANDBY) as standby, played(TOPICS) as active:
        with ControllerClient([NOBODY, standby.url, active.url]) as client:
            for _ in range(3):
                client.topics()
        assert (len(standby.requests), len(active.requests)) == (1, 3)


@pytest.mark.parametrize("route", NOT_TWICE, ids=" ".join)
def test_what_may_have_been_done_is_not_sent_again(route: tuple[str, str]) -> None:
    with played(Answer(0)) as broken, played(UNKNOWN) as other:
        with (
            ControllerClient([broken.url, other.url], retry_for=TIMEOUT) as client,
            pytest.raises(UnavailableError, match="may have been carried out: look before"),
        ):
            ROUTES[route](client)
        assert (len(broken.requests), other.requests) == (1, [])


@pytest.mark.parametrize("route", KEYED, ids=" ".join)
@pytest.mark.parametrize(
    "lost", [Answer(0), told(502, 7), told(504, 7), Answer(502)], ids=lambda one: str(one.status)
)
def test_what_has_a_key_is_sent_again_with_the_same_key(route: tuple[str, str], lost: Answer) -> None:
    with played(lost) as broken, played(UNKNOWN) as other:
        with ControllerClient([broken.url, other.url]) as client:
            for _ in range(2):
                with pytest.raises(RequestError, match="why"):
                    ROUTES[route](client)
        # The second time the one that answered is asked first.
        assert len(broken.keys) == 1
        assert other.keys[0] == broken.keys[0]
        assert other.keys[1] not in (None, other.keys[0])


def test_what_has_a_key_and_is_never_answered_may_have_been_carried_out() -> None:
    with played(Answer(0)) as broken, ControllerClient([broken.url, NOBODY], retry_for=0.0) as client:
        with pytest.raises(
            UnavailableError, match=f"was sent to {broken.url}, which .* may have been carried out"
        ):
            client.create_topic(CREATE)
        assert len(broken.requests) == 1


def test_what_a_controller_leaves_to_the_next_one_is_asked_of_that_one() -> None:
    """Both topics were begun; the one whose change went on is waited for, under the same key."""

    def results(*codes: tuple[str, int]) -> Answer:
        topics = [schemas.TopicResult(topic=topic, error_code=code, change_id="1") for topic, code in codes]
        return Answer(200, schemas.TopicResults(topics=topics).model_dump_json().encode())

    answers = iter(
        [
            results(("a", 0), ("b", ErrorCode.NOT_CONTROLLER)),
            results(("b", ErrorCode.NOT_CONTROLLER)),
            results(("b", ErrorCode.INVALID_REQUEST)),
        ]
    )
    request = schemas.PartitionCountsRequest(
        topics=[schemas.TopicPartitionCount(topic=topic, partition_count=2) for topic in ("a", "b")]
    )
    with played(lambda: next(answers)) as controller, ControllerClient(controller.url) as client:
        found = client.alter_partition_counts(request, wait=TIMEOUT).topics
    assert [(item.topic, item.error_code) for item in found] == [("a", 0), ("b", ErrorCode.INVALID_REQUEST)]
    assert len(controller.keys) == 3
    assert len(set(controller.keys)) == 1


@pytest.mark.parametrize("route", READING, ids=" ".join)
def test_what_changes_nothing_is_sent_to_the_next(route: tuple[str, str]) -> None:
    with played(Answer(0)) as broken, played(UNKNOWN) as other:
        with ControllerClient([broken.url, other.url]) as client, pytest.raises(RequestError, match="why"):
            ROUTES[route](client)
        assert (len(broken.requests), len(other.requests)) == (1, 1)


def test_a_slow_controller_is_left_for_questions_only() -> None:
    with hanging() as slow, played(TOPICS) as other:
        with ControllerClient([slow.url, other.url], timeout=PATIENCE, retry_for=TIMEOUT) as client:
            with pytest.raises(UnavailableError, match=r"timed out\. It may have been carried out"):
                client.adopt_topic("t", schemas.AdoptTopicRequest())
            assert (len(slow.requests), other.requests) == (1, [])
            assert client.topics().topics == []
        assert (len(slow.requests), len(other.requests)) == (2, 1)


@pytest.mark.parametrize(
    "first",
    [
        STANDBY,
        Answer(404, b"<html>not found</html>"),
        Answer(404, b'{"detail": "Not Found"}'),
        Answer(301, headers={"location": "http://127.0.0.1:1/"}),
    ],
    ids=lambda answer: f"{answer.status} {answer.body[:10]!r}",
)
def test_who_has_certainly_done_nothing_is_passed_over(first: Answer) -> None:
    with played(first) as other, played(CREATED) as active:
        with ControllerClient([other.url, active.url]) as client:
            assert client.create_topic(CREATE).topic == "t"
        assert (len(other.requests), len(active.requests)) == (1, 1)


def test_the_error_of_all_names_each() -> None:
    with played(STANDBY) as standby, ControllerClient([NOBODY, standby.url], retry_for=0.0) as client:
        with pytest.raises(UnavailableError) as failed:
            client.create_topic(CREATE)
        said = str(failed.value)
        assert said.startswith(f"no controller answered POST /v1/topics: {NOBODY} failed: ")
        assert said.endswith(f"{standby.url} is not the active controller: why")
        assert (len(standby.requests), failed.value.retriable) == (1, True)


# -- asking again ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", [STANDBY, Answer(404)], ids=["standby", "not there"])
def test_it_asks_again_until_there_is_a_controller(before: Answer) -> None:
    answers = iter([before] * 3)
    with played(lambda: next(answers, CREATED)) as controller:
        with ControllerClient([NOBODY, controller.url], retry_for=TIMEOUT) as client:
            assert client.create_topic(CREATE).topic == "t"
        assert len(controller.requests) == 4


def test_several_urls_are_asked_again_by_default() -> None:
    answers = iter([STANDBY] * 3)
    with (
        played(lambda: next(answers, TOPICS)) as controller,
        ControllerClient([NOBODY, controller.url]) as several,
        ControllerClient(controller.url) as single,
    ):
        with pytest.raises(UnavailableError):
            single.topics()
        assert len(controller.requests) == 1
        assert several.topics().topics == []
        assert len(controller.requests) == 4


def test_asking_again_ends() -> None:
    with played(STANDBY) as standby, ControllerClient(standby.url, retry_for=1.0) as client:
        with pytest.raises(UnavailableError, match="is not the active controller"):
            client.topics()
        assert len(standby.requests) > 1


def test_an_answer_is_not_asked_for_again() -> None:
    with played(UNKNOWN) as controller, ControllerClient(controller.url, retry_for=TIMEOUT) as client:
        with pytest.raises(RequestError):
            client.topic("t")
        assert len(controller.requests) == 1


# -- redirects ------------------------------------------------------------------------------------------------------


def redirect(url: str, status: int = 307) -> Answer:
    return told(status, ErrorCode.NOT_CONTROLLER, location=url)


@pytest.mark.parametrize("status", [307, 308])
def test_redirects_are_followed(status: int) -> None:
    with played(CREATED) as leader, played(redirect(f"{leader.url}/v1/topics", status)) as follower:
        with ControllerClient(follower.url) as client:
            assert client.create_topic(CREATE).topic == "t"
        assert (follower.requests, follower.bodies) == (leader.requests, leader.bodies)
        assert leader.headers[0]["host"] == leader.url.removeprefix("http://")


def test_redirects_in_a_circle_end() -> None:
    turns: list[str] = []
    with played(lambda: redirect(f"{turns[0]}/v1/topics")) as one, played(CREATED) as leader:
        turns.append(one.url)
        with ControllerClient([one.url, leader.url]) as client:
            assert client.create_topic(CREATE).topic == "t"
        assert (len(one.requests), len(leader.requests)) == (4, 1)


@pytest.mark.parametrize(
    ("location", "words"),
    [
        ("ftp://127.0.0.1/v1/topics", "an http or https URL is needed"),
        ("http://127.0.0.1:x/", "redirects to 'http://127.0.0.1:x/'"),
        ("http://a..b/", "redirects to 'http://a..b/'"),
        (NOBODY, f"redirects to {NOBODY}, which failed: "),
    ],
)
def test_a_redirect_to_nowhere_is_passed_over(location: str, words: str) -> None:
    with played(redirect(location)) as follower, played(CREATED) as leader:
        with (
            ControllerClient(follower.url, retry_for=0.0) as single,
            pytest.raises(UnavailableError, match=re.escape(words)),
        ):
            single.create_topic(CREATE)
        with ControllerClient([follower.url, leader.url]) as client:
            assert client.create_topic(CREATE).topic == "t"


# -- errors ---------------------------------------------------------------------------------------------------------


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
        ControllerClient(controller.url) as client,
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


# -- real controllers -----------------------------------------------------------------------------------------------


@contextmanager
def listening() -> Iterator[tuple[socket.socket, str]]:
    """A socket on a free port, and its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener, f"http://127.0.0.1:{listener.getsockname()[1]}"


@contextmanager
def served(app: FastAPI, listener: socket.socket) -> Iterator[None]:
    """The app at a socket."""
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(TIMEOUT)


def test_leadership_moves(kafka_cluster: LocalCluster) -> None:
    chroot = unique_name("moving")
    with ExitStack() as ends, ExitStack() as first_ends:
        sockets = [ends.enter_context(listening()) for _ in range(2)]
        urls = [url for _, url in sockets]
        first = first_ends.enter_context(in_process(kafka_cluster, chroot=chroot, url=urls[0]))
        second = ends.enter_context(in_process(kafka_cluster, chroot=chroot, url=urls[1], await_active=False))
        for controller, (listener, _) in zip((first, second), sockets, strict=True):
            ends.enter_context(served(create_app(controller.service), listener))
        client = ends.enter_context(ControllerClient(urls[::-1]))
        topic = unique_name("moved")
        assert (client.readyz().role, client.healthz().error) == ("follower", "NONE")
        client.create_topic(schemas.CreateTopicRequest(topic=topic, partitions=1))
        assert client.readyz().role == "leader"
        assert "python_info" in client.metrics() or "# HELP" in client.metrics()
        first_ends.close()
        # Nobody may answer for a while, and what was not done is asked for again.
        request = schemas.PartitionCountsRequest(
            topics=[schemas.TopicPartitionCount(topic=topic, partition_count=2)]
        )
        (result,) = client.alter_partition_counts(request, wait=TIMEOUT).topics
        assert (result.error, second.service.active) == ("NONE", True)
        assert client.readyz().role == "leader"
        assert client.topic(topic).undeleted_partition_count == 2
        with ControllerClient(urls[0]) as other, pytest.raises(UnavailableError, match=r"answered 50[34]"):
            other.topics()
        assert json.loads(client.topic(topic).model_dump_json())["layout_epoch"] == 1
