"""What is measured of processes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import psutil
import pytest

from tests.nemesis.network import why_not
from tests.nemesis.watch import usage

_REASON = why_not()


def test_connections_are_counted() -> None:
    before = usage(psutil.Process())["connections"]
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
        assert usage(psutil.Process())["connections"] == before + 2


_ELSEWHERE = """
import socket, sys
server = socket.create_server(("127.0.0.1", 0))
print(flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(_REASON is not None, reason=f"needs network namespaces: {_REASON}")
def test_connections_on_another_host_are_counted() -> None:
    """psutil sees none of them."""
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    command = ["unshare", *user, "--net", sys.executable, "-c", _ELSEWHERE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        assert usage(psutil.Process(process.pid))["connections"] == 1
        process.communicate()
