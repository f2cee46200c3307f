"""Figures of reassignments for Prometheus, and the end of each request in the audit log."""

from __future__ import annotations

from collections.abc import Iterable

from spark_ordered_kafka.controller.monitoring.audit import AuditLog
from spark_ordered_kafka.controller.monitoring.metrics import Metrics
from spark_ordered_kafka.controller.reassign.machine.progress import totals
from spark_ordered_kafka.controller.state.reassignment_records import Move, RequestRecord


class ReassignmentObserver:
    """Called by the executor with the progress of requests. Thread-safe."""

    def __init__(self, metrics: Metrics, audit: AuditLog) -> None:
        self._metrics = metrics
        self._audit = audit

    def moved(self, moves: Iterable[Move]) -> None:
        """These moves have ended in this process."""
        for move in moves:
            copied = sum(there for there, _ in move.copied.values())
            self._metrics.observe_move(move.state, copied)

    def ended(self, record: RequestRecord, moves: Iterable[Move]) -> None:
        """A request has ended in this process."""
        sums = totals(moves)
        ended_at = record.created_at if record.ended_at is None else record.ended_at
        seconds = max(0.0, ended_at - record.created_at)
        self._metrics.observe_reassignment(record.state, seconds)
        self._audit.add(
            "ended",
            {
                "reassignment": record.request_id,
                "principal": record.principal,
                "outcome": record.state,
                **{state: sums.states[state] for state in ("done", "failed", "cancelled")},
                "bytes": sums.numerator,
                "seconds": round(seconds, 3),
            },
        )
