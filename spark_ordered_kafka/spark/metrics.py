"""Metrics of streaming queries for Prometheus, by a listener of Spark's."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID

from prometheus_client import REGISTRY, CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector
from pyspark.sql.streaming import StreamingQueryListener

from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.json_texts import json_value

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        StreamingQueryProgress,
    )

_PREFIX = "ordered_kafka_query"

# Key in a topic's part of the progress -> name and help of its gauge.
_OF_TOPICS = {
    "offsetsBehindLatest": (
        "offsets_behind_latest",
        "Offsets between the end of the last micro-batch and the ends of the topic's logs.",
    ),
    "maxOffsetsBehindLatest": ("max_offsets_behind_latest", "The same of the partition that has most."),
    "partitionsHeldBack": (
        "partitions_held_back",
        "Partitions with records that wait until others are read, for the order of keys.",
    ),
    "layoutEpoch": ("layout_epoch", "The newest layout that the query knows."),
    "partitions": ("partitions", "The partition count of that layout."),
}


@dataclass
class _Run:
    """What is known of a run of a query."""

    id: UUID
    query: str
    rows: int = 0
    batches: int = 0
    seconds: float = 0.0
    input_rate: float = 0.0
    processed_rate: float = 0.0
    stalled: bool = False
    topics: dict[str, dict[str, float]] = field(default_factory=dict)


class OrderedKafkaListener(StreamingQueryListener):
    """Exports rows, batch durations, lag and held partitions of all streaming queries of a session to Prometheus::

        spark.streams.addListener(OrderedKafkaListener(port=9400))

    Rows and durations are there for every query, what is by topic for sources of ``format("ordered-kafka")``. The label
    ``query`` is the name of a query, its id where it has none; with a query end its metrics.

    Args:
        port: serve ``/metrics`` there; 0 is any free port, see :attr:`port`. None: serve nothing.
        registry: of prometheus_client, to which the metrics are added; its default registry if there is no port either,
            and one of their own if there is.
        addr: the address to bind to; all by default, as in prometheus_client.

    Raises:
        ConfigError: the port is none, or taken.
    """

    def __init__(
        self, port: int | None = None, registry: CollectorRegistry | None = None, *, addr: str = "0.0.0.0"
    ) -> None:
        _check_port(port)
        if registry is None:
            registry = REGISTRY if port is None else CollectorRegistry()
        self._registry = registry
        self._runs = _Runs()
        registry.register(self._runs)
        self._server, self.port = None, port
        if port is not None:
            try:
                self._server, self._thread = start_http_server(port, addr, registry)
            except OSError as error:
                registry.unregister(self._runs)
                raise ConfigError("port", port, f"cannot be served on {addr!r}: {error}") from error
            self.port = self._server.server_port

    def close(self) -> None:
        """Serve no more, and take the metrics out of the registry. Remove the listener from the session first."""
        self._registry.unregister(self._runs)
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Spark's call."""
        self._runs.begin(event.runId, event.name or str(event.id))

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Spark's call."""
        self._runs.progress(event.progress)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Spark's call: every ten seconds without a micro-batch, in which the lag may grow nevertheless."""
        query = None if self.spark is None else self.spark.streams.get(str(event.id))
        progress = None if query is None else query.lastProgress
        self._runs.idle(event.runId, progress)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Spark's call."""
        self._runs.end(event.runId)


