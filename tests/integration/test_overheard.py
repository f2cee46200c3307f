"""What an eavesdropper between two controllers can do with what is handed on: nothing."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import httpx
import pytest

from spark_ordered_kafka.controller.api.middleware.signatures import (
    CALLER_HEADER,
    FORWARDED_HEADER,
    VALID_FOR,
)
from spark_ordered_kafka.local import LocalCluster
from tests.integration.controllers import exists, free_port, in_process, served
from tests.servers import TIMEOUT, await_true, unique_name


class Wire:
    """Passes bytes between a port and the leader's, and keeps what went to the leader."""

    def __init__(self, listener: socket.socket, to: int) -> None:
        self._listener, self._to = listener, to
        self.heard: list[bytes] = []

    def run(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed
            threading.Thread(target=self._pass, args=(client,), daemon=True).start()

    def _pass(self, client: socket.socket) -> None:
        with closing(client), closing(socket.create_connection(("127.0.0.1", self._to), TIMEOUT)) as leader:
            back = threading.Thread(target=_copy, args=(leader, client, []), daemon=True)
            back.start()
            _copy(client, leader, self.heard)
            back.join(TIMEOUT)


def _copy(source: socket.socket, sink: socket.socket, kept: list[bytes]) -> None:
    try:
        while data := source.recv(65536):
            kept.append(data)
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        return  # the other side has closed


@contextmanager
def wire(to: int) -> Iterator[tuple[int, Wire]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        heard = Wire(listener, to)
        threading.Thread(target=heard.run, daemon=True).start()
        yield listener.getsockname()[1], heard
        listener.shutdown(socket.SHUT_RDWR)


def overheard(data: bytes) -> httpx.Request:
    """The request that went over the wire."""
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ")
    headers = [tuple(line.split(": ", 1)) for line in lines]
    return httpx.Request(method, f"http://x{target}", headers=headers, content=body)  # type: ignore[arg-type]


def test_what_is_overheard_between_controllers_is_of_no_use(
    kafka_cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    chroot, port = unique_name("overheard"), free_port()
    with wire(port) as (tapped, heard):
        url = f"http://127.0.0.1:{tapped}"
        with (
            in_process(kafka_cluster, chroot=chroot, url=url) as leader,
            served(leader, port),
            in_process(kafka_cluster, chroot=chroot, await_active=False) as follower,
        ):
            await_true(lambda: follower.service.leader.record is not None, "the follower knows its leader")
            key = leader.service.forwarding_token
            assert key
            topic = follower.create(1, configs={"retention.ms": "60000"})
            deletion = follower.http.delete(f"/v1/topics/{topic}", params={"validate_only": "true"})
            assert deletion.status_code == 200, deletion.text
            data = b"".join(heard.heard)
            assert data.count(FORWARDED_HEADER.encode()) == 2
            assert key.encode() not in data

            creation, check = (
                overheard(b"POST" + data.split(b"POST", 1)[1].split(b"DELETE")[0]),
                overheard(b"DELETE" + data.split(b"DELETE", 1)[1]),
            )
            refused = misuses(port, creation, check)
            assert {status for status, _ in refused} == {503}
            assert {error for _, error in refused} == {"NOT_CONTROLLER"}
            assert exists(kafka_cluster, topic)
            # It is as old as that by the leader's clock.
            now = time.time() + 2 * VALID_FOR
            monkeypatch.setattr(time, "time", lambda: now)
            status, error = sent(port, check)
            assert (status, error) == (503, "NOT_CONTROLLER")


def misuses(leader: int, creation: httpx.Request, check: httpx.Request) -> list[tuple[int, str]]:
    """What the leader, at that port, answers to what somebody makes of two requests that came from another controller."""
    other = {CALLER_HEADER: "User%3Aadmin;127.0.0.1"}
    return [
        sent(leader, creation),
        sent(leader, check),
        sent(leader, check, url=check.url.copy_with(query=None)),  # the check becomes the deed
        sent(leader, check, url=check.url.copy_with(raw_path=b"/v1/topics/other?validate_only=true")),
        sent(leader, check, method="PATCH"),
        sent(leader, check, headers=other),
        sent(leader, creation, headers={"idempotency-key": "another"}),
        sent(leader, creation, content=creation.content.replace(b"60000", b"1")),
        sent(leader, creation, headers={FORWARDED_HEADER: check.headers[FORWARDED_HEADER]}),
    ]


def sent(
    port: int,
    request: httpx.Request,
    *,
    method: str | None = None,
    url: httpx.URL | None = None,
    headers: dict[str, str] | None = None,
    content: bytes | None = None,
) -> tuple[int, str]:
    target = (url or request.url).raw_path.decode()
    kept: dict[str, Any] = {
        name: value for name, value in request.headers.items() if name not in ("host", "content-length")
    }
    body = request.content if content is None else content
    answer = httpx.request(
        method or request.method,
        f"http://127.0.0.1:{port}{target}",
        headers=kept | (headers or {}),
        content=body,
        trust_env=False,
    )
    return answer.status_code, answer.json().get("error", "")
