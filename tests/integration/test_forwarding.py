"""What a follower does with requests for the leader, when that one is in a state that a real one is hard to bring into."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from kazoo.client import KazooClient

from spark_ordered_kafka.controller.access.tokens import hashed, new_token
from spark_ordered_kafka.controller.api.middleware import forwarding
from spark_ordered_kafka.controller.api.middleware.signatures import (
    CALLER_HEADER,
    FORWARDED_HEADER,
    Signatures,
    is_body,
)
from spark_ordered_kafka.controller.settings import AuthenticationSettings
from spark_ordered_kafka.controller.zk.records import LeaderRecord, dump
from spark_ordered_kafka.controller.zk.session import CONTROLLER
from spark_ordered_kafka.errors import ErrorCode
from spark_ordered_kafka.local import LocalCluster
from tests.client.test_controller_client import CREATED, NOBODY, STANDBY, Answer, played, told
from tests.integration.controllers import InProcess, in_process
from tests.servers import TIMEOUT, unique_name

TOKEN, SECRET = "the-token", new_token()
BODY = {"topic": "t", "partitions": 1}


class Throne:
    """The ``/controller`` znode, in the hands of the test."""

    def __init__(self, client: KazooClient) -> None:
        self._client = client
        self._epoch = 0

    def give(self, url: str) -> None:
        """Let another controller lead, without a moment in which the follower could be elected."""
        self._epoch += 1
        record = LeaderRecord(id=f"played-{self._epoch}", url=url, epoch=self._epoch, token=TOKEN)
        handover = self._client.transaction()
        if self._client.exists(CONTROLLER):
            handover.delete(CONTROLLER)
        handover.create(CONTROLLER, dump(record), ephemeral=True)
        for done in handover.commit():
            if isinstance(done, Exception):
                raise done

    def vacate(self) -> None:
        if self._client.exists(CONTROLLER):
            self._client.delete(CONTROLLER)


@pytest.fixture(scope="module")
def follower_and_throne(
    kafka_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[InProcess, Throne]]:
    tokens = tmp_path_factory.mktemp("tokens") / "tokens"
    tokens.write_text(f"{hashed(SECRET, 'User:alice')}\n")
    tokens.chmod(0o600)
    authentication = AuthenticationSettings(tokens_file=str(tokens))
    chroot = unique_name("forwarding")
    with in_process(kafka_cluster, chroot=chroot) as first:
        first.create(1)
    client = KazooClient(f"{kafka_cluster.zookeeper}/{chroot}")
    client.start(TIMEOUT)
    throne = Throne(client)
    throne.give(NOBODY)
    try:
        with in_process(
            kafka_cluster, chroot=chroot, await_active=False, authentication=authentication
        ) as follower:
            yield follower, throne
    finally:
        client.stop()
        client.close()


@pytest.fixture
def follower(follower_and_throne: tuple[InProcess, Throne]) -> InProcess:
    return follower_and_throne[0]


@pytest.fixture
def throne(follower_and_throne: tuple[InProcess, Throne]) -> Throne:
    return follower_and_throne[1]


def _await_news(follower: InProcess, url: str | None) -> None:
    deadline = time.monotonic() + TIMEOUT
    while (None if (leader := follower.service.leader.record) is None else leader.url) != url:
        assert time.monotonic() < deadline, f"the follower does not hear of {url}"
        time.sleep(0.01)


def _create(follower: InProcess) -> httpx.Response:
    answer: httpx.Response = follower.http.post(
        "/v1/topics",
        json=BODY,
        params={"reason": "why not?", "x": "ü"},
        headers={
            "Idempotency-Key": "k",
            "Authorization": f"Bearer {SECRET}",
            "X-Request-Id": "r-1",
            "X-Own": "1",
        },
    )
    return answer


def test_a_request_is_handed_on_with_its_caller_and_a_signature(follower: InProcess, throne: Throne) -> None:
    with played(Answer(201, CREATED.body, {"X-Answer": "2", "Connection": "close"})) as leader:
        throne.give(leader.url)
        _await_news(follower, leader.url)
        answer = _create(follower)
        assert (answer.status_code, answer.content) == (201, CREATED.body)
        assert (answer.headers["x-answer"], answer.headers["x-request-id"]) == ("2", "r-1")
        assert "connection" not in answer.headers
        (sent,), (path,) = leader.headers, leader.paths
        assert (
            path == "/v1/topics?reason=why%20not%3F&x=%C3%BC"
            or path == "/v1/topics?reason=why+not%3F&x=%C3%BC"
        )
        assert httpx.Response(200, content=leader.bodies[0]).json() == BODY
        assert TOKEN not in str(sent) + path
        assert is_body(leader.bodies[0], Signatures().check(TOKEN, "POST", path, sent))
        assert sent[CALLER_HEADER].startswith("User%3Aalice;")
        assert (sent["idempotency-key"], sent["x-request-id"], sent["x-own"]) == ("k", "r-1", "1")
        assert "authorization" not in sent
        assert sent["host"] == leader.url.removeprefix("http://")


@pytest.mark.parametrize(
    "answer",
    [
        told(409, ErrorCode.TOPIC_ALREADY_EXISTS),
        told(503, ErrorCode.INVALID_PARTITION_METADATA, **{"Retry-After": "2.5"}),
        told(503, ErrorCode.REQUEST_TIMED_OUT),
        Answer(503, b"not of a controller"),
        Answer(202, b'{"review_id": 3}'),
        Answer(200, b"x" * 3_000_000),
    ],
    ids=lambda answer: f"{answer.status} {answer.body[:30]!r}",
)
def test_answers_are_passed_on_as_they_are(follower: InProcess, throne: Throne, answer: Answer) -> None:
    with played(answer) as leader:
        throne.give(leader.url)
        _await_news(follower, leader.url)
        found = _create(follower)
        assert (found.status_code, found.content) == (answer.status, answer.body)
        assert found.headers.get("retry-after") == answer.headers.get("Retry-After")
        assert len(leader.requests) == 1


def test_a_request_without_an_answer_is_not_sent_again(follower: InProcess, throne: Throne) -> None:
    with played(Answer(0)) as leader:
        throne.give(leader.url)
        _await_news(follower, leader.url)
        answer = _create(follower)
        assert (answer.status_code, answer.json()["error"]) == (502, "REQUEST_TIMED_OUT")
        assert (
            f"{leader.url}, which the request was handed to, did not answer" in answer.json()["error_message"]
        )
        assert len(leader.requests) == 1


def test_a_leader_that_stands_still_is_given_up_when_another_leads(
    follower: InProcess, throne: Throne, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forwarding, "_DEPOSED_GRACE", 0.1)
    released = threading.Event()

    def stand_still() -> Answer:
        released.wait(TIMEOUT)
        return Answer(0)

    with played(stand_still) as old, played(CREATED) as new, ThreadPoolExecutor(1) as pool:
        try:
            throne.give(old.url)
            _await_news(follower, old.url)
            pending = pool.submit(_create, follower)
            deadline = time.monotonic() + TIMEOUT
            while not old.requests:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            throne.give(new.url)
            answer = pending.result(TIMEOUT)
            assert (answer.status_code, answer.json()["error"]) == (504, "REQUEST_TIMED_OUT")
            assert new.requests == []
            assert _create(follower).status_code == 201
        finally:
            released.set()


def test_a_request_waits_for_a_leader(follower: InProcess, throne: Throne) -> None:
    """There is none, then one whose address refuses connections, then one that has been deposed, then one that leads."""
    with played(STANDBY) as standby, played(CREATED) as leader, ThreadPoolExecutor(1) as pool:
        throne.give(NOBODY)
        _await_news(follower, NOBODY)
        pending = pool.submit(_create, follower)
        throne.give(standby.url)
        deadline = time.monotonic() + TIMEOUT
        while not standby.requests:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        throne.give(leader.url)
        assert pending.result(TIMEOUT).status_code == 201
        assert len(leader.requests) == 1


@pytest.mark.parametrize("url", [NOBODY, "http://no.such.host.invalid:1", "https://127.0.0.1:1"])
def test_waiting_ends_and_says_that_nothing_was_done(
    follower: InProcess, throne: Throne, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setattr(forwarding, "PATIENCE", 0.1)
    throne.give(url)
    _await_news(follower, url)
    answer = _create(follower)
    assert (answer.status_code, answer.json()["error"]) == (503, "NOT_CONTROLLER")
    assert answer.json()["error_message"].startswith(f"nothing was done: {url} cannot be reached: ")


def test_what_was_handed_on_is_not_handed_on_again(follower: InProcess, throne: Throne) -> None:
    with played(CREATED) as leader:
        throne.give(leader.url)
        _await_news(follower, leader.url)
        for token in (TOKEN, "wrong"):
            headers = {FORWARDED_HEADER: token, CALLER_HEADER: "User%3Aadmin;127.0.0.1"}
            answer = follower.http.post("/v1/topics", json=BODY, headers=headers)
            assert (answer.status_code, answer.json()["error"]) == (503, "NOT_CONTROLLER")
        assert leader.requests == []


def test_questions_and_mistakes_are_answered_by_the_follower_itself(
    follower: InProcess, throne: Throne
) -> None:
    throne.give(NOBODY)
    _await_news(follower, NOBODY)
    (topic,) = (one["topic"] for one in follower.http.get("/v1/topics").json()["topics"])
    assert follower.layout(topic).layouts[0].epoch == 0
    assert follower.http.post(f"/v1/topics/{topic}/truncations", json={}).status_code == 200
    assert follower.http.post(f"/v1/topics/{topic}/misrouted", json={"records": 1}).status_code == 200
    assert follower.http.get("/v1/brokers").status_code == 200
    assert follower.http.post("/v1/nothing", json={}).status_code == 404
    assert follower.http.put("/v1/topics", json={}).status_code == 405
