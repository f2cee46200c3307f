"""Whether Kafka answers, asked once for all who want to know."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from spark_ordered_kafka.errors import UnavailableError

MAX_AGE = 1.0
"""Seconds for which an answer counts."""


class Probe:
    """Asks at most one question at a time, however many want to know. Safe to share between threads.

    Args:
        ask: returns when there is an answer, and raises the error that says why there is none; called in a thread of the
            probe's own.
        clock: a monotonic clock in seconds.
    """

    def __init__(self, ask: Callable[[], None], clock: Callable[[], float]) -> None:
        self._ask = ask
        self._clock = clock
        self._lock = threading.Lock()
        self._latest: Future[None] | None = None
        self._answered = 0.0
        self._asker = ThreadPoolExecutor(1, thread_name_prefix="probe")

    def outcome(self) -> Future[None]:
        """What ``ask`` came to less than :data:`MAX_AGE` ago, or comes to now; the future is shared: do not cancel it."""
        with self._lock:
            latest = self._latest
            if latest is None or (latest.done() and self._clock() - self._answered >= MAX_AGE):
                try:
                    latest = self._latest = self._asker.submit(self._asked)
                except RuntimeError as error:
                    raise UnavailableError("this process is about to end") from error
            return latest

    def close(self) -> None:
        """Ask nothing more; a question under way is not waited for."""
        self._asker.shutdown(wait=False, cancel_futures=True)

    def _asked(self) -> None:
        try:
            self._ask()
        finally:
            self._answered = self._clock()
