"""What a follower does with requests for the leader, when that one is in a state that a real one is hard to bring into."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest
from kazoo.client import KazooClient

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.controller.access.tokens import hashed, new_token
from spark_ordered_kafka.controller.settings import AuthenticationSettings, AuthorizationSettings, Timing
from spark_ordered_kafka.controller.zk.records import LeaderRecord, dump
from spark_ordered_kafka.controller.zk.session import CONTROLLER
from spark_ordered_kafka.credentials import ControllerCredentials
from spark_ordered_kafka.errors import ErrorCode, RequestError, UnavailableError
from spark_ordered_kafka.local import LocalCluster
from tests.client.playing import CREATE, CREATED, NOBODY, STANDBY, Answer, played, told
from tests.integration.controllers import InProcess, free_port, in_process, served
from tests.servers import TIMEOUT, await_true, unique_name

SECRET = new_token()
CREDENTIALS = ControllerCredentials(token=SECRET)
LEADER_WAIT = 0.5


class Throne:
    """The ``/controller`` znode, in the hands of the test."""

    def __init__(self, client: KazooClient) -> None:
        self._client = client
        self._epoch = 0

    def give(self, url: str) -> None:
        """Let another controller lead, without a moment in which the follower could be elected."""
        self._epoch += 1
        self.claim(f"played-{self._epoch}", url)

    def claim(self, controller_id: str, url: str) -> None:
        record = LeaderRecord(id=controller_id, url=url, epoch=self._epoch)
        handover = self._client.transaction()
        if self._client.exists(CONTROLLER):
            handover.delete(CONTROLLER)
        handover.create(CONTROLLER, dump(record), ephemeral=True)
        for done in handover.commit():
            if isinstance(done, Exception):
                raise done


class Follower:
    """A controller that does not lead, at a real port, and who leads instead."""

    def __init__(self, controller: InProcess, url: str, throne: Throne) -> None:
        self.controller = controller
        self.url = url
        self.throne = throne

    def follow(self, url: str) -> None:
        """Let the controller at ``url`` lead, and wait until the follower knows."""
        self.throne.give(url)
        leader = self.controller.service.leader
        await_true(lambda: leader.record is not None and leader.record.url == url, f"it hears of {url}")

    def post(self, target: str = "/v1/topics") -> httpx2.Response:
        headers = {"Authorization": f"Bearer {SECRET}", "X-Request-Id": "r-1"}
        body = {"topic": "t", "partitions": 1}
        url = self.url + target
        return httpx2.post(url, json=body, headers=headers, trust_env=False, timeout=TIMEOUT)

    def client(self, **more: float) -> ControllerClient:
        """Knows the follower alone."""
        return ControllerClient(self.url, credentials=CREDENTIALS, reason="why not?", **more)


@pytest.fixture(scope="module")
def follower(kafka_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Follower]:
    tokens = tmp_path_factory.mktemp("tokens") / "tokens"
    tokens.write_text(f"{hashed(SECRET, 'User:alice')}\n")
    tokens.chmod(0o600)
    authentication = AuthenticationSettings(required=True, tokens_file=str(tokens))
    chroot, port = unique_name("redirects"), free_port()
    with in_process(kafka_cluster, chroot=chroot) as first:
        first.create(1)
    client = KazooClient(f"{kafka_cluster.zookeeper}/{chroot}")
    client.start(TIMEOUT)
    throne = Throne(client)
    throne.give(NOBODY)
    try:
        with (
            in_process(
                kafka_cluster,
                chroot=chroot,
                await_active=False,
                authentication=authentication,
                authorization=AuthorizationSettings(super_users=frozenset({"User:alice"})),
                timing=Timing(leader_wait=LEADER_WAIT),
            ) as controller,
            served(controller, port),
        ):
            yield Follower(controller, f"http://127.0.0.1:{port}", throne)
    finally:
        client.stop()
        client.close()


@pytest.mark.parametrize("base", ["", "/ordered"])
def test_a_request_for_the_leader_is_redirected_as_it_was_sent(follower: Follower, base: str) -> None:
    follower.follow(NOBODY + base)
    answer = follower.post("/v1/topics/a%20b/adopt?reason=why%20not%3F&x=%C3%BC")
    assert answer.status_code == 307
    assert answer.headers["location"] == f"{NOBODY}{base}/v1/topics/a%20b/adopt?reason=why%20not%3F&x=%C3%BC"
    assert answer.headers["x-request-id"] == "r-1"
    assert answer.headers["cache-control"] == "no-store"
    result = schemas.Result.model_validate_json(answer.content)
    assert (result.error, result.error_message) == (
        "NOT_CONTROLLER",
        f"nothing was done: {NOBODY}{base} leads",
    )


def test_a_large_body_is_read_before_it_is_redirected(follower: Follower) -> None:
    """Or its sender, which does not look before it has sent all, would see a broken connection."""
    follower.follow(NOBODY)
    headers = {"Authorization": f"Bearer {SECRET}", "Content-Type": "application/json"}
    body = b'{"topic": "' + b"x" * 6_000_000 + b'"}'
    answer = httpx2.post(
        f"{follower.url}/v1/topics", content=body, headers=headers, trust_env=False, timeout=TIMEOUT
    )
    assert answer.status_code == 307


def test_who_is_not_let_in_does_not_learn_who_leads(follower: Follower) -> None:
    follower.follow(NOBODY)
    answer = httpx2.post(f"{follower.url}/v1/topics", json={}, trust_env=False, timeout=TIMEOUT)
    assert (answer.status_code, "location" in answer.headers) == (401, False)


def test_a_client_of_a_follower_reaches_the_leader(follower: Follower) -> None:
    with played(CREATED) as leader, follower.client() as client:
        follower.follow(leader.url)
        for _ in range(2):
            assert client.create_topic(CREATE).topic == "t"
    assert leader.paths == ["/v1/topics?reason=why+not%3F"] * 2
    assert set(leader.bodies) == {CREATE.model_dump_json(exclude_defaults=True).encode()}
    for sent in leader.headers:
        assert sent["authorization"] == f"Bearer {SECRET}"
        assert sent["host"] == leader.url.removeprefix("http://")
    assert len({sent["idempotency-key"] for sent in leader.headers}) == 2


def test_a_client_that_knows_the_leader_stays_with_it(follower: Follower) -> None:
    with played(CREATED) as leader:
        follower.follow(leader.url)
        with ControllerClient([follower.url, leader.url], credentials=CREDENTIALS) as client:
            client.create_topic(CREATE)
            follower.follow(NOBODY)
            client.create_topic(CREATE)
        assert len(leader.requests) == 2


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (told(409, ErrorCode.TOPIC_ALREADY_EXISTS), RequestError, "TOPIC_ALREADY_EXISTS: why"),
        (
            Answer(0),
            UnavailableError,
            r"was sent to .*, which redirects to .*, which failed: .* may have been",
        ),
    ],
    ids=["refused", "no answer"],
)
def test_the_leaders_answer_counts(
    follower: Follower, answer: Answer, kind: type[Exception], words: str
) -> None:
    with played(answer) as leader, follower.client(retry_for=0.0) as client:
        follower.follow(leader.url)
        with pytest.raises(kind, match=words):
            client.create_topic(CREATE)
        assert len(leader.requests) == 1


def test_a_client_of_one_follower_asks_again_until_a_leader_can_be_reached(follower: Follower) -> None:
    """One whose address refuses connections, then one that has been deposed, then one that leads."""
    with (
        played(STANDBY) as standby,
        played(CREATED) as leader,
        follower.client() as client,
        ThreadPoolExecutor(1) as pool,
    ):
        follower.follow(NOBODY)
        pending = pool.submit(client.create_topic, CREATE)
        follower.follow(standby.url)
        await_true(lambda: bool(standby.requests), "it asks the deposed one")
        follower.follow(leader.url)
        assert pending.result(TIMEOUT).topic == "t"
        assert len(leader.requests) == 1


@pytest.mark.parametrize("url", [NOBODY, "http://no.such.host.invalid:1"])
def test_a_leader_that_cannot_be_reached_is_named(follower: Follower, url: str) -> None:
    follower.follow(url)
    with follower.client(retry_for=0.0) as client, pytest.raises(UnavailableError) as failed:
        client.create_topic(CREATE)
    said = f"no controller answered POST /v1/topics: {follower.url} redirects to {url}, which failed: "
    assert str(failed.value).startswith(said)


def test_a_request_waits_for_a_leader_and_is_told_when_there_is_none(follower: Follower) -> None:
    """The claim is this controller's own, but it is not active: it is about to lead, or has just stopped."""
    follower.throne.claim(follower.controller.service.id, follower.url)
    record = follower.controller.service.leader
    await_true(lambda: record.record is not None and record.record.url == follower.url, "it hears of itself")
    answer = follower.post()
    assert (answer.status_code, answer.json()["error"]) == (503, "NOT_CONTROLLER")
    assert answer.json()["error_message"] == "nothing was done: there is no leader"


