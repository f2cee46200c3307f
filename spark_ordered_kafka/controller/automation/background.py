"""What a leader does again and again on its own, in a thread that ends with its term."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from spark_ordered_kafka.controller.zk.session import DeposedError
from spark_ordered_kafka.errors import OrderedKafkaError

_log = logging.getLogger(__name__)


class Background:
    """Calls ``step`` every ``interval`` seconds between :meth:`start` and :meth:`stop`.

    ``step`` gets an event that is set when it should end early. Its errors are logged, each once until it succeeds again;
    after a DeposedError the thread ends. ``what`` names the work in messages.
    """

    def __init__(
        self, name: str, what: str, interval: float, step: Callable[[threading.Event], None]
    ) -> None:
        self._name = name
        self._what = what
        self._interval = interval
        self._step = step
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._complaints: dict[str, str] = {}

    def start(self) -> None:
        """Begin with the first step at once."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(self._stop,), name=self._name, daemon=True)
        self._thread.start()

    def begin_stop(self) -> None:
        """Begin no further step."""
        self._stop.set()

    def stop(self, timeout: float) -> None:
        """Stop after the step that runs; waits at most ``timeout`` seconds for that."""
        self._stop.set()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(timeout)
            if thread.is_alive():
                _log.warning("%s: it did not stop within %g s", self._what, timeout)

    def complain(self, subject: str, message: str) -> None:
        """Log an error of a subject once, not at every step."""
        if self._complaints.get(subject) != message:
            _log.warning("%s", message)
            self._complaints[subject] = message

    def settle(self, subject: str) -> None:
        """The subject has no error any more."""
        self._complaints.pop(subject, None)

    def _run(self, stop: threading.Event) -> None:
        pause = 0.0
        while not stop.wait(pause):
            began = time.monotonic()
            try:
                self._step(stop)
            except DeposedError:
                _log.info("not the controller any more: %s is left to the next one", self._what)
                return
            except OrderedKafkaError as error:
                self.complain("", f"{self._what}: not at the moment: {error}")
            except Exception:  # noqa: BLE001 - a bug, and the next step may find another state
                _log.exception("%s failed", self._what)
            else:
                self.settle("")
            pause = max(0.0, self._interval - (time.monotonic() - began))
