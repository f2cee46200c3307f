"""A controller over real connections, a writer that must not wait, and the most memory it takes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import uvicorn

from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.controller.api.peers import PeerProtocol
from spark_ordered_kafka.controller.server import server_config
from spark_ordered_kafka.credentials import ControllerCredentials
from tests.integration.controllers import InProcess, free_port
from tests.servers import TIMEOUT, await_true

MEGABYTE = 1024 * 1024


class ImpatientProtocol(PeerProtocol):
    """Some seconds in the place of the real one's thirty and sixty. A test's own requests must not be late on a busy machine,
    and after 5 s uvicorn closes a connection that was answered."""

    request_deadline = 3.0
    answer_deadline = 1.0


@contextmanager
def serving(running: InProcess, protocol: type[PeerProtocol] = PeerProtocol) -> Iterator[int]:
    """The port on which a controller answers as its process does."""
    port = free_port()
    config = server_config(running.service)
    config.http, config.port, config.log_level = protocol, port, "error"
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        await_true(lambda: server.started, "the API starts")
        yield port
    finally:
        server.should_exit = server.force_exit = True
        thread.join(TIMEOUT)


class Writer:
    """Asks for a topic's layout as writers do, again and again; ``answers`` counts. A failure ends it and is told."""

    def __init__(self, port: int, topic: str, token: str | None = None) -> None:
        credentials = ControllerCredentials() if token is None else ControllerCredentials(token=token)
        self._client = ControllerClient(f"http://127.0.0.1:{port}", timeout=TIMEOUT, credentials=credentials)
        self._topic = topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.answers = 0
        self.failure: Exception | None = None

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(TIMEOUT)
        self._client.close()

    def await_answers(self, count: int) -> None:
        """So many more, begun from now on."""
        wanted = self.answers + count + 1
        await_true(lambda: self.failure is not None or self.answers >= wanted, "layouts are answered")
        assert self.failure is None, self.failure

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._client.writer_layout(self._topic)
            except Exception as error:  # noqa: BLE001 - the test tells
                self.failure = error
                return
            self.answers += 1
            time.sleep(0.001)


class Peak:
    """The most memory in bytes that this process has taken since the beginning, above what it had then."""

    def __init__(self) -> None:
        self._process = psutil.Process()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._before = self._most = self._process.memory_info().rss

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(TIMEOUT)

    @property
    def grown(self) -> int:
        return self._most - self._before

    def _look(self) -> None:
        while not self._stop.wait(0.005):
            self._most = max(self._most, self._process.memory_info().rss)
