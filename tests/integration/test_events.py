"""The stream of events, the list of groups and the newest lines of the audit log, on real servers."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.access.tokens import hashed
from spark_ordered_kafka.controller.api.routes import events as events_route
from spark_ordered_kafka.controller.settings import AuthenticationSettings, AuthorizationSettings
from spark_ordered_kafka.errors import UnavailableError
from spark_ordered_kafka.local import LocalCluster
from tests.integration.acls import Acls, acl
from tests.integration.controllers import InProcess, free_port, in_process, served
from tests.integration.secured import controller as secured
from tests.servers import TIMEOUT, await_true, commit_offsets, unique_name

EVENTS = "/v1/events"
PARTS = {"controller", "controllers", "topics", "reassignments", "reviews"}


def parsed(text: str) -> list[tuple[str, Any]]:
    """Names and data of the events in a stream."""
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
        if "event" in fields:
            found.append((fields["event"], json.loads(fields["data"])))
    return found


def whole(ask: Callable[[int], httpx2.Response]) -> list[tuple[str, Any]]:
    """The events of a stream that is long enough for a sample; ``ask`` is given its milliseconds."""
    milliseconds = 200
    while True:
        answer = ask(milliseconds)
        assert answer.status_code == 200, answer.text
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        found = parsed(answer.text)
        if found:
            return found
        milliseconds *= 2
        assert milliseconds < 1000 * TIMEOUT, "no sample comes"


class Listener:
    """Reads a stream in a thread; ``found`` has what came so far."""

    def __init__(self, port: int, token: str | None = None) -> None:
        self._text = ""
        login = "" if token is None else f"Authorization: Bearer {token}\r\n"
        self._connection = socket.create_connection(("127.0.0.1", port), TIMEOUT)
        # HTTP/1.0 has no chunks.
        self._connection.sendall(f"GET {EVENTS} HTTP/1.0\r\nHost: localhost\r\n{login}\r\n".encode())
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while chunk := self._connection.recv(65536):
            self._text += chunk.decode()

    @property
    def found(self) -> list[tuple[str, Any]]:
        """Names and data of the events that have come as a whole."""
        return parsed(self._text[: self._text.rfind("\n\n") + 2])

    def await_event(self, name: str, text: str) -> None:
        """Wait for an event that has ``text`` in its data."""
        await_true(
            lambda: any(one == name and text in json.dumps(data) for one, data in self.found),
            f"{name}: {text}",
        )

    def await_end(self) -> None:
        """Wait until the controller has ended the stream."""
        self._thread.join(TIMEOUT)
        assert not self._thread.is_alive()

    def close(self) -> None:
        """Go away, as a browser does."""
        self._connection.shutdown(socket.SHUT_RDWR)
        self.await_end()
        self._connection.close()


@pytest.fixture(scope="module")
def port(running_controller: InProcess) -> Iterator[int]:
    free = free_port()
    with served(running_controller, free):
        yield free


def test_a_stream_begins_with_all_and_ends_in_time(controller: InProcess) -> None:
    topic = controller.create(2)
    found = whole(lambda limit: controller.http.get(EVENTS, params={"timeout_ms": limit}))
    assert {name for name, _ in found} == PARTS
    assert len(found) == len(PARTS)
    events = dict(found)
    assert events["controller"]["role"] == "leader"
    assert topic in [row["topic"] for row in events["topics"]["topics"]]
    assert events["topics"]["removed"] == []
    assert events["controllers"] == controller.http.get("/v1/controllers").json()


@pytest.mark.parametrize("value", ["0", "300001", "soon"])
def test_a_wrong_time_is_refused(controller: InProcess, value: str) -> None:
    answer = controller.http.get(EVENTS, params={"timeout_ms": value})
    assert answer.status_code == 400
    assert f"timeout_ms has the value '{value}'" in answer.json()["error_message"]


def test_changes_come_as_they_are_made(controller: InProcess, port: int) -> None:
    kept, gone = controller.create(1, prefix="kept"), controller.create(1, prefix="gone")
    listener = Listener(port)
    try:
        listener.await_event("topics", kept)
        # A sample that an earlier stream has asked for may lack it; then its end would be no event.
        listener.await_event("topics", gone)
        controller.alter(kept, 3)
        listener.await_event("topics", '"undeleted_partition_count": 3')
        assert controller.http.delete(f"/v1/topics/{gone}").status_code == 200
        await_true(
            lambda: any(name == "topics" and gone in data["removed"] for name, data in listener.found),
            "the deletion is an event",
        )
        # Only what has changed comes again.
        later = [data for name, data in listener.found if name == "topics"][1:]
        assert {row["topic"] for data in later for row in data["topics"]} <= {kept, gone}
        assert [name for name, _ in listener.found].count("controllers") == 1
    finally:
        listener.close()


def test_listeners_are_bounded_and_leave_nothing_behind(
    controller: InProcess, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def has_room() -> bool:
        answer = httpx2.get(f"http://127.0.0.1:{port}{EVENTS}", params={"timeout_ms": 1}, timeout=TIMEOUT)
        return answer.status_code == 200

    def await_nobody() -> None:
        """The controller learns later that a client went away in the middle of its stream."""
        monkeypatch.setattr(events_route, "MAX_LISTENERS", 1)
        await_true(has_room, "the places of listeners that went away are free")

    await_nobody()
    monkeypatch.setattr(events_route, "MAX_LISTENERS", 2)
    with ExitStack() as stack:
        for _ in range(2):
            listener = Listener(port)
            stack.callback(listener.close)
            listener.await_event("controller", "leader")
        busy = httpx2.get(f"http://127.0.0.1:{port}{EVENTS}", timeout=TIMEOUT)
        assert busy.status_code == 503
        assert busy.json()["error_message"].startswith("2 listeners are connected")
    await_nobody()
    # Without listeners nothing is read, but for the sample that the last stream has not waited for.
    query = controller.service.events.query
    query.outcome(float("inf")).result(TIMEOUT)
    taken = query.latest
    assert taken is not None
    await_true(lambda: (query.age() or 0) > 2.5, "no sample is taken")
    assert query.latest is taken


def test_one_principal_does_not_take_all_places(
    kafka_cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events_route, "MAX_OF_ONE", 2)
    alice, bob, port = "a" * 40, "b" * 40, free_port()
    tokens = tmp_path / "tokens"
    tokens.write_text(f"{hashed(alice, 'User:alice')}\n{hashed(bob, 'User:bob')}\n")
    both = AuthorizationSettings(super_users=frozenset({"User:alice", "User:bob"}))
    login = AuthenticationSettings(required=True, tokens_file=str(tokens))
    with (
        in_process(kafka_cluster, authentication=login, authorization=both) as running,
        served(running, port),
    ):

        def answered(token: str) -> httpx2.Response:
            headers = {"Authorization": f"Bearer {token}"}
            return httpx2.get(
                f"http://127.0.0.1:{port}{EVENTS}",
                headers=headers,
                params={"timeout_ms": 1},
                timeout=TIMEOUT,
            )

        with ExitStack() as stack:
            for _ in range(2):
                listener = Listener(port, alice)
                stack.callback(listener.close)
                listener.await_event("controller", "leader")
            busy = answered(alice)
            assert (busy.status_code, busy.json()["error"]) == (503, "REQUEST_TIMED_OUT"), busy.text
            assert "2 listeners of User:alice are connected" in busy.json()["error_message"]
            assert answered(bob).status_code == 200
        await_true(lambda: answered(alice).status_code == 200, "the places of alice are free")


def test_what_cannot_be_read_is_said_and_its_end_too(
    controller: InProcess, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener = Listener(port)
    try:
        listener.await_event("controller", "leader")

        def fails(_: object) -> schemas.TopicList:
            raise UnavailableError("ZooKeeper is away")

        with monkeypatch.context() as patched:
            patched.setattr(controller.service.topics, "summaries", fails)
            listener.await_event("unavailable", "ZooKeeper is away")
        await_true(
            lambda: [name for name, _ in listener.found].count("controller") == 2, "the end of it is an event"
        )
        assert [name for name, _ in listener.found].count("unavailable") == 1
    finally:
        listener.close()


@pytest.mark.long
def test_a_follower_has_the_same_stream_and_hears_that_it_leads(kafka_cluster: LocalCluster) -> None:
    chroot, port = unique_name("pair"), free_port()
    with (
        in_process(kafka_cluster, chroot=chroot) as leader,
        in_process(kafka_cluster, chroot=chroot, await_active=False, url="http://follower") as follower,
        served(follower, port),
    ):
        topic = leader.create(1)
        listener = Listener(port)
        try:
            listener.await_event("topics", topic)
            listener.await_event("controller", '"role": "follower"')
            leader.service.stop()
            listener.await_event("controller", '"role": "leader"')
        finally:
            listener.close()


@pytest.mark.long
def test_a_stream_ends_with_its_controller(kafka_cluster: LocalCluster) -> None:
    port = free_port()
    with in_process(kafka_cluster) as running, served(running, port):
        listener = Listener(port)
        listener.await_event("controller", "leader")
        running.service.begin_stop()
        listener.await_end()


def test_rights_decide_about_each_part(secure_cluster: LocalCluster, tmp_path: Path) -> None:
    acls = Acls(AdminClient({**secure_cluster.kafka_properties(), "log_level": 3}))
    name = unique_name("events")
    user = f"User:{name}"
    acls.add(
        acl(user, "DESCRIBE", "TOPIC", name, prefixed=True),
        acl(user, "DESCRIBE", "GROUP", name, prefixed=True),
    )
    with secured(secure_cluster, tmp_path / "tokens") as service:
        for topic in (name, f"other-{name}"):
            body = {"topic": topic, "partitions": 1, "replication_factor": 1}
            assert service.ask("User:admin", "POST", "/v1/topics", json=body).status_code == 201
        for group in (f"{name}-readers", f"other-{name}"):
            consumer = Consumer({**secure_cluster.kafka_properties(), "group.id": group})
            commit_offsets(consumer, [TopicPartition(name, 0, 0)])
            consumer.close()

        def seen(principal: str) -> dict[str, Any]:
            return dict(
                whole(lambda limit: service.ask(principal, "GET", EVENTS, params={"timeout_ms": limit}))
            )

        await_true(lambda: seen(user)["topics"]["topics"] != [], "the ACLs count")
        events = seen(user)
        assert set(events) == {"controller", "topics"}
        assert [row["topic"] for row in events["topics"]["topics"]] == [name]
        everything = seen("User:admin")
        assert set(everything) == PARTS
        assert {name, f"other-{name}"} <= {row["topic"] for row in everything["topics"]["topics"]}
        nobody = service.ask(f"{user}-nobody", "GET", EVENTS, params={"timeout_ms": 1})
        assert (nobody.status_code, nobody.json()["error"]) == (403, "TOPIC_AUTHORIZATION_FAILED")
        groups = service.ask(user, "GET", "/v1/groups").json()["groups"]
        assert groups == [{"group": f"{name}-readers", "state": "Empty"}]
        assert len(service.ask("User:admin", "GET", "/v1/groups").json()["groups"]) >= 2
        caller = service.ask(user, "GET", "/v1/caller").json()
        assert (caller["principal"], caller["methods"]) == (user, ["basic", "bearer"])
        anonymous = service.http.get("/v1/caller").json()
        assert (anonymous["principal"], anonymous["authentication_required"]) == ("User:ANONYMOUS", True)


def test_groups_are_those_that_read(controller: InProcess, kafka_cluster: LocalCluster) -> None:
    topic, group = controller.create(1), f"a/b <c> {unique_name('g')}"
    for name in (group, f"ordered:{topic}:writer:0"):
        consumer = Consumer({"bootstrap.servers": kafka_cluster.bootstrap_servers, "group.id": name})
        commit_offsets(consumer, [TopicPartition(topic, 0, 0)])
        consumer.close()
    found = {row["group"]: row["state"] for row in controller.http.get("/v1/groups").json()["groups"]}
    assert found[group] == "Empty"
    # A ledger of a writer reads nothing.
    assert not any(name.startswith("ordered:") for name in found)


def test_the_newest_audit_lines(controller: InProcess) -> None:
    topic = controller.create(1)
    answer = controller.http.get("/v1/audit-log", params={"limit": 2}).json()
    assert answer["controller"] == controller.service.id
    assert [(line["event"], line["topics"]) for line in answer["lines"]] == [
        ("answered", [topic]),
        ("requested", [topic]),
    ]
    refused = controller.http.get("/v1/audit-log", params={"limit": 0})
    assert refused.status_code == 400
    assert "limit has the value '0'" in refused.json()["error_message"]
