"""Figures of the plain clients for Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from spark_ordered_kafka.extras import require

require("metrics", "ClientMetrics")

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric  # noqa: E402
from prometheus_client.registry import Collector  # noqa: E402

from spark_ordered_kafka.client.counts import WriterCounts  # noqa: E402

if TYPE_CHECKING:
    from spark_ordered_kafka.client.consumer import OrderedConsumer
    from spark_ordered_kafka.client.producer import OrderedProducer

PREFIX = "ordered_kafka"

_Rows = Mapping[tuple[str, ...], float]


class ClientMetrics(Collector):
    """A collector of clients of this process: ``prometheus_client.REGISTRY.register(ClientMetrics(producer, consumer))``.

    Nothing is asked of a server: a scrape reads what the clients know, in any thread. Clients of the same topic, and of the
    same group, are added up. Those that are closed keep their counters.
    """

    def __init__(self, *clients: OrderedProducer | OrderedConsumer) -> None:
        from spark_ordered_kafka.client.consumer import OrderedConsumer

        self._consumers = [client for client in clients if isinstance(client, OrderedConsumer)]
        self._producers = [client for client in clients if not isinstance(client, OrderedConsumer)]

    def collect(self) -> Iterable[Metric]:
        """The metrics, as prometheus_client wants them."""
        if self._producers:
            yield from self._of_producers()
        if self._consumers:
            yield from self._of_consumers()

    def _of_producers(self) -> Iterator[Metric]:
        counts = [row for producer in self._producers for row in producer.counts().items()]

        def summed(of: Callable[[WriterCounts], int]) -> _Rows:
            rows: Counter[tuple[str, ...]] = Counter()
            for name, one in counts:
                rows[name,] += of(one)
            return rows

        pending: Counter[tuple[str, ...]] = Counter()
        for producer in self._producers:
            for name, waiting in producer.pending().items():
                pending[name,] += waiting
        topic = ("topic",)
        yield _counter(
            "producer_records", "Records committed.", topic, summed(lambda one: one.records_committed)
        )
        yield _counter(
            "producer_dropped_records",
            "Records that were given up: aborted, or not committed in time.",
            topic,
            summed(lambda one: one.records_dropped),
        )
        yield _gauge("producer_pending_records", "Records that wait for their commit.", topic, pending)
        outcomes = {
            "committed": summed(lambda one: one.committed),
            "aborted": summed(lambda one: one.aborted),
        }
        yield _counter(
            "producer_transactions",
            "Transactions that ended.",
            ("topic", "outcome"),
            {(*key, outcome): value for outcome, rows in outcomes.items() for key, value in rows.items()},
        )
        yield _counter(
            "producer_layout_changes",
            "Transactions that a partition change made the producer send again.",
            topic,
            summed(lambda one: one.layout_changes),
        )

    def _of_consumers(self) -> Iterator[Metric]:
        records: Counter[tuple[str, ...]] = Counter()
        blocks: Counter[tuple[str, ...]] = Counter()
        rebalances: Counter[tuple[str, ...]] = Counter()
        assigned: Counter[tuple[str, ...]] = Counter()
        blocked: Counter[tuple[str, ...]] = Counter()
        lag: Counter[tuple[str, ...]] = Counter()
        for consumer in self._consumers:
            group, counts = consumer.group, consumer.counts
            records.update({(group, name): count for name, count in counts.records.copy().items()})
            blocks.update({(group, name): count for name, count in counts.blocks.copy().items()})
            rebalances[group,] += counts.rebalances
            for one in consumer.figures():
                assigned[group, one.topic] += 1
                blocked[group, one.topic] += one.is_blocked
                lag[group, one.topic, str(one.partition)] += one.lag
        topic = ("group", "topic")
        yield _counter("consumer_records", "Records delivered.", topic, records)
        yield _gauge("consumer_assigned_partitions", "Partitions assigned.", topic, assigned)
        yield _gauge(
            "consumer_blocked_partitions",
            "Partitions that wait for earlier records of their keys to be processed.",
            topic,
            blocked,
        )
        yield _counter(
            "consumer_blocks",
            "Times that a partition had to wait, because of a partition change.",
            topic,
            blocks,
        )
        yield _counter("consumer_rebalances", "Assignments by the group.", ("group",), rebalances)
        yield _gauge(
            "consumer_lag_records",
            "Offsets between the position and the end of the log, as of the last fetch.",
            (*topic, "partition"),
            lag,
        )


def _counter(name: str, explanation: str, labels: tuple[str, ...], rows: _Rows) -> Metric:
    return _filled(CounterMetricFamily(f"{PREFIX}_{name}", explanation, labels=labels), rows)


def _gauge(name: str, explanation: str, labels: tuple[str, ...], rows: _Rows) -> Metric:
    return _filled(GaugeMetricFamily(f"{PREFIX}_{name}", explanation, labels=labels), rows)


def _filled(family: CounterMetricFamily | GaugeMetricFamily, rows: _Rows) -> Metric:
    for key, value in sorted(rows.items()):
        family.add_metric(key, value)
    return family
