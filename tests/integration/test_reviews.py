"""Requests that wait for a second principal, on real servers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest
from typer.testing import CliRunner, Result

from spark_ordered_kafka.cli import app
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.schemas import CreateTopicRequest
from spark_ordered_kafka.controller.access.tokens import hashed
from spark_ordered_kafka.controller.api.middleware.governance import Governance
from spark_ordered_kafka.controller.settings import AuthenticationSettings, AuthorizationSettings
from spark_ordered_kafka.controller.state.reassignment_records import Move, RequestRecord
from spark_ordered_kafka.controller.state.reassignments import ReassignmentStore
from spark_ordered_kafka.controller.state.reviews import EXPIRY
from spark_ordered_kafka.credentials import ControllerCredentials
from spark_ordered_kafka.errors import ReviewPendingError
from spark_ordered_kafka.local import LocalCluster
from tests.inside import session_of
from tests.integration.controllers import InProcess, exists, free_port, in_process, served
from tests.servers import unique_name

TOKENS = {name: f"{name}-" + "t" * 40 for name in ("alice", "bob", "carol", "victor")}


def settings(directory: Path) -> dict[str, Any]:
    """Alice, Bob and Carol may change everything, Victor may look."""
    entries = [str(hashed(token, f"User:{name}")) for name, token in TOKENS.items()]
    (directory / "tokens").write_text("\n".join(entries))
    (directory / "roles.toml").write_text(
        "[[grants]]\nrole = 'admin'\nprincipals = ['User:alice', 'User:bob', 'User:carol']\n"
        "[[grants]]\nrole = 'viewer'\nprincipals = ['User:victor']\n"
    )
    return {
        "authentication": AuthenticationSettings(required=True, tokens_file=str(directory / "tokens")),
        "authorization": AuthorizationSettings(roles_file=str(directory / "roles.toml")),
        "review_required": True,
        "audit_log_file": str(directory / "audit.log"),
    }


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reviewed")


@pytest.fixture(scope="module")
def reviewed(kafka_cluster: LocalCluster, directory: Path) -> Iterator[InProcess]:
    with in_process(kafka_cluster, **settings(directory)) as running:
        yield running


def ask(controller: InProcess, who: str, method: str, path: str, **more: Any) -> httpx2.Response:
    headers = {"authorization": f"Bearer {TOKENS[who]}", **more.pop("headers", {})}
    answer: httpx2.Response = controller.http.request(method, path, headers=headers, **more)
    return answer


def request_creation(controller: InProcess, topic: str, who: str = "alice", **fields: Any) -> int:
    body = {"topic": topic, "partitions": 2, **fields}
    answer = ask(controller, who, "POST", "/v1/topics", json=body, params={"reason": "orders grow"})
    assert answer.status_code == 202, answer.text
    review_id: int = answer.json()["review_id"]
    return review_id


def decide(controller: InProcess, who: str, review_id: int, what: str = "approve") -> httpx2.Response:
    return ask(controller, who, "POST", f"/v1/reviews/{review_id}/{what}")


def shown(controller: InProcess, review_id: int) -> dict[str, Any]:
    found: dict[str, Any] = ask(controller, "victor", "GET", f"/v1/reviews/{review_id}").json()
    return found


def test_nothing_is_done_before_somebody_else_approves(
    reviewed: InProcess, kafka_cluster: LocalCluster, directory: Path
) -> None:
    topic = unique_name("reviewed")
    review_id = request_creation(reviewed, topic)
    assert not exists(kafka_cluster, topic)
    waiting = shown(reviewed, review_id)
    assert (waiting["status"], waiting["requested_by"], waiting["reason"]) == (
        "pending",
        "User:alice",
        "orders grow",
    )
    assert waiting["body"] == {"topic": topic, "partitions": 2}
    assert waiting["expires_at"] - waiting["requested_at"] == EXPIRY

    own = decide(reviewed, "alice", review_id)
    assert (own.status_code, own.json()["error"]) == (403, "CLUSTER_AUTHORIZATION_FAILED")
    assert not exists(kafka_cluster, topic)

    done = decide(reviewed, "bob", review_id)
    assert done.status_code == 200
    assert (done.json()["status"], done.json()["decided_by"], done.json()["answer_status"]) == (
        "done",
        "User:bob",
        201,
    )
    assert done.json()["answer"]["topic"] == topic
    assert exists(kafka_cluster, topic)
    assert shown(reviewed, review_id) == done.json()

    again = decide(reviewed, "carol", review_id)
    assert (again.status_code, "it is done" in again.json()["error_message"]) == (400, True)
    lines = [json.loads(line) for line in (directory / "audit.log").read_text().splitlines()]
    carried_out = [line for line in lines if line.get("review_id") == review_id]
    assert [line["event"] for line in carried_out] == ["requested", "answered"]
    assert {(line["principal"], line["approver"], line["reason"]) for line in carried_out} == {
        ("User:alice", "User:bob", "orders grow")
    }


def test_the_latest_reassignment_is_the_one_of_the_request(reviewed: InProcess) -> None:
    store = ReassignmentStore(session_of(reviewed.service))
    move = Move(topic="none", partition=0, before=(1,), after=(2,))

    def begin() -> int:
        # Nobody tells the executor, so it does not begin.
        return store.create(
            lambda number: RequestRecord(request_id=number, created_at=0.0, principal="User:test"), [move]
        ).request_id

    meant = begin()
    later = None
    try:
        asked = ask(reviewed, "alice", "PATCH", "/v1/reassignments/latest", json={"throttle": 7})
        assert asked.status_code == 202, asked.text
        review_id = asked.json()["review_id"]
        later = begin()
        assert shown(reviewed, review_id)["path"] == f"/v1/reassignments/{meant}"
        assert decide(reviewed, "bob", review_id, "discard").status_code == 200
    finally:
        for request_id in filter(None, (meant, later)):
            store.delete(request_id)


def test_one_of_many_approvals_at_once_carries_out(reviewed: InProcess) -> None:
    topic = unique_name("once")
    review_id = request_creation(reviewed, topic)
    start = threading.Barrier(4)

    def approve(who: str) -> int:
        start.wait()
        return decide(reviewed, who, review_id).status_code

    with ThreadPoolExecutor(4) as pool:
        # 409: the topic was there already when the approver's own right was looked at.
        done, *refused = sorted(pool.map(approve, ["bob", "carol", "bob", "carol"]))
    assert (done, set(refused) <= {400, 409}) == (200, True)
    assert shown(reviewed, review_id)["answer_status"] == 201


def test_whoever_lacks_the_right_can_neither_ask_nor_approve_nor_discard(
    reviewed: InProcess, kafka_cluster: LocalCluster
) -> None:
    topic = unique_name("unrighted")
    body = {"topic": topic, "partitions": 2}
    refused = ask(reviewed, "victor", "POST", "/v1/topics", json=body)
    assert (refused.status_code, refused.json()["error"]) == (403, "TOPIC_AUTHORIZATION_FAILED")
    review_id = request_creation(reviewed, topic)
    for what in ("approve", "discard"):
        refused = decide(reviewed, "victor", review_id, what)
        assert (refused.status_code, refused.json()["error"]) == (403, "TOPIC_AUTHORIZATION_FAILED")
    assert shown(reviewed, review_id)["status"] == "pending"
    assert not exists(kafka_cluster, topic)


@pytest.mark.parametrize("who", ["alice", "bob"])
def test_either_can_discard(reviewed: InProcess, kafka_cluster: LocalCluster, who: str) -> None:
    topic = unique_name("discarded")
    review_id = request_creation(reviewed, topic)
    assert decide(reviewed, who, review_id, "discard").json()["status"] == "discarded"
    assert decide(reviewed, "bob", review_id).status_code == 400
    assert decide(reviewed, "bob", review_id, "discard").status_code == 400
    assert not exists(kafka_cluster, topic)


@pytest.mark.long
def test_an_approval_and_a_discard_at_once_have_one_outcome(
    reviewed: InProcess, kafka_cluster: LocalCluster
) -> None:
    for _ in range(10):
        topic = unique_name("either")
        review_id = request_creation(reviewed, topic)
        start = threading.Barrier(2)

        def decided(who: str, what: str, review_id: int = review_id, start: threading.Barrier = start) -> int:
            start.wait()
            return decide(reviewed, who, review_id, what).status_code

        with ThreadPoolExecutor(2) as pool:
            approval, discard = pool.map(decided, ("bob", "carol"), ("approve", "discard"))
        assert {approval, discard} == {200, 400}
        outcome = "done" if approval == 200 else "discarded"
        assert (shown(reviewed, review_id)["status"], exists(kafka_cluster, topic)) == (
            outcome,
            approval == 200,
        )


def test_what_would_be_refused_is_refused_at_once(reviewed: InProcess) -> None:
    before = len(ask(reviewed, "bob", "GET", "/v1/reviews").json()["reviews"])
    wrong: list[tuple[str, str, Any, int]] = [
        ("POST", "/v1/topics", {"topic": "a b"}, 400),
        ("POST", "/v1/topics", {"topic": "t", "partitons": 1}, 400),
        ("POST", "/v1/topics/missing/adopt", {}, 404),
        ("PATCH", "/v1/topics/missing", {"ordered_delivery": False}, 404),
    ]
    for method, path, body, status in wrong:
        assert ask(reviewed, "alice", method, path, json=body).status_code == status, path
    counts = {"topics": [{"topic": "missing", "partition_count": 3}]}
    answer = ask(reviewed, "alice", "POST", "/v1/partition-counts", json=counts)
    assert (answer.status_code, answer.json()["topics"][0]["error"]) == (200, "INVALID_TOPIC_EXCEPTION")
    assert ask(reviewed, "alice", "POST", "/v1/topics", content=b"{}").status_code == 415
    assert len(ask(reviewed, "bob", "GET", "/v1/reviews").json()["reviews"]) == before


def test_a_check_goes_through(reviewed: InProcess, kafka_cluster: LocalCluster) -> None:
    topic = unique_name("checked")
    answer = ask(reviewed, "alice", "POST", "/v1/topics", json={"topic": topic, "validate_only": True})
    assert answer.status_code == 201, answer.text
    assert not exists(kafka_cluster, topic)


def test_a_change_can_be_cancelled_without_a_review(reviewed: InProcess) -> None:
    answer = ask(reviewed, "alice", "DELETE", "/v1/topics/missing/change")
    assert (answer.status_code, answer.json()["error"]) == (404, "UNKNOWN_TOPIC_OR_PARTITION")


def test_deletion_waits_too_and_is_checked_by_its_own_check(
    reviewed: InProcess, kafka_cluster: LocalCluster
) -> None:
    topic = unique_name("deleted")
    decide(reviewed, "bob", request_creation(reviewed, topic))
    assert ask(reviewed, "alice", "DELETE", "/v1/topics/missing").status_code == 404
    checked = ask(reviewed, "alice", "DELETE", f"/v1/topics/{topic}", params={"validate_only": "true"})
    assert checked.status_code == 200
    asked = ask(reviewed, "alice", "DELETE", f"/v1/topics/{topic}")
    assert asked.status_code == 202
    assert exists(kafka_cluster, topic)
    done = decide(reviewed, "bob", asked.json()["review_id"])
    assert done.json()["answer_status"] == 200
    assert not exists(kafka_cluster, topic)


def test_expired_and_unknown_reviews_cannot_be_approved(
    reviewed: InProcess, kafka_cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = unique_name("expired")
    review_id = request_creation(reviewed, topic)
    reviews = reviewed.service.reviews
    now = reviews.now()
    monkeypatch.setattr(reviews, "_clock", lambda: now + EXPIRY + 1.0)
    assert shown(reviewed, review_id)["status"] == "expired"
    assert decide(reviewed, "bob", review_id).status_code == 400
    assert not exists(kafka_cluster, topic)
    # Requests that nobody will look up any more make room.
    monkeypatch.setattr(reviews, "_clock", lambda: now + 30 * EXPIRY)
    request_creation(reviewed, unique_name("later"))
    answer = ask(reviewed, "bob", "GET", f"/v1/reviews/{review_id}")
    assert (answer.status_code, answer.json()["error"]) == (404, "RESOURCE_NOT_FOUND")


@pytest.mark.parametrize("number", ["0", "-1", "x", "1e3", "2147483648", "9" * 400])
def test_wrong_numbers_of_reviews(reviewed: InProcess, number: str) -> None:
    for method, path in (("GET", f"/v1/reviews/{number}"), ("POST", f"/v1/reviews/{number}/approve")):
        answer = ask(reviewed, "bob", method, path)
        assert (answer.status_code, answer.json()["error"]) == (400, "INVALID_REQUEST")
        assert answer.json()["error_message"].startswith("review_id has the value")


@pytest.mark.long
def test_what_a_dead_controller_had_claimed_is_in_doubt_and_not_done_again(
    kafka_cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chroot, topic = unique_name("doubt"), unique_name("doubtful")
    more = settings(tmp_path)

    async def die(*_: object) -> Any:
        raise SystemError("the process ends here")

    with in_process(kafka_cluster, chroot=chroot, **more) as first:
        review_id = request_creation(first, topic)
        with monkeypatch.context() as patch:
            patch.setattr(Governance, "carry_out", die)
            assert decide(first, "bob", review_id).status_code == 500
        assert shown(first, review_id)["status"] == "approved"
        assert decide(first, "bob", review_id).status_code == 400
    with in_process(kafka_cluster, chroot=chroot, **more) as second:
        assert shown(second, review_id)["status"] == "in_doubt"
        refused = decide(second, "carol", review_id)
        assert (refused.status_code, "it is" in refused.json()["error_message"]) == (400, True)
        assert not exists(kafka_cluster, topic)
        assert decide(second, "alice", review_id, "discard").json()["status"] == "discarded"
        # Ids only grow, whichever controller gives them.
        assert request_creation(second, topic) == review_id + 1


def test_ids_grow_when_requests_come_at_once(reviewed: InProcess) -> None:
    topics = [unique_name("many") for _ in range(6)]
    with ThreadPoolExecutor(3) as pool:
        ids = list(pool.map(lambda topic: request_creation(reviewed, topic), topics))
    assert len(set(ids)) == 6
    listed = ask(reviewed, "bob", "GET", "/v1/reviews").json()["reviews"]
    numbers = [row["review_id"] for row in listed]
    assert numbers == sorted(numbers, reverse=True)
    assert set(ids) <= set(numbers)
    assert all("body" not in row for row in listed)


def test_clients_and_the_command_line_take_part(
    reviewed: InProcess, kafka_cluster: LocalCluster, tmp_path: Path
) -> None:
    topic = unique_name("by-client")
    files = {}
    for who, token in TOKENS.items():
        files[who] = tmp_path / f"{who}.properties"
        files[who].write_text(f"controller.token={token}\n")
    port = free_port()
    url = f"http://127.0.0.1:{port}"

    def run(who: str, *words: str) -> Result:
        connection = ["--controller", url, "--command-config", str(files[who])]
        return CliRunner().invoke(app, [*words, *connection])

    with served(reviewed, port):
        credentials = ControllerCredentials(token=TOKENS["alice"])
        with ControllerClient(url, reason="by the client", credentials=credentials) as alice:
            with pytest.raises(ReviewPendingError) as pending:
                alice.create_topic(CreateTopicRequest(topic=topic, partitions=1))
            review_id = pending.value.review_id
            assert alice.review(review_id).reason == "by the client"
            listed = run("bob", "reviews", "list")
            assert (listed.exit_code, "by the client" in listed.output) == (0, True)
            assert run("bob", "reviews", "show", str(review_id)).exit_code == 0
            own = run("alice", "reviews", "approve", str(review_id))
            assert (own.exit_code, "CLUSTER_AUTHORIZATION_FAILED" in own.stderr) == (1, True)
            done = run("bob", "reviews", "approve", str(review_id), "--reason", "looked at")
            assert (done.exit_code, "approved, and carried out" in done.stdout) == (0, True), done.output
            assert alice.review(review_id).status == "done"
        assert exists(kafka_cluster, topic)

        # A request of the command line that waits was not done: exit code 1, and the number to approve it by.
        asked = run("alice", "topics", "alter", "--topic", topic, "--partitions", "2", "--reason", "more")
        assert (asked.exit_code, asked.stdout) == (1, "")
        assert f"review {review_id + 1} until somebody else approves it" in asked.stderr
        # It cannot be carried out any more once the topic has gone.
        delete = ask(reviewed, "carol", "DELETE", f"/v1/topics/{topic}").json()["review_id"]
        assert decide(reviewed, "bob", delete).status_code == 200
        failed = run("bob", "reviews", "approve", str(review_id + 1))
        assert failed.exit_code == 1
        assert "INVALID_TOPIC_EXCEPTION" in failed.output
        assert run("alice", "reviews", "discard", str(review_id + 1)).exit_code == 0
        for words in (("approve", "0"), ("show", "x")):
            assert run("bob", "reviews", *words).exit_code == 2
