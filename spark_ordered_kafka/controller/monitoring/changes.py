"""Figures of changes for Prometheus, and the end of each change in the audit log."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import Future

from structlog.contextvars import get_contextvars

from spark_ordered_kafka.controller.change.protocol import Change
from spark_ordered_kafka.controller.monitoring.audit import AuditLog
from spark_ordered_kafka.controller.monitoring.metrics import Metrics
from spark_ordered_kafka.controller.state.change import FinishedChange
from spark_ordered_kafka.errors import ErrorCode, error_name


class ChangeObserver:
    """Called by the runner with the progress of this process's changes. Thread-safe."""

    def __init__(self, metrics: Metrics, audit: AuditLog) -> None:
        self._metrics = metrics
        self._audit = audit
        self._lock = threading.Lock()
        self._steps: dict[str, tuple[Change, float]] = {}

    def running(self) -> Counter[tuple[str, str]]:
        """(kind, step) -> number of running changes."""
        with self._lock:
            return Counter((change.kind, change.step) for change, _ in self._steps.values())

    def ages(self, now: float) -> tuple[dict[str, float], dict[str, float]]:
        """By kind the seconds for which the oldest running change runs, and those for which one has held writers by now."""
        running: dict[str, float] = {}
        holding: dict[str, float] = {}
        with self._lock:
            changes = [change for change, _ in self._steps.values()]
        for one in changes:
            running[one.kind] = max(running.get(one.kind, 0.0), now - one.started_at)
            if one.closing_at is not None:
                holding[one.kind] = max(holding.get(one.kind, 0.0), now - one.closing_at)
        return running, holding

    def reached(self, change: Change, now: float) -> None:
        """``change`` is as it is at ``now`` (seconds)."""
        with self._lock:
            before, since = self._steps.get(change.id, (change, now))
            moved = before.step != change.step
            self._steps[change.id] = (change, now if moved else since)
        if moved:
            self._metrics.observe_step(before.kind, before.step, max(0.0, now - since))

    def covered(self, topic: str, layout_epoch: int, known: int, existing: int) -> None:
        """Layout ``layout_epoch`` covers the partitions ``known`` to ``existing`` - 1, made outside of any change."""
        self._metrics.count_covering(topic, existing - known)
        self._audit.add(
            "covered",
            {"topic": topic, "layout_epoch": layout_epoch, "first": known, "partitions": existing - known},
        )

    def left(self, change: Change, done: Future[FinishedChange], now: float) -> None:
        """This process has ended its work on ``change``: ``done`` is its end, or why another controller takes it over."""
        with self._lock:
            before, since = self._steps.pop(change.id, (change, now))
        if done.exception() is not None:
            return
        self._metrics.observe_step(before.kind, before.step, max(0.0, now - since))
        finished = done.result()
        self._metrics.observe_change(finished)
        self._audit.add(
            "ended",
            {
                "change_id": finished.id,
                # Known to the controller that got the request, but not to one that took the change over.
                "request_id": get_contextvars().get("request_id"),
                "topic": change.topic,
                "kind": finished.kind,
                "source": finished.source,
                "target": finished.target,
                "outcome": finished.outcome,
                "error": error_name(finished.error_code or ErrorCode.NONE),
                "error_message": finished.error_message,
                "seconds": round(max(0.0, finished.finished_at - finished.started_at), 3),
                "writer_pause_seconds": round(finished.writer_pause_seconds, 3),
                "fenced": finished.fenced,
            },
        )