class _Runs(Collector):
    """The metrics of all queries that run, made by each scrape: of what has ended there is nothing to remove. Those of one session have different names."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: dict[str, _Run] = {}

    def begin(self, run: UUID, query: str) -> None:
        with self._lock:
            # Spark tells of a start at once, of the end of the run before when listeners have taken what came before that.
            self._runs[query] = _Run(run, query)

    def progress(self, progress: StreamingQueryProgress) -> None:
        with self._lock:
            # A listener that is added later has not seen the beginning.
            query = progress.name or str(progress.id)
            run = self._runs.setdefault(query, _Run(progress.runId, query))
            if run.id != progress.runId:
                return
            run.rows += progress.numInputRows
            run.batches += 1
            run.seconds += progress.batchDuration / 1000
            run.input_rate = progress.inputRowsPerSecond
            run.processed_rate = progress.processedRowsPerSecond
            _look(run, progress)

    def idle(self, id_of_run: UUID, progress: StreamingQueryProgress | None) -> None:
        with self._lock:
            run = self._found(id_of_run)
            if run is None:
                return
            run.input_rate = run.processed_rate = 0.0
            if progress is not None:
                _look(run, progress)

    def end(self, run: UUID) -> None:
        with self._lock:
            ended = self._found(run)
            if ended is not None:
                del self._runs[ended.query]

    def _found(self, run: UUID) -> _Run | None:
        return next((one for one in self._runs.values() if one.id == run), None)

    def collect(self) -> Iterator[Metric]:
        """The metrics, as prometheus_client asks for them."""
        with self._lock:
            runs = sorted(self._runs.values(), key=lambda run: run.query)
            yield from _of_queries(runs)
            yield from _of_topics(runs)


def _look(run: _Run, progress: StreamingQueryProgress) -> None:
    """Take what the sources of this package report; see ``spark.progress``."""
    topics: dict[str, dict[str, float]] = {}
    stalled = False
    for source in progress.sources:
        reported = _reported(source.latestOffset)
        stalled = stalled or "noProgress" in reported
        for topic, found in reported.get("topics", {}).items():
            values = topics.setdefault(topic, {})
            for name in _OF_TOPICS:
                # A query may read a topic by several sources.
                summed = name in ("offsetsBehindLatest", "partitionsHeldBack")
                value = found.get(name, 0)
                values[name] = values.get(name, 0) + value if summed else max(values.get(name, 0), value)
    run.topics, run.stalled = topics, stalled


def _reported(latest: str | None) -> Mapping[str, Any]:
    """The report of a source of this package; nothing of any other."""
    try:
        found = json_value(latest or "null")
    except ValueError:
        return {}
    topics = found.get("topics") if isinstance(found, dict) else None
    if not isinstance(topics, dict) or not all(map(_is_topics, topics.values())):
        return {}
    return dict(found)


def _is_topics(topic: object) -> bool:
    if not isinstance(topic, dict) or "layoutEpoch" not in topic:
        return False
    return all(type(topic.get(name, 0)) in (int, float) for name in _OF_TOPICS)


def _of_queries(runs: list[_Run]) -> Iterator[Metric]:
    rows = CounterMetricFamily(f"{_PREFIX}_input_rows", "Rows that were read.", labels=["query"])
    durations = SummaryMetricFamily(
        f"{_PREFIX}_batch_duration_seconds", "How long micro-batches took.", labels=["query"]
    )
    rates = [
        GaugeMetricFamily(
            f"{_PREFIX}_{kind}_rows_per_second", f"{kind}RowsPerSecond of Spark's progress.", labels=["query"]
        )
        for kind in ("input", "processed")
    ]
    stalled = GaugeMetricFamily(
        f"{_PREFIX}_stalled", "1 while something that order needs cannot be known.", labels=["query"]
    )
    for run in runs:
        rows.add_metric([run.query], run.rows)
        durations.add_metric([run.query], run.batches, run.seconds)
        rates[0].add_metric([run.query], run.input_rate)
        rates[1].add_metric([run.query], run.processed_rate)
        stalled.add_metric([run.query], float(run.stalled))
    yield from (rows, durations, *rates, stalled)


def _of_topics(runs: list[_Run]) -> Iterator[Metric]:
    for key, (name, meaning) in _OF_TOPICS.items():
        gauge = GaugeMetricFamily(f"{_PREFIX}_{name}", meaning, labels=["query", "topic"])
        for run in runs:
            for topic, values in run.topics.items():
                gauge.add_metric([run.query, topic], values[key])
        yield gauge


def _check_port(port: int | None) -> None:
    is_number = isinstance(port, int) and not isinstance(port, bool)
    if port is not None and not (is_number and 0 <= port <= 65535):
        raise ConfigError("port", port, "a whole number from 0 (any free port) to 65535")
