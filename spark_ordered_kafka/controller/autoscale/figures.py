"""Figures of automatic partition counts for Prometheus."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from spark_ordered_kafka.controller.monitoring.metrics import counters, gauges


class AutoscaleFigures(Collector):
    """Counts and decisions of this process, by topic. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, tuple[str, int, int]] = {}
        self._decisions: Counter[tuple[str, str, str]] = Counter()

    def observed(self, topic: str, mode: str, count: int, target: int) -> None:
        """A topic in ``mode`` has ``count`` partitions, and its load warrants ``target``."""
        with self._lock:
            self._counts[topic] = (mode, count, target)

    def decided(self, topic: str, action: str, outcome: str) -> None:
        """A decision that differs from the one before; ``outcome`` is the rule that held it back, if one did."""
        with self._lock:
            self._decisions[topic, action, outcome] += 1

    def forget(self, topic: str) -> None:
        """The topic has left management."""
        with self._lock:
            self._counts.pop(topic, None)
            for key in [key for key in self._decisions if key[0] == topic]:
                del self._decisions[key]

    def clear(self) -> None:
        """This process does not lead any more; counters stay."""
        with self._lock:
            self._counts.clear()

    def collect(self) -> Iterator[Metric]:
        """Called at each scrape."""
        with self._lock:
            counts, decisions = dict(self._counts), dict(self._decisions)
        actual = gauges("autoscale_partitions", "Partitions of a topic that is observed.", "topic", "mode")
        proposed = gauges(
            "autoscale_proposed_partitions", "Partitions that its load warrants.", "topic", "mode"
        )
        for topic, (mode, count, target) in sorted(counts.items()):
            actual.add_metric([topic, mode], count)
            proposed.add_metric([topic, mode], target)
        about = "Decisions that differ from the one before."
        made = counters("autoscale_decisions", about, "topic", "action", "outcome")
        for key, number in sorted(decisions.items()):
            made.add_metric(list(key), number)
        yield from (actual, proposed, made)
