"""The controller's counters for Prometheus. Names begin with ``ordered_kafka_``; times are seconds."""

from __future__ import annotations

import platform
from typing import TypeVar

from prometheus_client import (
    CollectorRegistry,
    Counter,
    GCCollector,
    Histogram,
    Info,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from spark_ordered_kafka.controller.state.change import FinishedChange
from spark_ordered_kafka.version import __version__

_CollectorT = TypeVar("_CollectorT", bound=Collector)
CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
PREFIX = "ordered_kafka"

_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})
_REQUEST_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
# Seconds that writers wait: a change should block them for well under a second.
_CHANGE_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
# Terabytes take days.
_MOVE_SECONDS = (1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 24 * 3600, 72 * 3600)


def gauges(name: str, explanation: str, *labels: str) -> GaugeMetricFamily:
    """What a collector fills at each scrape."""
    return GaugeMetricFamily(f"{PREFIX}_{name}", explanation, labels=labels)


def counters(name: str, explanation: str, *labels: str) -> CounterMetricFamily:
    """As :func:`gauges`."""
    return CounterMetricFamily(f"{PREFIX}_{name}", explanation, labels=labels)


class Metrics:
    """Counters of one controller process, from 0 at its start. Thread-safe."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        GCCollector(registry=self._registry)
        build = Info(f"{PREFIX}_build", "What runs.", registry=self._registry)
        build.info({"version": __version__, "python": platform.python_version()})
        self._misrouted = self._counter(
            "misrouted_records",
            "Records that readers found in a partition their key does not belong to; read again, they count again.",
            "topic",
        )
        self._covered = self._counter(
            "stray_partitions_covered",
            "Partitions made outside of any change that a layout of their own covers.",
            "topic",
        )
        self._requests = self._counter(
            "http_requests", "Requests that were answered.", "method", "route", "status"
        )
        self._request_seconds = self._histogram(
            "http_request_duration_seconds", "How long answers took.", _REQUEST_SECONDS, "method", "route"
        )
        self._changes = self._counter("changes", "Changes of layout that have ended.", "kind", "outcome")
        self._change_seconds = self._histogram(
            "change_duration_seconds", "From request to end of a change.", _CHANGE_SECONDS, "kind", "outcome"
        )
        self._step_seconds = self._histogram(
            "change_step_duration_seconds",
            "How long a change stayed at a step.",
            _CHANGE_SECONDS,
            "kind",
            "step",
        )
        self._pause = self._histogram(
            "writer_pause_seconds", "How long a change held writers of its topic.", _CHANGE_SECONDS, "kind"
        )
        self._fences = self._counter("fences", "Transactional ids that changes have fenced.")
        self._leaderships = self._counter(
            "controller_leadership_changes", "How often this process began or ceased to lead.", "change"
        )
        for change in ("gained", "lost"):
            self._leaderships.labels(change)
        self._moves = self._counter("reassignment_moves", "Partitions whose move has ended.", "outcome")
        self._moved_bytes = self._counter(
            "reassignment_bytes", "Bytes of replicas that such moves have copied."
        )
        self._reassignments = self._histogram(
            "reassignment_duration_seconds",
            "From request to end of a reassignment.",
            _MOVE_SECONDS,
            "outcome",
        )
        self._audit_failures = self._counter(
            "audit_failures", "Lines of the audit log that could not be written."
        )

    def watch(self, collector: _CollectorT) -> _CollectorT:
        """``collector``, of which the metrics that it collects at each scrape are shown, too."""
        self._registry.register(collector)
        return collector

    def observe_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """``route`` is the template of the path, which bounds the number of label values."""
        method = method if method in _METHODS else "other"
        self._requests.labels(method, route, str(status)).inc()
        self._request_seconds.labels(method, route).observe(seconds)

    def observe_step(self, kind: str, step: str, seconds: float) -> None:
        """A change has left ``step``."""
        self._step_seconds.labels(kind, step).observe(seconds)

    def observe_change(self, finished: FinishedChange) -> None:
        """A change has ended in this process."""
        seconds = max(0.0, finished.finished_at - finished.started_at)
        self._changes.labels(finished.kind, finished.outcome).inc()
        self._change_seconds.labels(finished.kind, finished.outcome).observe(seconds)
        # A change that was cancelled before it closed has delayed no writer.
        if finished.outcome == "done" or finished.writer_pause_seconds > 0.0:
            self._pause.labels(finished.kind).observe(finished.writer_pause_seconds)
        self._fences.inc(finished.fenced)

    def observe_move(self, outcome: str, copied: int) -> None:
        """A partition's move has ended in this process, with so many bytes copied."""
        self._moves.labels(outcome).inc()
        self._moved_bytes.inc(copied)

    def observe_reassignment(self, outcome: str, seconds: float) -> None:
        """A request to reassign partitions has ended in this process."""
        self._reassignments.labels(outcome).observe(seconds)

    def count_misrouted(self, topic: str, records: int) -> None:
        """Count the findings of a reader's task."""
        self._misrouted.labels(topic).inc(records)

    def count_covering(self, topic: str, partitions: int) -> None:
        """A layout was committed that covers so many foreign partitions."""
        self._covered.labels(topic).inc(partitions)

    def count_leadership(self, change: str) -> None:
        """``gained`` or ``lost``."""
        self._leaderships.labels(change).inc()

    def count_audit_failure(self) -> None:
        """A line of the audit log could not be written."""
        self._audit_failures.inc()

    def exposition(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self._registry)

    def _counter(self, name: str, explanation: str, *labels: str) -> Counter:
        return Counter(f"{PREFIX}_{name}", explanation, labels, registry=self._registry)

    def _histogram(self, name: str, explanation: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(f"{PREFIX}_{name}", explanation, labels, buckets=buckets, registry=self._registry)
