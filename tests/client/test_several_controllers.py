"""The client of several controllers: which of them it asks, what it sends again, and what it says of each."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
import uvicorn
from fastapi import FastAPI

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.controller.api import create_app
from spark_ordered_kafka.errors import ErrorCode, RequestError, UnavailableError
from spark_ordered_kafka.local import LocalCluster
from tests.client.playing import (
    CREATE,
    CREATED,
    NOBODY,
    ROUTES,
    STANDBY,
    TOPICS,
    UNKNOWN,
    Answer,
    hanging,
    played,
    told,
)
from tests.integration.controllers import in_process
from tests.servers import TIMEOUT, await_true, unique_name

PATIENCE = 3.0
"""Seconds: a played controller that answers at once does so in time on a busy machine, too."""


# Sent twice they do the same as once.
READING = [
    route
    for route in ROUTES
    if route[0] in ("GET", "PUT")
    or route[1].endswith(
        ("/layouts", "/truncations", "/replication-factors", "/verify", "/plan", "/replica-log-dirs")
    )
    or route == ("PATCH", "/v1/reassignments/{request_id}")
]
KEYED = [
    ("POST", "/v1/topics"),
    ("PATCH", "/v1/topics/{topic}"),
    ("POST", "/v1/partition-counts"),
    ("POST", "/v1/reassignments"),
]
NOT_TWICE = [route for route in ROUTES if route not in READING and route not in KEYED]


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


@pytest.mark.long
def test_a_slow_controller_is_left_for_questions_only() -> None:
    with hanging() as slow, played(TOPICS) as other:
        with ControllerClient([slow.url, other.url], timeout=PATIENCE, retry_for=TIMEOUT) as client:
            with pytest.raises(UnavailableError, match=r"timed out\. It may have been carried out"):
                client.adopt_topic("t", schemas.AdoptTopicRequest())
            # A client gives up before its request has been read, if the machine is busy.
            await_true(lambda: len(slow.requests) == 1, "the request at the slow one")
            assert other.requests == []
            assert client.topics().topics == []
        await_true(lambda: len(slow.requests) == 2, "the question at the slow one")
        assert len(other.requests) == 1


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

        def asked() -> int:
            before = len(standby.requests)
            with pytest.raises(UnavailableError, match="is not the active controller"):
                client.topics()
            return len(standby.requests) - before

        # Once, if the machine stands still for that second.
        await_true(lambda: asked() > 1, "asked again before it ends")


def test_an_answer_is_not_asked_for_again() -> None:
    with played(UNKNOWN) as controller, ControllerClient(controller.url, retry_for=TIMEOUT) as client:
        with pytest.raises(RequestError):
            client.topic("t")
        assert len(controller.requests) == 1


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


@pytest.mark.long
def test_leadership_moves(kafka_cluster: LocalCluster) -> None:
    chroot = unique_name("moving")
    with ExitStack() as ends, ExitStack() as first_ends:
        sockets = [ends.enter_context(listening()) for _ in range(2)]
        urls = [url for _, url in sockets]
        first = first_ends.enter_context(in_process(kafka_cluster, chroot=chroot, url=urls[0]))
        second = ends.enter_context(in_process(kafka_cluster, chroot=chroot, url=urls[1], await_active=False))
        for controller, (listener, _) in zip((first, second), sockets, strict=True):
            ends.enter_context(served(create_app(controller.service), listener))
        client = ends.enter_context(ControllerClient(urls[::-1], retry_for=2 * TIMEOUT))
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
