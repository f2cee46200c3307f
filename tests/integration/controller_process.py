"""Controllers in processes of their own, for tests that start them otherwise than a local cluster does."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import httpx2

from spark_ordered_kafka.parsing import host_port
from tests.servers import TIMEOUT, await_true

_PROGRAM = ("-m", "spark_ordered_kafka.cli")


@contextmanager
def running(
    bootstrap_servers: str,
    zookeeper: str,
    port: int,
    *,
    program: Sequence[str] = _PROGRAM,
    host: str = "127.0.0.1",
) -> Iterator[str]:
    """The URL of a controller process; SIGTERM at the end."""
    where = ["--bootstrap-server", bootstrap_servers, "--zookeeper", zookeeper]
    command = [sys.executable, *program, "controller", "run", *where, "--host", host, "--port", str(port)]
    url = f"http://{host_port(host, port)}"
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        await_true(lambda: process.poll() is None and _ready(url), "the controller serves", 2 * TIMEOUT)
        yield url
    finally:
        process.send_signal(signal.SIGTERM)
        # The server ends in order, and then by the signal itself.
        assert process.wait(2 * TIMEOUT) in (0, -signal.SIGTERM)


def _ready(url: str) -> bool:
    try:
        return httpx2.get(f"{url}/readyz", timeout=TIMEOUT).status_code == 200
    except httpx2.TransportError:
        return False
