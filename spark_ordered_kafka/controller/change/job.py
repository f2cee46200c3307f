"""A change that this process carries out: its progress, and whether it is cancelled."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from dataclasses import replace

from spark_ordered_kafka.controller.change import machine, protocol
from spark_ordered_kafka.controller.change.protocol import Change, Event, Instruction, Running
from spark_ordered_kafka.controller.settings import Timing
from spark_ordered_kafka.controller.state.change import FinishedChange


class Job:
    """A change that this process carries out. Thread-safe.

    ``done`` resolves to how it ended, or raises DeposedError when this process stopped before; then the next controller
    resumes it.
    """

    def __init__(self, change: Change, topic_id: str, stop: threading.Event) -> None:
        self.topic = change.topic
        self.topic_id = topic_id
        self.stop = stop
        self.done: Future[FinishedChange] = Future()
        self._lock = threading.Lock()
        self._running: Running | None = None
        self._change = change
        self._fences = 0

    @property
    def change(self) -> Change:
        """The change with its progress; ``fenced`` grows while writers are fenced."""
        with self._lock:
            if self._change.step == "fencing":
                return replace(self._change, fenced=self._fences)
            return self._change

    def request_cancel(self) -> bool:
        """Request that the change is rolled back; False when it is too late."""
        with self._lock:
            if self._running is not None and not machine.cancellable(self._running):
                return False
            self._change = replace(self._change, cancel_requested=True)
            return True

    @property
    def is_stopping(self) -> bool:
        """Whether this process stops, or the change is cancelled."""
        return self.stop.is_set() or self.change.cancel_requested

    def begin(self, now: float, timing: Timing) -> tuple[Instruction, ...]:
        """The first instructions."""
        with self._lock:
            return self._adopt(machine.resume(self._change, now, timing))

    def advance(self, event: Event, timing: Timing) -> tuple[Instruction, ...]:
        """The instructions that follow ``event``, or those of a cancellation that was requested meanwhile."""
        with self._lock:
            running = self._running
            if running is None:
                raise RuntimeError("advance() before begin()")
            if self._change.cancel_requested and machine.cancellable(running):
                event = protocol.CancelRequested(event.at)
            return self._adopt(machine.advance(running, event, timing))

    def count_fence(self, fenced: int) -> None:
        """Record that ``fenced`` transactional ids have been fenced."""
        with self._lock:
            self._fences = fenced

    def _adopt(self, answer: machine.Answer) -> tuple[Instruction, ...]:
        self._running, following = answer
        requested = self._change.cancel_requested
        self._change = replace(self._running.change, cancel_requested=requested)
        return following


def ended_job(topic: str, topic_id: str, finished: FinishedChange) -> Job:
    """The job of a change that has ended, for a repeated request: callers use its id and ``done`` alone."""
    change = Change(
        id=finished.id,
        topic=topic,
        # ``finished.kind`` may be a newer controller's.
        kind="expand" if finished.target > finished.source else "shrink",
        source=finished.source,
        target=finished.target,
        existing=max(finished.source, finished.target),
        started_at=finished.started_at,
    )
    job = Job(change, topic_id, threading.Event())
    job.done.set_result(finished)
    return job
