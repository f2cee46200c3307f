"""Metrics collected on each scrape: the leader, changes in progress, and the load of the brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import wait
from dataclasses import dataclass
from typing import Generic, TypeVar

from kazoo.client import KazooState
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.monitoring.changes import ChangeObserver
from spark_ordered_kafka.controller.monitoring.metrics import PREFIX, gauges
from spark_ordered_kafka.controller.shared_query import SharedQuery
from spark_ordered_kafka.controller.zk.records import LeaderRecord
from spark_ordered_kafka.kafka.moves import Moves

_SESSION_STATES = {
    "connected": KazooState.CONNECTED,
    "suspended": KazooState.SUSPENDED,
    "lost": KazooState.LOST,
}
_REFRESH_AGE = 15.0
_MAX_AGE = 120.0
_FIRST_WAIT = 1.0

_SampleT = TypeVar("_SampleT")


class Sampled(Generic[_SampleT]):
    """Latest answer of a query, which no scrape waits for."""

    def __init__(self, query: SharedQuery[_SampleT]) -> None:
        self._query = query

    def get(self) -> _SampleT | None:
        """A sample of at most two minutes of age, usually 15 seconds; None without one.

        The first call waits a second for it; later calls return at once.
        """
        age = self._query.age()
        if age is None or age >= _REFRESH_AGE:
            pending = self._query.outcome()
            if age is None or age >= _MAX_AGE:
                wait([pending], _FIRST_WAIT)
        latest, age = self._query.latest, self._query.age()
        return None if latest is None or age is None or age >= _MAX_AGE else latest.value


@dataclass(frozen=True)
class ControllerCollector(Collector):
    """Gauges. Only the leader shows those of the whole cluster, so that sums over all controllers are right.

    ``clock`` gives seconds since the epoch.
    """

    leads: Callable[[], bool]
    leader: Callable[[], LeaderRecord | None]
    session_state: Callable[[], str]
    observer: ChangeObserver
    brokers: Sampled[schemas.BrokerList]
    moves: Sampled[Moves]
    clock: Callable[[], float]

    def collect(self) -> Iterator[Metric]:
        """Called at each scrape."""
        leads, leader = self.leads(), self.leader()
        yield _gauge("controller_is_leader", "1 where this process leads.", float(leads))
        if leader is not None:
            yield _gauge("controller_epoch", "Epoch of the controller that leads.", float(leader.epoch))
        session = gauges("zookeeper_session", "1 for the state that the session is in.", "state")
        state = self.session_state()
        for name, value in _SESSION_STATES.items():
            session.add_metric([name], float(state == value))
        yield session
        running = gauges("changes_running", "Running partition changes of this process.", "kind", "step")
        for (kind, step), count in sorted(self.observer.running().items()):
            running.add_metric([kind, step], count)
        yield running
        ages = gauges("change_age_seconds", "How long the oldest running change has been running.", "kind")
        held = gauges("writers_held_seconds", "How long a running change has held writers by now.", "kind")
        for family, seconds in zip((ages, held), self.observer.ages(self.clock()), strict=True):
            for kind, longest in sorted(seconds.items()):
                family.add_metric([kind], longest)
            yield family
        if leads:
            yield from self._cluster()

    def _cluster(self) -> Iterator[Metric]:
        found = self.brokers.get()
        if found is not None:
            hosted = gauges("broker_partitions", "Replicas that the broker hosts.", "broker")
            limit = gauges("broker_max_partitions", "Replicas that the broker may host.", "broker")
            capacity = gauges("broker_capacity", "Replicas that the broker can still take.", "broker")
            for broker in found.brokers:
                hosted.add_metric([str(broker.id)], broker.hosted)
                limit.add_metric([str(broker.id)], broker.max_partitions)
                capacity.add_metric([str(broker.id)], broker.capacity)
            yield from (hosted, limit, capacity)
        moves = self.moves.get()
        if moves is not None:
            yield _gauge("reassigning_partitions", "Partitions being reassigned.", moves.partitions)
            yield _gauge(
                "reassignment_bytes",
                "Bytes that new replicas will have when they are there.",
                moves.total_bytes,
            )
            yield _gauge("reassignment_copied_bytes", "Bytes of them that are there.", moves.copied_bytes)


def _gauge(name: str, explanation: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{PREFIX}_{name}", explanation, value=value)