@pytest.mark.long
def test_a_request_that_waits_goes_to_the_next_leader(kafka_cluster: LocalCluster) -> None:
    """The leader stops; the follower that was asked is elected and carries the request out itself."""
    chroot, asked = unique_name("next"), threading.Event()
    with (
        in_process(kafka_cluster, chroot=chroot) as first,
        # For as long as an election may take on a busy machine.
        in_process(
            kafka_cluster, chroot=chroot, await_active=False, timing=Timing(leader_wait=TIMEOUT)
        ) as second,
        ThreadPoolExecutor(1) as pool,
    ):
        await_true(lambda: second.service.leader.record is not None, "it knows who leads")

        def create() -> httpx2.Response:
            asked.set()
            body = {"topic": unique_name("topic"), "partitions": 1}
            return second.http.post("/v1/topics", json=body, follow_redirects=False)

        first.service.begin_stop()
        pending = pool.submit(create)
        assert asked.wait(TIMEOUT)
        first.service.stop()
        # As long as the first one's claim is there.
        while (answer := pending.result(2 * TIMEOUT)).status_code == 307:
            pending = pool.submit(create)
        assert answer.status_code == 201, answer.text
        assert second.topic(answer.json()["topic"]).topic == answer.json()["topic"]


def test_questions_and_mistakes_are_answered_by_the_follower_itself(follower: Follower) -> None:
    follower.follow(NOBODY)
    http = follower.controller.http
    http.headers["Authorization"] = f"Bearer {SECRET}"
    (topic,) = (one["topic"] for one in http.get("/v1/topics").json()["topics"])
    assert follower.controller.layout(topic).layouts[0].epoch == 0
    assert http.post(f"/v1/topics/{topic}/truncations", json={}).status_code == 200
    assert http.post(f"/v1/topics/{topic}/misrouted", json={"records": 1}).status_code == 200
    assert http.get("/v1/brokers").status_code == 200
    assert http.post("/v1/nothing", json={}).status_code == 404
    assert http.put("/v1/topics", json={}).status_code == 405
