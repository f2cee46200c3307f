"""A thread that serves producers which nobody else serves, since librdkafka queues its reports whether anybody takes them or not.

Sixteen idle producers that nobody served made a process grow by 3 MB a second.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Protocol
from weakref import WeakSet

_INTERVAL = 0.5


class Kept(Protocol):
    """What may be left alone for any time."""

    def keep(self) -> None:
        """Take what was reported, unless the owner has just done so; must not wait or raise."""


class Keeper:
    """Serves all that were given to :meth:`add` for as long as they live, from a daemon thread while there are any."""

    def __init__(self, interval: float = _INTERVAL) -> None:
        self._interval = interval
        self._lock = threading.Lock()
        self._all: WeakSet[Kept] = WeakSet()
        self._thread: threading.Thread | None = None
        # Neither the thread nor librdkafka's live on in a process that was forked, and a lock may be held there for ever.
        os.register_at_fork(after_in_child=self._forget)

    def add(self, kept: Kept) -> None:
        """Serve ``kept`` from now on; it is not kept alive by that."""
        with self._lock:
            self._all.add(kept)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="producer keeper", daemon=True)
                self._thread.start()

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._all = WeakSet()
        self._thread = None

    def _run(self) -> None:
        while self._serve():
            time.sleep(self._interval)  # librdkafka queues a report at fixed intervals, without an event

    def _serve(self) -> bool:
        """Serve each; False when none is left, which ends the thread."""
        with self._lock:
            some = list(self._all)
            if not some:
                self._thread = None
                return False
        while some:
            # Not held on to for longer than it takes: its owner may have given it up.
            some.pop().keep()
        return True


KEEPER = Keeper()
