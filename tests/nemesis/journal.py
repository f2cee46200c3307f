"""The history of a run: JSON lines, one per event, of all processes in one file."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Event = dict[str, Any]
"""``at`` is the monotonic clock in seconds, the same for all processes of the machine; ``time`` seconds since the epoch."""


class Journal:
    """Appends events of one process. A line is one write, so that lines of several processes do not mix."""

    def __init__(self, path: Path, process: str) -> None:
        self._process = process
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def note(self, action: str, **outcome: Any) -> None:
        """Write an event; it is in the file when this returns."""
        event = {"at": time.monotonic(), "time": time.time(), "process": self._process, "action": action}
        os.write(self._file, json.dumps(event | outcome, default=str).encode() + b"\n")


def parse(lines: Iterable[str]) -> list[Event]:
    """The events in the order of time. Raises ValueError for a line that is none."""
    events = [json.loads(line) for line in lines]
    return sorted(events, key=lambda event: event["at"])
