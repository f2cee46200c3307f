"""The partition changes that this process carries out, each in a thread of its own."""

from __future__ import annotations

import contextvars
import logging
import threading
from collections.abc import Callable
from functools import partial

from spark_ordered_kafka.controller.change.expansion import Expansion
from spark_ordered_kafka.controller.change.job import Job
from spark_ordered_kafka.controller.change.protocol import Change
from spark_ordered_kafka.controller.change.runner import Runner

_log = logging.getLogger(__name__)


class Jobs:
    """At most one job per topic. Thread-safe, except that :meth:`begin` comes before all others of a leader term."""

    def __init__(self, runner: Runner, expansion: Expansion, clock: Callable[[], float]) -> None:
        self._runner = runner
        self._expansion = expansion
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: dict[str, tuple[Job, threading.Thread]] = {}
        self.stop = threading.Event()

    def find(self, topic: str, change_id: str | None = None) -> Job | None:
        """The topic's job, if it is that of ``change_id`` where one is given."""
        with self._lock:
            entry = self._entries.get(topic)
        return entry[0] if entry is not None and change_id in (None, entry[0].change.id) else None

    def topics(self) -> list[str]:
        """Those with a job."""
        with self._lock:
            return list(self._entries)

    def run(self, change: Change, topic_id: str) -> Job:
        """Start the change's job, or return the one that has started."""
        with self._lock:
            entry = self._entries.get(change.topic)
            # A process that is elected again may resume a recorded change before the request that recorded it starts its
            # job. Two jobs would interfere.
            if entry is not None and entry[0].change.id == change.id and entry[0].stop is self.stop:
                return entry[0]
            job = Job(change, topic_id, self.stop)
            # Its log lines carry the id of the request that started it.
            work = partial(contextvars.copy_context().run, self._work, job)
            thread = threading.Thread(target=work, name=f"change-{change.topic}", daemon=True)
            self._entries[change.topic] = (job, thread)
            thread.start()
        return job

    def begin(self) -> None:
        """Jobs may start again, in a new leader term."""
        self.stop = threading.Event()

    def begin_stop(self) -> None:
        """Let no job begin a further instruction."""
        self.stop.set()

    def stop_all(self, timeout: float) -> None:
        """Stop between two instructions; waits ``timeout`` seconds in all for the threads."""
        self.begin_stop()
        with self._lock:
            entries = list(self._entries.values())
        deadline = self._clock() + timeout
        for job, thread in entries:
            thread.join(max(0.0, deadline - self._clock()))
            if thread.is_alive():
                _log.warning("topic %s: its change did not stop within %g s", job.topic, timeout)

    def _work(self, job: Job) -> None:
        try:
            self._runner.run(job)
        finally:
            self._expansion.ended(job.change)
            with self._lock:
                entry = self._entries.get(job.topic)
                if entry is not None and entry[0] is job:
                    del self._entries[job.topic]
