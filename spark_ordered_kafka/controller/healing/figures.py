"""Figures of self-healing for Prometheus."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import get_args

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from spark_ordered_kafka.client.schemas.healing import HealingKind
from spark_ordered_kafka.controller.monitoring.metrics import counters, gauges


class HealingFigures(Collector):
    """Findings, proposals and decisions of this process; an outcome is the rule that holds a proposal back, if one does.

    Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found_at = float("-inf")
        self._findings: Counter[str] | None = None
        self._proposals: Counter[tuple[str, str]] = Counter()
        self._decisions: Counter[tuple[str, str]] = Counter()

    def found(self, at: float, kinds: Iterable[str], proposals: Iterable[tuple[str, str]]) -> None:
        """The kinds of all findings there are at a time (seconds since the epoch), and action and outcome of the proposals
        that stand."""
        with self._lock:
            self._found_at = at
            self._findings = Counter(kinds)
            self._proposals = Counter(proposals)

    def decided(self, action: str, outcome: str) -> None:
        """A decision that differs from the one before."""
        with self._lock:
            self._decisions[action, outcome] += 1

    def clear(self, before: float = float("inf")) -> None:
        """Forget what was found ``before`` a time: it may have changed since. Counters stay."""
        with self._lock:
            if self._found_at < before:
                self._findings = None
                self._proposals = Counter()

    def collect(self) -> Iterator[Metric]:
        """Called at each scrape."""
        with self._lock:
            findings, proposals, decisions = self._findings, dict(self._proposals), dict(self._decisions)
        found = gauges(
            "healing_findings", "What self-healing finds not to be as it should be, at the leader.", "kind"
        )
        if findings is not None:
            for kind in get_args(HealingKind):
                found.add_metric([kind], findings[kind])
        about = "Proposals of self-healing that stand, by what became of each, at the leader."
        standing = gauges("healing_proposals", about, "action", "outcome")
        for key, number in sorted(proposals.items()):
            standing.add_metric(list(key), number)
        about = "Decisions of self-healing that differ from the one before."
        made = counters("healing_decisions", about, "action", "outcome")
        for key, number in sorted(decisions.items()):
            made.add_metric(list(key), number)
        yield from (found, standing, made)
