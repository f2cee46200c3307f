"""What commands do to ask several questions at a time."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from spark_ordered_kafka.cli.common import at_once

NAMES = [str(number) for number in range(50)]
INTERRUPTED = """
import os, signal, threading
from spark_ordered_kafka.cli.common import at_once

def ask(name):
    # As Ctrl-C does while no answer comes.
    os.kill(os.getpid(), signal.SIGINT)
    threading.Event().wait()

try:
    at_once(ask, ["orders"] * 50)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_answers_come_in_the_order_of_the_names() -> None:
    assert at_once(int, NAMES) == list(range(50))
    assert at_once(int, []) == []


def test_four_are_asked_at_a_time() -> None:
    together = threading.Barrier(4, timeout=60)
    assert at_once(lambda _: together.wait() >= 0, NAMES[:8]) == [True] * 8


def test_the_first_error_is_raised_and_no_more_is_asked() -> None:
    asked: list[str] = []
    go_on = threading.Event()

    def ask(name: str) -> str:
        asked.append(name)
        if name == "0":
            raise LookupError(name)
        go_on.wait(60)
        return name

    with pytest.raises(LookupError, match="0"):
        at_once(ask, NAMES)
    go_on.set()
    assert len(asked) <= 8


def test_ctrl_c_waits_for_no_answer() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (0, "interrupted\n"), done.stderr
