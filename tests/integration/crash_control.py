"""A controller process that can be told to die before an instruction of a change, and its successor."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2

from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.controller.settings import Timing
from spark_ordered_kafka.errors import UnavailableError
from spark_ordered_kafka.local import LocalCluster
from tests.integration.controllers import free_port
from tests.servers import TIMEOUT, await_true, unique_name

SESSION_TIMEOUT = 1.0
"""Seconds; the shortest that the local ZooKeeper grants."""
# A session this short ends again and again while other processes take all processors.
START_TIMEOUT = 3 * TIMEOUT


class CrashingController:
    """A controller process that can be told to die; its successor listens on the same port, or stands by on its own.

    ``beside``: the controller that this one stands by for; what is told to one of them is told to whichever is active.
    ``drain`` in seconds, as of :class:`Timing`. ``session_timeout`` in seconds: how soon a successor takes over.
    """

    def __init__(
        self,
        cluster: LocalCluster,
        directory: Path,
        beside: CrashingController | None = None,
        drain: float = Timing.drain,
        session_timeout: float = SESSION_TIMEOUT,
    ) -> None:
        self.url = f"http://127.0.0.1:{free_port()}"
        self.armed = directory / "armed"
        self._log = directory / "controller.log"
        self._chroot: str = unique_name("crash") if beside is None else beside._chroot
        command = [sys.executable, "-m", "tests.integration.crashing_controller", cluster.bootstrap_servers]
        zookeeper = f"{cluster.zookeeper}/{self._chroot}"
        port = self.url.rsplit(":", 1)[1]
        self._command = [*command, zookeeper, port, str(self.armed), str(session_timeout), str(drain)]
        self._process: subprocess.Popen[bytes] | None = None

    @contextmanager
    def running(self) -> Iterator[None]:
        try:
            self.start()
            yield
        finally:
            self._kill()

    @contextmanager
    def standing_by(self) -> Iterator[None]:
        self.spawn()
        try:
            yield
        finally:
            self._kill()

    def _kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(TIMEOUT)

    def spawn(self) -> None:
        """Start it; does not wait until it serves."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)

    def has_crashed(self) -> bool:
        assert self._process is not None
        code = self._process.poll()
        assert code in (None, 137), self._log.read_text()
        return code is not None

    def start(self) -> None:
        self.spawn()
        assert self._process is not None
        deadline = time.monotonic() + START_TIMEOUT
        while True:
            try:
                if httpx2.get(f"{self.url}/readyz").is_success:
                    return
            except httpx2.TransportError:
                pass
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < deadline, self._log.read_text()
            time.sleep(0.05)

    def await_crash(self) -> None:
        assert self._process is not None
        assert self._process.wait(START_TIMEOUT) == 137


def await_layout(client: ControllerClient, topic: str, epoch: int) -> None:
    """Wait until the change to that layout is done. A controller whose short session has ended says that it cannot answer."""

    def is_done() -> bool:
        try:
            answer = client.change(topic)
            if answer.change is not None or answer.last_change is None:
                return False
            assert answer.last_change.outcome == "done", answer
            return client.topic(topic).layout_epoch == epoch
        except UnavailableError:
            return False

    await_true(is_done, f"layout {epoch} of {topic}", START_TIMEOUT)
