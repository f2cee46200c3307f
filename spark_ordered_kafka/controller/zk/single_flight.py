"""One confirmation for all callers that wait at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future


class SingleFlight:
    """Runs ``confirm`` once for all waiting callers. Thread-safe.

    A caller returns after a call of ``confirm`` that *began* after its own call. So for a thousand simultaneous callers, one
    call serves the first, and the next call all others.
    """

    def __init__(self, confirm: Callable[[], None]) -> None:
        self._confirm = confirm
        self._lock = threading.Lock()
        self._confirming = threading.Lock()
        self._next: Future[None] | None = None

    def confirm(self) -> None:
        """Return after a confirmation that began after this call did; raises what ``confirm`` raised."""
        with self._lock:
            answer = self._next
            first = answer is None
            if answer is None:
                answer = self._next = Future()
        if first:
            with self._confirming:
                with self._lock:
                    self._next = None  # who comes from here on would be answered too early
                try:
                    self._confirm()
                except BaseException as error:  # noqa: BLE001 - raised below, in every thread that waits
                    answer.set_exception(error)
                else:
                    answer.set_result(None)
        answer.result()
