"""Whether the requests of a producer's transactions were all answered.

Only a plugin of librdkafka learns of each at once: the kernel is one. Without it librdkafka's statistics have to do, which
come up to an interval later (D-065).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from spark_ordered_kafka.native.loading import kernel

Poll = Callable[[float], object]
"""Serves the events of a producer, waiting so many seconds for them at most."""

STATISTICS_INTERVAL = 0.1
_PATIENCE = 5 * STATISTICS_INTERVAL
_PLUGINS = "plugin.library.paths"


class Watch(Protocol):
    """Watches the requests of one producer.

    An object of its own: with the producer's owner as callback, both would live on in a cycle (D-120).
    """

    def watching(self, properties: Mapping[str, Any]) -> dict[str, Any]:
        """The producer's properties, with those that make librdkafka report requests."""

    def ended(self, poll: Poll) -> None:
        """A transaction has ended."""

    def all_answered(self, poll: Poll) -> bool:
        """Whether no request, up to the end of the last transaction, went without an answer."""


class CountingWatch:
    """By the kernel: a request whose connection broke, or that timed out, counts before librdkafka sends it again.

    So what was lost in a transaction is known with its outcome.
    """

    def __init__(self, native: Any) -> None:
        self._native = native
        self._counter = native.unanswered_new()

    def watching(self, properties: Mapping[str, Any]) -> dict[str, Any]:
        """See :class:`Watch`."""
        name, value = self._native.unanswered_property(self._counter)
        plugins = [path for path in (properties.get(_PLUGINS), self._native.__file__) if path is not None]
        return {**properties, _PLUGINS: ";".join(plugins), name: value}

    def ended(self, poll: Poll) -> None:
        """See :class:`Watch`."""

    def all_answered(self, poll: Poll) -> bool:
        """See :class:`Watch`."""
        count: int = self._native.unanswered(self._counter)
        return count == 0


class StatisticsWatch:
    """By librdkafka's statistics: waits for a report that was made after the transaction's end."""

    def __init__(self) -> None:
        self._fresh = False
        self._retried = False

    def watching(self, properties: Mapping[str, Any]) -> dict[str, Any]:
        """See :class:`Watch`."""
        return {
            **properties,
            "statistics.interval.ms": round(1000 * STATISTICS_INTERVAL),
            "stats_cb": self._take,
        }

    def ended(self, poll: Poll) -> None:
        """See :class:`Watch`."""
        # Takes the reports queued so far: the next one was made after the end.
        poll(0.0)
        self._fresh = False

    def all_answered(self, poll: Poll) -> bool:
        """See :class:`Watch`."""
        deadline = time.monotonic() + _PATIENCE
        poll(0.0)
        while not self._fresh and time.monotonic() < deadline:
            poll(STATISTICS_INTERVAL)
        return self._fresh and not self._retried

    def _take(self, report: str) -> None:
        self._retried = self._retried or has_retries(json.loads(report))
        self._fresh = True


def has_retries(statistics: Mapping[str, Any]) -> bool:
    """Whether librdkafka's statistics count a request that timed out or was retried."""
    brokers = statistics.get("brokers", {}).values()
    return any(broker.get("txretries", 0) or broker.get("req_timeouts", 0) for broker in brokers)


def watch() -> Watch:
    """By the kernel if it is loaded, else by librdkafka's statistics."""
    native = kernel()
    return StatisticsWatch() if native is None else CountingWatch(native)
