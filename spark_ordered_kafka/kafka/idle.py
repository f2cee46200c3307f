"""Clients that a task leaves to the next ones of its worker process, for a bounded time."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

CAPACITY = 64
# Seconds: brokers close a connection that was idle for ten minutes (D-118).
MAX_IDLE = 540.0

_KeyT = TypeVar("_KeyT", bound=Hashable)
_ClientT = TypeVar("_ClientT")


class IdlePool(Generic[_KeyT, _ClientT]):
    """Idle clients by key, one each, for use by any number of threads.

    Beyond ``capacity`` the one that was used longest ago is closed. One that was idle for ``max_idle`` seconds of
    ``clock`` is closed by the pool's next use, or by a thread of the pool, since a process may never use it again: the
    thread sleeps until that time, and there is none while the pool is empty.
    """

    def __init__(
        self,
        close: Callable[[_ClientT], object],
        *,
        capacity: int = CAPACITY,
        max_idle: float = MAX_IDLE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._close = close
        self._capacity = capacity
        self._max_idle = max_idle
        self._clock = clock
        self._changed = threading.Condition()
        # With the time at which each became idle, in this order.
        self._idle: OrderedDict[_KeyT, tuple[float, _ClientT]] = OrderedDict()
        self._closer: threading.Thread | None = None

    def __len__(self) -> int:
        return len(self._idle)

    def take(self, key: _KeyT) -> _ClientT | None:
        """The idle client of that key, if there is one: the caller's from now on."""
        self.expire()
        with self._changed:
            _, client = self._idle.pop(key, (0.0, None))
            self._changed.notify_all()
        return client

    def put(self, key: _KeyT, client: _ClientT) -> None:
        """Keep a client; an idle one of the same key is closed."""
        with self._changed:
            _, replaced = self._idle.pop(key, (0.0, None))
            surplus = [] if replaced is None else [replaced]
            self._idle[key] = (self._clock(), client)
            while len(self._idle) > self._capacity:
                surplus.append(self._idle.popitem(last=False)[1][1])
            if self._idle and (self._closer is None or not self._closer.is_alive()):
                self._closer = threading.Thread(target=self._run, name="closer of idle clients", daemon=True)
                self._closer.start()
        self._close_all(surplus)
        self.expire()

    def expire(self) -> None:
        """Close those that were idle for too long."""
        with self._changed:
            expired = []
            while self._idle and self._next_end() <= self._clock():
                expired.append(self._idle.popitem(last=False)[1][1])
        self._close_all(expired)

    def _next_end(self) -> float:
        since, _ = next(iter(self._idle.values()))
        return since + self._max_idle

    def _close_all(self, clients: list[_ClientT]) -> None:
        # Without the lock: it may take long.
        while clients:
            self._close(clients.pop())

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._idle:
                    self._closer = None
                    return
                self._changed.wait(max(0.0, self._next_end() - self._clock()))
            self.expire()
