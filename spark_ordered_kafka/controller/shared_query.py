"""A query that one thread runs for all callers that wait for its answer."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar

from spark_ordered_kafka.errors import OrderedKafkaError, UnavailableError

_log = logging.getLogger(__name__)
_ValueT = TypeVar("_ValueT")


@dataclass(frozen=True)
class Answer(Generic[_ValueT]):
    """``asked_at`` is the start of the query: the answer may lack later changes."""

    value: _ValueT
    asked_at: float


class SharedQuery(Generic[_ValueT]):
    """Runs at most once at a time for any number of callers. Thread-safe.

    Attributes:
        latest: the last answer, kept after errors; None before the first.

    Args:
        name: of the query, for the log.
        ask: returns the answer or raises; called in a thread of its own.
        clock: a monotonic clock in seconds.
    """

    def __init__(self, name: str, ask: Callable[[], _ValueT], clock: Callable[[], float]) -> None:
        self.latest: Answer[_ValueT] | None = None
        self._name = name
        self._ask = ask
        self._clock = clock
        self._lock = threading.Lock()
        self._pending: Future[Answer[_ValueT]] | None = None
        self._ended_at = 0.0
        self._asker = ThreadPoolExecutor(1, thread_name_prefix=name)

    def age(self) -> float | None:
        """Age in seconds of the latest answer."""
        latest = self.latest
        return None if latest is None else self._clock() - latest.asked_at

    def outcome(self, max_age: float = 0.0) -> Future[Answer[_ValueT]]:
        """The answer of the running query, or of one that ended less than ``max_age`` seconds ago; else of a new one.

        The future is shared: do not cancel it. After :meth:`close` it fails with UnavailableError; :attr:`latest` stays.
        """
        with self._lock:
            pending = self._pending
            if pending is None or (pending.done() and self._clock() - self._ended_at >= max_age):
                try:
                    pending = self._pending = self._asker.submit(self._asked)
                except RuntimeError:
                    pending = Future()
                    pending.set_exception(UnavailableError("this process is about to end"))
            return pending

    def close(self) -> None:
        """Start no more queries; does not wait for a running one."""
        self._asker.shutdown(wait=False, cancel_futures=True)

    def _asked(self) -> Answer[_ValueT]:
        asked_at = self._clock()
        try:
            self.latest = Answer(self._ask(), asked_at)
        except OrderedKafkaError as error:
            _log.info("%s: no answer: %s", self._name, error)
            raise
        except Exception:  # a bug, which is logged once, not by each of those that share the future
            _log.exception("%s: unexpected error", self._name)
            raise
        finally:
            self._ended_at = self._clock()
        return self.latest
