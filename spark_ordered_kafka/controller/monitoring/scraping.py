"""What the controller finds out when Prometheus asks: who leads, what goes on, and the load of the brokers."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from kazoo.client import KazooState
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.monitoring.changes import ChangeObserver
from spark_ordered_kafka.controller.monitoring.metrics import PREFIX
from spark_ordered_kafka.controller.zk.records import LeaderRecord
from spark_ordered_kafka.errors import OrderedKafkaError
from spark_ordered_kafka.kafka.moves import Moves

_log = logging.getLogger(__name__)
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
    """What ``take`` returned lately. It is called in a thread of its own, so that no scrape waits for a slow broker.

    Args:
        name: for the log.
        clock: a monotonic clock in seconds.
    """

    def __init__(self, name: str, take: Callable[[], _SampleT], clock: Callable[[], float]) -> None:
        self._name = name
        self._take = take
        self._clock = clock
        self._lock = threading.Lock()
        self._latest: tuple[_SampleT, float] | None = None
        self._taking: threading.Thread | None = None

    def get(self) -> _SampleT | None:
        """A sample of at most two minutes of age, usually of 15 seconds; None while there is none.

        The first call waits a second for it; every other one returns what there is.
        """
        latest = self._latest
        age = None if latest is None else self._clock() - latest[1]
        if age is None or age >= _REFRESH_AGE:
            taking = self._begin()
            if age is None or age >= _MAX_AGE:
                taking.join(_FIRST_WAIT)
        latest = self._latest
        if latest is None or self._clock() - latest[1] >= _MAX_AGE:
            return None
        return latest[0]

    def _begin(self) -> threading.Thread:
        with self._lock:
            if self._taking is None or not self._taking.is_alive():
                self._taking = threading.Thread(
                    target=self._refresh, name=f"sample-{self._name}", daemon=True
                )
                self._taking.start()
            return self._taking

    def _refresh(self) -> None:
        began = self._clock()
        try:
            self._latest = (self._take(), began)
        except OrderedKafkaError as error:
            _log.info("no figures of %s: %s", self._name, error)


@dataclass(frozen=True)
class ControllerCollector(Collector):
    """Gauges of the moment. What is about the whole cluster is shown by the controller that leads alone, so that sums over
    all controllers are right."""

    leads: Callable[[], bool]
    leader: Callable[[], LeaderRecord | None]
    session_state: Callable[[], str]
    observer: ChangeObserver
    brokers: Sampled[schemas.BrokerList]
    moves: Sampled[Moves]

    def describe(self) -> Iterator[Metric]:
        """None: that what is shown has unique names is seen when it is collected."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Called at each scrape."""
        leads, leader = self.leads(), self.leader()
        yield _gauge("controller_is_leader", "1 where this process leads.", float(leads))
        if leader is not None:
            yield _gauge("controller_epoch", "Epoch of the controller that leads.", float(leader.epoch))
        session = _family("zookeeper_session", "1 for the state that the session is in.", "state")
        state = self.session_state()
        for name, value in _SESSION_STATES.items():
            session.add_metric([name], float(state == value))
        yield session
        running = _family("changes_running", "Changes of layout that go on here.", "kind", "step")
        for (kind, step), count in sorted(self.observer.running().items()):
            running.add_metric([kind, step], count)
        yield running
        if leads:
            yield from self._cluster()

    def _cluster(self) -> Iterator[Metric]:
        found = self.brokers.get()
        if found is not None:
            hosted = _family("broker_partitions", "Replicas that the broker hosts.", "broker")
            limit = _family("broker_max_partitions", "Replicas that the broker may host.", "broker")
            capacity = _family("broker_capacity", "Replicas that the broker can still take.", "broker")
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


def _family(name: str, explanation: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{PREFIX}_{name}", explanation, labels=labels)


def _gauge(name: str, explanation: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{PREFIX}_{name}", explanation, value=value)
