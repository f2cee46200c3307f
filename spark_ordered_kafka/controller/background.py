"""What a leader does again and again, in a thread that ends with its term (D-302)."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from spark_ordered_kafka.controller.zk.session import DeposedError
from spark_ordered_kafka.errors import OrderedKafkaError

_log = logging.getLogger(__name__)


class Background:
    """Calls ``step`` again and again between :meth:`start` and :meth:`stop`.

    ``step`` gets an event that is set when it should end early. Its errors are logged, as :meth:`attempt` logs them; after a
    DeposedError the thread ends. ``pause`` gives the seconds to the next step by those that a step took. ``what`` names the
    work in messages. ``forget`` is called before the first step, and after the last one. Unless ``enabled`` there is none.
    """

    def __init__(
        self,
        name: str,
        what: str,
        pause: Callable[[float], float],
        step: Callable[[threading.Event], None],
        *,
        forget: Callable[[], None] = lambda: None,
        enabled: bool = True,
    ) -> None:
        self._name = name
        self._what = what
        self._pause = pause
        self._step = step
        self._forget = forget
        self._enabled = enabled
        self.stopped = threading.Event()
        """Set when no further step begins; another one from each :meth:`start` on."""
        self._thread: threading.Thread | None = None
        self._complaints: dict[str, str] = {}

    def start(self) -> None:
        """Begin with the first step at once."""
        self._forget()
        if not self._enabled:
            return
        self.stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(self.stopped,), name=self._name, daemon=True)
        self._thread.start()

    def begin_stop(self) -> None:
        """Begin no further step."""
        self.stopped.set()

    def stop(self, timeout: float) -> None:
        """Stop after the step that runs; waits at most ``timeout`` seconds for that."""
        self.stopped.set()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(timeout)
            if thread.is_alive():
                _log.warning("%s: it did not stop within %g s", self._what, timeout)
        self._forget()

    def attempt(self, subject: str, failure: str, work: Callable[[], None]) -> None:
        """Do a part of a step, whose failure does not end the step; raises DeposedError only.

        An error is logged, beginning with ``failure``: once, until the subject has another error or none.
        """
        try:
            work()
        except DeposedError:
            raise
        except OrderedKafkaError as error:
            self.complain(subject, f"{failure}: {error}")
        except Exception:  # noqa: BLE001 - a bug, from which neither other subjects nor the next step may suffer
            _log.exception("%s: a bug", failure)
        else:
            self._complaints.pop(subject, None)

    def complain(self, subject: str, message: str) -> None:
        """Log an error of a subject once, not at every step."""
        if self._complaints.get(subject) != message:
            _log.warning("%s", message)
            self._complaints[subject] = message

    def _run(self, stop: threading.Event) -> None:
        pause = 0.0
        while not stop.wait(pause):
            began = time.monotonic()
            try:
                self.attempt("", f"{self._what}: not at the moment", lambda: self._step(stop))
            except DeposedError:
                _log.info("not the controller any more: %s is left to the next one", self._what)
                return
            pause = self._pause(time.monotonic() - began)


def every(interval: float) -> Callable[[float], float]:
    """Pauses after which a step begins every ``interval`` seconds, or at once after a longer one."""
    return lambda took: max(0.0, interval - took)
