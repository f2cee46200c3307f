"""The audit log: who asked for which change, when, why, and its outcome. JSON lines, append-only.

A request has two lines: ``requested``, written before anything is done, and ``answered``. A change that outlasts the
answer has a third, ``ended``, with the same change id. A request without an ``answered`` line was cut off: check the
topic.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import stat
import threading
from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from spark_ordered_kafka.errors import ConfigError, UnavailableError

MAX_KEPT = 1000
"""Lines that :meth:`AuditLog.newest` has at most."""
_MAX_KEPT_SIZE = 4 * 1024 * 1024
"""Characters of these lines."""

_log = logging.getLogger(__name__)
_audit = logging.getLogger("spark_ordered_kafka.audit")


class AuditLog:
    """Appends to a file, or without one to the logger ``spark_ordered_kafka.audit``. Thread-safe.

    Creates the file again after it was moved away, as by log rotation. Keeps the newest lines in memory, too (D-280).
    ``clock`` gives seconds since the epoch. ``on_failure`` is called when a line could not be written.
    """

    def __init__(
        self, path: str | None, clock: Callable[[], float], on_failure: Callable[[], None] = lambda: None
    ) -> None:
        self._path = None if path is None else Path(path)
        if self._path is None:
            # Regardless of the level of other loggers: at WARNING the audit log would stay empty unnoticed.
            _audit.setLevel(logging.INFO)
        self._clock = clock
        self._on_failure = on_failure
        self._lock = threading.Lock()
        self._file: int | None = None
        self._torn = False
        self._kept: deque[str] = deque()
        self._kept_size = 0
        self._kept_lock = threading.Lock()

    def check(self) -> None:
        """Raises ConfigError unless the file can be written."""
        if self._path is None:
            return
        try:
            with self._lock:
                self._current(self._path)
        except OSError as error:
            raise ConfigError(
                "audit.log.file", str(self._path), f"cannot be written: {error.strerror}"
            ) from error

    def require(self, event: str, fields: Mapping[str, Any]) -> None:
        """Write a line that must be stored before anything is done.

        Raises UnavailableError when it cannot be written: a change without an audit line is not allowed (D-166).
        """
        try:
            self._write(event, fields)
        except OSError as error:
            self._on_failure()
            raise UnavailableError(
                f"the audit log {self._path} cannot be written ({error.strerror}), and without it nothing is changed"
            ) from error

    def add(self, event: str, fields: Mapping[str, Any]) -> None:
        """Write a line about a completed action. If that fails, the line goes to the process's log."""
        try:
            self._write(event, fields)
        except OSError as error:
            self._on_failure()
            _log.error(
                "the audit log %s cannot be written: %s; %s", self._path, error, self._line(event, fields)
            )

    def newest(self, most: int) -> list[dict[str, Any]]:
        """The newest lines that this process has written, at most ``most``, the newest first."""
        with self._kept_lock:
            lines = list(self._kept)[-most:]
        return [json.loads(line) for line in reversed(lines)]

    def close(self) -> None:
        """Close the file; the next line would open it again."""
        with self._lock:
            self._close()

    def _write(self, event: str, fields: Mapping[str, Any]) -> None:
        line = self._line(event, fields)
        if self._path is None:
            _audit.info("%s", line)
        else:
            self._append(self._path, line)
        self._keep(line)

    def _append(self, path: Path, line: str) -> None:
        data = line.encode() + b"\n"
        with self._lock:
            file = self._current(path)
            # One write per line, so that lines of several processes do not mix. A line that was cut off before gets its line
            # break first.
            data = b"\n" + data if self._torn else data
            written = os.write(file, data)
            self._torn = written < len(data)
            if self._torn:
                raise OSError(errno.ENOSPC, f"only {written} of {len(data)} bytes of a line were written")
            # A pipe or a terminal, as /dev/stdout may be, has no disk to wait for.
            if stat.S_ISREG(os.fstat(file).st_mode):
                os.fsync(file)

    def _keep(self, line: str) -> None:
        # Another lock: a reader must not wait for the disk.
        with self._kept_lock:
            self._kept.append(line)
            self._kept_size += len(line)
            while len(self._kept) > MAX_KEPT or self._kept_size > _MAX_KEPT_SIZE:
                self._kept_size -= len(self._kept.popleft())

    def _line(self, event: str, fields: Mapping[str, Any]) -> str:
        time = datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="milliseconds")
        return json.dumps({"time": time, "event": event, **fields}, separators=(",", ":"))

    def _current(self, path: Path) -> int:
        if self._file is not None and not _is(path, self._file):
            self._close()
        if self._file is None:
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
            # Of a process that ended while the disk was full.
            self._torn = stat.S_ISREG(os.fstat(self._file).st_mode) and _ends_within_a_line(path)
        return self._file

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _ends_within_a_line(path: Path) -> bool:
    """Whether the last line has no line break; False where that cannot be read."""
    try:
        with path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"
    except OSError:
        # It is empty, or this process may only write it.
        return False


def _is(path: Path, file: int) -> bool:
    """Whether the open ``file`` is still the one at ``path``."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file))
    except FileNotFoundError:
        return False
