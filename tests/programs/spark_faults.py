"""What happens in the middle of a Spark program's query: tasks that fail, workers that die, drivers that are killed.

A program that breaks a promise is printed with this text before it, so that it runs by itself.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import psutil
import pyarrow as pa

INJECTED = "by the program's own fault"


class InjectedError(Exception):
    """The application's own."""


def acting(event: str, home: str, at: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Hands rows through; in the task that takes the flag away something happens behind ``at`` rows."""
    fails, dies = event == "task fails", event == "worker dies"

    def takes_flag() -> bool:
        try:
            os.unlink(os.path.join(home, "flag"))
        except FileNotFoundError:
            return False
        return True

    def wait() -> None:
        with open(os.path.join(home, "reached"), "w"):
            pass
        while not os.path.exists(os.path.join(home, "go")):
            time.sleep(0.02)

    def hand_through(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        seen = 0
        for batch in batches:
            place, rest = at - seen, batch
            seen += batch.num_rows
            if 0 <= place < batch.num_rows and takes_flag():
                if place:
                    yield batch.slice(0, place)
                rest = batch.slice(place)
                if fails:
                    raise InjectedError(INJECTED)
                if dies:
                    os.kill(os.getpid(), signal.SIGKILL)
                wait()
            yield rest

    return hand_through


def kill_tree(pid: int) -> None:
    """``kill -9`` of a process and all that it has started."""
    with suppress(psutil.NoSuchProcess):
        parent = psutil.Process(pid)
        for process in [*parent.children(recursive=True), parent]:
            with suppress(psutil.NoSuchProcess):
                process.kill()
