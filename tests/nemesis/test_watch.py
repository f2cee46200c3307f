"""What is measured of processes."""

from __future__ import annotations

import os
import subprocess
import sys

import psutil
import pytest

from tests.nemesis.network import why_not
from tests.nemesis.watch import usage

_REASON = why_not()
_HERE: list[str] = []
_ELSEWHERE = ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--net"]
_OPEN = """
import socket, sys
print(flush=True)
sys.stdin.readline()
server = socket.create_server(("127.0.0.1", 0))
print(flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(
    "where",
    [
        pytest.param(_HERE, id="here"),
        pytest.param(
            _ELSEWHERE,
            id="on another host",
            marks=pytest.mark.skipif(_REASON is not None, reason=f"needs network namespaces: {_REASON}"),
        ),
    ],
)
def test_connections_are_counted(where: list[str]) -> None:
    """Of a process of its own: connections of this one, left by earlier tests, end at any time.

    psutil sees none of those on another host.
    """
    command = [*where, sys.executable, "-c", _OPEN]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        assert usage(psutil.Process(process.pid))["connections"] == 0
        process.stdin.write(b"\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"\n"
        assert usage(psutil.Process(process.pid))["connections"] == 1
        process.communicate()
