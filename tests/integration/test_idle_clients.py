"""Clients that hold connections and do nothing with them: writers are answered meanwhile, and what is kept for them is bounded."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import ExitStack

import httpx2
import pytest

from spark_ordered_kafka.controller.api.connections import raise_file_limit
from spark_ordered_kafka.controller.api.routes import events
from tests.integration.controllers import InProcess
from tests.integration.exhausting import MEGABYTE, ImpatientProtocol, Peak, Writer, serving
from tests.servers import TIMEOUT, await_true

CONNECTIONS = 1000


@pytest.mark.long
def test_a_thousand_idle_connections_keep_no_writer_waiting(controller: InProcess) -> None:
    raise_file_limit()
    topic = controller.create(2)
    with serving(controller) as port, Writer(port, topic) as writer, ExitStack() as ends:
        writer.await_answers(1)
        with Peak() as peak:
            for _ in range(CONNECTIONS):
                ends.enter_context(socket.create_connection(("127.0.0.1", port), TIMEOUT))
            writer.await_answers(20)
            assert httpx2.get(f"http://127.0.0.1:{port}/healthz", timeout=TIMEOUT).status_code == 200
        assert peak.grown < 100 * MEGABYTE


def test_a_listener_that_takes_no_events_loses_its_place(
    controller: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "MAX_LISTENERS", 1)
    is_full = threading.Event()

    async def comments(*_: object) -> AsyncIterator[str]:
        """Once it is to be full, more events than any buffer has room for."""
        while True:
            yield f":{'x' * MEGABYTE if is_full.is_set() else ''}\n\n"
            await asyncio.sleep(0 if is_full.is_set() else 0.05)

    monkeypatch.setattr(events, "_stream", comments)
    topic = controller.create(2)
    with serving(controller, ImpatientProtocol) as port, socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        listener.settimeout(TIMEOUT)
        listener.connect(("127.0.0.1", port))
        listener.sendall(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert listener.recv(15) == b"HTTP/1.1 200 OK"

        def is_taken() -> bool:
            with httpx2.stream("GET", f"http://127.0.0.1:{port}/v1/events", timeout=TIMEOUT) as answer:
                return answer.status_code == 200

        assert not is_taken()
        is_full.set()
        with Writer(port, topic) as writer:
            writer.await_answers(3)
        await_true(is_taken, "the place is free again")
