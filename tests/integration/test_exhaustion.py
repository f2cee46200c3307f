"""What needs no right cannot keep a controller from answering writers, nor fill its memory or its disk."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest

from spark_ordered_kafka.controller.access.tokens import hashed
from spark_ordered_kafka.controller.api.middleware import limits
from spark_ordered_kafka.controller.settings import AuthenticationSettings, AuthorizationSettings
from spark_ordered_kafka.local import LocalCluster
from tests.integration.controllers import InProcess, in_process
from tests.integration.exhausting import MEGABYTE, ImpatientProtocol, Peak, Writer, serving
from tests.servers import TIMEOUT, await_true, unique_name

JSON = {"content-type": "application/json"}
ADMIN, NOBODY, OPERATOR = "a" * 40, "n" * 40, "o" * 40
ROLES = '[[grants]]\nrole = "operator"\nprincipals = ["User:operator"]\ntopics = ["orders"]\n'


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("exhaustion") / "audit.log"


@pytest.fixture(scope="module")
def guarded(kafka_cluster: LocalCluster, audit: Path) -> Iterator[InProcess]:
    """Knows an admin, somebody without any right, and an operator of the topic ``orders``."""
    tokens, roles = audit.with_name("tokens"), audit.with_name("roles.toml")
    entries = ((ADMIN, "User:admin"), (NOBODY, "User:nobody"), (OPERATOR, "User:operator"))
    tokens.write_text("".join(f"{hashed(token, principal)}\n" for token, principal in entries))
    roles.write_text(ROLES)
    with in_process(
        kafka_cluster,
        authentication=AuthenticationSettings(required=True, tokens_file=str(tokens)),
        authorization=AuthorizationSettings(super_users=frozenset({"User:admin"}), roles_file=str(roles)),
        audit_log_file=str(audit),
    ) as running:
        yield running


@pytest.fixture(scope="module")
def port(guarded: InProcess) -> Iterator[int]:
    with serving(guarded) as port:
        yield port


@pytest.fixture(scope="module")
def topic(guarded: InProcess) -> str:
    name = unique_name("exhaustion")
    made = guarded.http.post("/v1/topics", json={"topic": name, "partitions": 2}, headers=bearer(ADMIN))
    assert made.status_code == 201, made.text
    return name


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def full(beginning: bytes, item: Callable[[int], bytes], end: bytes, size: int = limits.MAX_BODY) -> bytes:
    """Items up to the largest body that is taken."""
    width = len(item(10**6))
    return beginning + b",".join(map(item, range((size - 100) // (width + 1)))) + end


def post(port: int, token: str, method: str, path: str, body: bytes) -> httpx2.Response:
    headers = {**bearer(token), **JSON}
    return httpx2.request(
        method, f"http://127.0.0.1:{port}{path}", content=body, headers=headers, timeout=TIMEOUT
    )


MUTATING = [
    ("POST", "/v1/topics"),
    ("POST", "/v1/partition-counts"),
    ("POST", "/v1/topic-deletions"),
    ("POST", "/v1/replication-factors"),
    ("POST", "/v1/reassignments"),
    ("POST", "/v1/reassignments/plan"),
    ("POST", "/v1/replica-log-dirs"),
    ("PATCH", "/v1/topics/{topic}"),
    ("POST", "/v1/topics/{topic}/adopt"),
    ("POST", "/v1/topics/{topic}/release"),
    ("POST", "/v1/topics/{topic}/truncations"),
    ("PUT", "/v1/brokers/1/guard-rails"),
]


def test_bodies_of_callers_without_rights_are_neither_read_nor_audited(
    guarded: InProcess, port: int, topic: str, audit: Path
) -> None:
    body = full(b'{"topics":[', lambda _: b"{}", b"]}")
    before = audit.read_bytes()
    with Writer(port, topic, ADMIN) as writer, Peak() as peak:
        for method, path in MUTATING:
            answer = post(port, NOBODY, method, path.format(topic=topic), body)
            assert answer.status_code == 403, f"{method} {path}: {answer.text[:300]}"
        writer.await_answers(3)
    assert peak.grown < 60 * MEGABYTE  # what the test itself sends
    assert audit.read_bytes() == before


def test_a_caller_with_a_right_to_something_is_answered_item_by_item(guarded: InProcess, audit: Path) -> None:
    """So is who has none, if the body is small; that leaves nothing in the audit log."""
    body = {"topics": [{"topic": name, "partition_count": 3} for name in ("orders", "others")]}

    def answer(token: str) -> httpx2.Response:
        found: httpx2.Response = guarded.http.post("/v1/partition-counts", json=body, headers=bearer(token))
        return found

    rows = answer(OPERATOR).json()["topics"]
    assert [row["error"] for row in rows] == ["INVALID_TOPIC_EXCEPTION", "TOPIC_AUTHORIZATION_FAILED"]
    before = audit.read_bytes()
    rows = answer(NOBODY).json()["topics"]
    assert [row["error"] for row in rows] == ["TOPIC_AUTHORIZATION_FAILED"] * 2
    assert audit.read_bytes() == before


def numbered(prefix: bytes, suffix: bytes) -> Callable[[int], bytes]:
    return lambda number: prefix + b"%d" % number + suffix


def bodies() -> dict[str, tuple[str, Callable[[], bytes]]]:
    """Path and body of requests that are none, by what is wrong with them."""
    counts, deletions, topics, moves = (
        *("/v1/partition-counts", "/v1/topic-deletions"),
        *("/v1/topics", "/v1/reassignments"),
    )
    moved = b'{"topic":0,"partition":"","replicas":[""]}'
    return {
        "empty items": (counts, lambda: full(b'{"topics":[', lambda _: b"{}", b"]}")),
        "numbers for items": (deletions, lambda: full(b'{"topics":[', lambda _: b"0", b"]}")),
        "items with many names": (counts, lambda: full(b'{"topics":[{', numbered(b'"a', b'":0'), b"}]}")),
        "many names": (topics, lambda: full(b"{", numbered(b'"a', b'":0'), b"}")),
        "wrong assignments": (
            topics,
            lambda: full(b'{"topic":"t","assignments":{', numbered(b'"x', b'":[0]'), b"}}"),
        ),
        "wrong replicas": (
            topics,
            lambda: full(b'{"topic":"t","assignments":{"0":[', lambda _: b'""', b"]}}"),
        ),
        "wrong partitions": (moves, lambda: full(b'{"partitions":[', lambda _: moved, b"]}")),
        "deep": (topics, lambda: b'{"topic":' + b"[" * 900_000 + b"]" * 900_000 + b"}"),
        "a huge number": (
            topics,
            lambda: b'{"topic":"t","partitions":' + b"9" * (limits.MAX_BODY - 50) + b"}",
        ),
        "a huge exponent": (topics, lambda: b'{"topic":"t","partitions":1e' + b"9" * 1_000_000 + b"}"),
        "a long text": (topics, lambda: b'{"topic":"' + b"x" * (limits.MAX_BODY - 50) + b'"}'),
        "compressed": (topics, lambda: b"\x1f\x8b" + b"\0" * 1_000_000),
    }


@pytest.mark.parametrize("what", bodies())
def test_no_body_takes_much_memory_or_keeps_writers_waiting(
    guarded: InProcess, port: int, topic: str, what: str
) -> None:
    """With every right: the bounds hold for anybody."""
    path, make = bodies()[what]
    body = make()
    assert len(body) <= limits.MAX_BODY
    with Writer(port, topic, ADMIN) as writer, Peak() as peak:
        answer = post(port, ADMIN, "POST", path, body)
        writer.await_answers(3)
    assert answer.status_code == 400, answer.text[:300]
    assert len(answer.content) < 5000
    assert peak.grown < 350 * MEGABYTE


@pytest.mark.long
def test_large_requests_that_are_right_are_taken(guarded: InProcess, port: int) -> None:
    """Explicit replicas of 100,000 partitions; the broker that they name does not exist."""
    body = {
        "topic": "t",
        "assignments": {str(n): [91, 92, 93] for n in range(100_000)},
        "validate_only": True,
    }
    answer = post(port, ADMIN, "POST", "/v1/topics", json.dumps(body, separators=(",", ":")).encode())
    assert answer.json()["error"] == "INVALID_REPLICA_ASSIGNMENT", answer.text[:300]


def test_what_is_audited_of_a_request_is_bounded(guarded: InProcess, audit: Path) -> None:
    names = [f"{number:06}-{'n' * 230}" for number in range(300)]
    before = audit.stat().st_size
    answer = guarded.http.post("/v1/topic-deletions", json={"topics": names}, headers=bearer(ADMIN))
    assert answer.status_code == 200
    lines = [json.loads(line) for line in audit.read_bytes()[before:].splitlines()]
    assert [line["event"] for line in lines] == ["requested", "answered"]
    for line in lines:
        assert (line["topics"], line["topic_count"]) == (names[:100], 300)
    assert audit.stat().st_size - before < 150_000


def test_a_full_disk_refuses_changes_and_nothing_else(kafka_cluster: LocalCluster, tmp_path: Path) -> None:
    """``/dev/full`` is a disk without room: every write to it fails so. Once there is room, changes go on."""
    path, room = tmp_path / "audit.log", tmp_path / "room"
    path.symlink_to("/dev/full")
    with in_process(kafka_cluster, audit_log_file=str(path)) as running, serving(running) as port:
        http, name = running.http, unique_name("full-disk")
        refused = http.post("/v1/topics", json={"topic": name})
        assert (refused.status_code, refused.json()["error"]) == (503, "REQUEST_TIMED_OUT")
        assert "No space left" in refused.json()["error_message"]
        for asked in ("/healthz", "/readyz", "/v1/topics", "/v1/brokers", "/metrics"):
            assert http.get(asked).status_code == 200, asked
        check = http.post("/v1/topics", json={"topic": name, "validate_only": True})
        assert check.status_code == 201, check.text
        room.touch()
        replacement = tmp_path / "replacement"
        replacement.symlink_to(room)
        os.replace(replacement, path)
        assert http.post("/v1/topics", json={"topic": name}).status_code == 201
        with Writer(port, name) as writer:
            writer.await_answers(1)
        assert [json.loads(line)["event"] for line in room.read_text().splitlines()] == [
            "requested",
            "answered",
        ]


def test_probes_of_a_hung_broker_keep_nobody_waiting(kafka_cluster: LocalCluster) -> None:
    broker = next(server for server in kafka_cluster.status() if server.name.startswith("broker"))
    with (
        # So long a probe waits for Kafka: for longer than everything that is shown meanwhile.
        in_process(kafka_cluster, request_timeout=60.0) as running,
        serving(running) as port,
        ExitStack() as ends,
    ):
        topic = running.create(2)
        ends.enter_context(Writer(port, topic)).await_answers(1)
        kafka_cluster.pause(broker.name)
        ends.callback(kafka_cluster.resume, broker.name)
        probes = [socket.create_connection(("127.0.0.1", port), TIMEOUT) for _ in range(150)]
        for probe in probes:
            ends.callback(probe.close)
            probe.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        # All of them wait for Kafka, and meanwhile:
        with Writer(port, topic) as writer:
            for _ in range(3):
                assert httpx2.get(f"http://127.0.0.1:{port}/healthz", timeout=TIMEOUT).status_code == 200
                writer.await_answers(1)
        assert [thread for thread in threading.enumerate() if thread.name.startswith("probe")]
        first = probes[0]
        first.setblocking(False)
        with pytest.raises(BlockingIOError):
            first.recv(1)  # else they had not waited, and this had shown nothing
        kafka_cluster.resume(broker.name)
        await_true(
            lambda: httpx2.get(f"http://127.0.0.1:{port}/readyz", timeout=TIMEOUT).status_code == 200,
            "the controller is ready again",
        )


@pytest.mark.long
def test_slow_requests_are_ended(guarded: InProcess, topic: str) -> None:
    """Whoever says nothing, half a head or half a body is not listened to for ever; nor is an answer kept for ever."""
    head = b"POST /v1/topics/%s/truncations HTTP/1.1\r\nHost: localhost\r\n" % topic.encode()
    known = head + b"Authorization: Bearer %s\r\nContent-Type: application/json\r\n" % ADMIN.encode()
    with (
        serving(guarded, ImpatientProtocol) as port,
        Writer(port, topic, ADMIN) as writer,
        ExitStack() as ends,
    ):

        def connected(sent: bytes) -> socket.socket:
            connection = ends.enter_context(socket.create_connection(("127.0.0.1", port), TIMEOUT))
            connection.sendall(sent)
            return connection

        def answer(connection: socket.socket) -> bytes:
            found = b""
            while chunk := connection.recv(65536):
                found += chunk
            return found

        silent, half_head = connected(b""), connected(head)
        half_body = connected(known + b"Content-Length: 100\r\n\r\n{")
        unread = connected(head + b"Content-Length: 100\r\n\r\n{")  # answered 401 without a look at its body
        second = connected(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" + head)
        assert answer(silent) == b""
        for late in (half_head, half_body):
            said = answer(late)
            assert said.startswith(b"HTTP/1.1 408 "), said
            assert f"as a whole after {ImpatientProtocol.request_deadline:g} s".encode() in said, said
        assert answer(unread).startswith(b"HTTP/1.1 401 ")
        said = answer(second)
        assert said.count(b"HTTP/1.1 ") == 2, said
        assert b" 408 " in said
        writer.await_answers(3)


def test_waiting_requests_leave_room_for_others(
    guarded: InProcess, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MAX_CHANGES", 5)
    monkeypatch.setattr(limits, "MAX_BODIES", 2 * limits.MAX_BODY)
    head = "POST /v1/partition-counts HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    begun = f"{head}Authorization: Bearer {ADMIN}\r\nContent-Length: 100\r\n\r\n{{".encode()
    with serving(guarded) as port, ExitStack() as ends:
        for _ in range(5):
            connection = ends.enter_context(socket.create_connection(("127.0.0.1", port), TIMEOUT))
            connection.sendall(begun)

        answers: list[httpx2.Response] = []

        def status() -> int:
            answers.append(post(port, ADMIN, "POST", "/v1/partition-counts", b'{"topics":[]}'))
            return int(answers[-1].status_code)

        await_true(lambda: status() == 503, "there are as many as may be")
        assert "nothing was done" in answers[-1].json()["error_message"]
        with Writer(port, topic, ADMIN) as writer:
            writer.await_answers(3)
        ends.close()
        await_true(lambda: status() == 400, "there is room again")
