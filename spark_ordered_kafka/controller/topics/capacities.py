"""Capacity of brokers: the limits, less Kafka's replicas and the reservations for plans under way."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.placement import guards
from spark_ordered_kafka.controller.state.broker_limits import BrokerLimits
from spark_ordered_kafka.errors import OrderedKafkaError, invalid_request
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.log_dir_requests import LogDirs
from spark_ordered_kafka.listed import listed

# Seconds that a reservation outlasts its request: brokers learn of new replicas one after another.
_GRACE_PERIOD = 5.0
# Seconds. Of a broker that does not answer it is not known, and what is placed there waits for that broker anyway.
_CORDONED_TIMEOUT = 2.0
_SHOWN = 20

Replicas = Mapping[int, Sequence[int]]
"""Partition -> brokers."""


@dataclass(frozen=True)
class Headroom:
    """Input of a plan: racks of the live brokers, and broker -> replicas it may still take.

    A broker that is missing in ``capacity`` has no limit; one that is down and has replicas is there, too. ``cordoned`` ones
    take what a request names them for, as in Kafka, but are not chosen (KIP-1066).
    """

    racks: Mapping[int, str | None]
    capacity: Mapping[int, int]
    cordoned: frozenset[int] = frozenset()

    @property
    def chosen_capacity(self) -> dict[int, int]:
        """Broker -> replicas that may be placed there by choice."""
        return {**self.capacity, **dict.fromkeys(self.cordoned, 0)}


@dataclass
class _Reservation:
    """``replicas`` by topic."""

    replicas: Mapping[str, Replicas]
    ended: float | None = None


class Capacities:
    """Reserves capacity for plans, one plan at a time, so that no two use the same capacity.

    A plan's replicas are reserved for its owner until :meth:`done` or :meth:`drop`. Reservations are kept in memory: the next
    controller checks again what it resumes (D-176). ``clock`` is monotonic, in seconds.

    Methods raise UnavailableError when Kafka or ZooKeeper does not answer.
    """

    def __init__(self, admin: KafkaAdmin, limits: BrokerLimits, clock: Callable[[], float]) -> None:
        self._admin = admin
        self._limits = limits
        self._clock = clock
        self._log_dirs = LogDirs(admin.requests, timeout=_CORDONED_TIMEOUT)
        self._lock = threading.Lock()  # guards _reservations
        self._planning = threading.Lock()
        self._reservations: dict[str, _Reservation] = {}

    def reserve(
        self, owner: str, topic: str, plan: Callable[[Headroom], dict[int, list[int]]]
    ) -> dict[int, list[int]]:
        """Let ``plan`` make an assignment (partition -> brokers) for ``topic``, and reserve its capacity for ``owner``.

        ``plan`` refuses by raising; then nothing changes. The owner's former reservation counts as free, and is replaced.
        """
        planned: dict[int, list[int]] = {}

        def plan_one(headroom: Headroom) -> Mapping[str, Replicas]:
            planned.update(plan(headroom))
            return {topic: planned}

        self.reserve_all(owner, plan_one)
        return planned

    def reserve_all(self, owner: str, plan: Callable[[Headroom], Mapping[str, Replicas]]) -> None:
        """As :meth:`reserve`, for partitions of several topics: ``plan`` returns the replicas by topic."""
        with self._planning:
            headroom = self.headroom(owner)
            with guards.naming_cordoned(headroom.cordoned):
                replicas = plan(headroom)
            with self._lock:
                self._expire()
            self.restore_reservation(owner, replicas)

    def restore_reservation(self, owner: str, replicas: Mapping[str, Replicas]) -> None:
        """Restore the reservation that an earlier controller made for ``owner``: replicas by topic."""
        with self._lock:
            self._reservations[owner] = _Reservation(replicas)

    def transfer(self, owner: str, to: str) -> None:
        """Transfer the reservation of ``owner`` to ``to``."""
        with self._lock:
            reservation = self._reservations.pop(owner, None)
            if reservation is not None:
                self._reservations[to] = reservation

    def done(self, owner: str) -> None:
        """The replicas reserved for ``owner`` are requested from Kafka, and will soon show up at every broker."""
        with self._lock:
            reservation = self._reservations.get(owner)
            if reservation is not None and reservation.ended is None:
                reservation.ended = self._clock()

    def drop(self, owner: str) -> None:
        """Release what is reserved for ``owner``: it is not used."""
        with self._lock:
            self._reservations.pop(owner, None)

    @contextmanager
    def ending(self, owner: str) -> Iterator[None]:
        """Ends the reservations that ``owner`` makes inside: drops them on a fatal error, else as :meth:`done`."""
        try:
            yield
        except OrderedKafkaError as error:
            if not error.retriable:
                self.drop(owner)
            raise
        finally:
            self.done(owner)

    def forget(self, topic: str) -> None:
        """Drop the topic's part of all reservations, after its deletion."""
        with self._lock:
            for reservation in self._reservations.values():
                if reservation.ended is not None:
                    reservation.replicas = {
                        name: r for name, r in reservation.replicas.items() if name != topic
                    }

    def headroom(self, owner: str = "") -> Headroom:
        """Free capacity for ``owner``, including its own reservation."""
        limits = self._limits.read()
        found = self.without_limits()
        if limits.unlimited:
            return found
        hosted = self._hosted(owner)
        known = found.racks.keys() | hosted.keys()
        capacity = guards.capacities({broker: limits.of(broker) for broker in known}, hosted)
        return replace(found, capacity=capacity)

    def without_limits(self) -> Headroom:
        """As :meth:`headroom`, if no broker had a limit."""
        racks = {broker.id: broker.rack for broker in self._admin.brokers()}
        return Headroom(racks, {}, self._log_dirs.cordoned(racks))

    def brokers(self) -> schemas.BrokerList:
        """The live brokers, and those that have replicas or a limit of their own."""
        return schemas.BrokerList(brokers=list(self._views().values()))

    def set_limit(
        self, broker: int, max_partitions: int | None, *, validate_only: bool = False
    ) -> schemas.BrokerView:
        """Limit a broker to ``max_partitions`` replicas, None: to the default; returns the changed broker.

        Existing replicas beyond the limit stay. Raises RequestError INVALID_REQUEST for a broker that :meth:`brokers` lacks.
        """
        views = self._views()
        if broker not in views:
            raise invalid_request(
                f"broker has the value {broker}: known are {listed(list(views), _SHOWN)}",
            )
        view = views[broker]
        if not validate_only:
            self._limits.set(broker, view.rack, max_partitions)
        limit = self._limits.default if max_partitions is None else max_partitions
        return _view(broker, view.rack, view.alive, view.hosted, limit, view.cordoned)

    def _views(self) -> dict[int, schemas.BrokerView]:
        limits = self._limits.read()
        up = self.without_limits()
        hosted = self._hosted("")
        records = limits.records
        # Kafka does not return the rack of a broker that is down.
        racks = {broker: record.rack for broker, record in records.items()} | dict(up.racks)
        return {
            broker: _view(
                broker,
                racks.get(broker),
                broker in up.racks,
                hosted.get(broker, 0),
                limits.of(broker),
                broker in up.cordoned,
            )
            for broker in sorted(up.racks.keys() | records.keys() | hosted.keys())
        }

    def _hosted(self, owner: str) -> Mapping[int, int]:
        # Reservations first: one that ends in between is either still in this list or already visible in Kafka.
        reservations = self._current(owner)
        topics = self._admin.describe_topics()
        hosted = guards.hosted(row.replicas for topic in topics.values() for row in topic.partitions)
        for topic in {topic for reservation in reservations for topic in reservation.replicas}:
            rows = topics[topic].partitions if topic in topics else ()
            counted = {row.partition: set(row.replicas) for row in rows}
            for reservation in reservations:
                reserved = reservation.replicas.get(topic, {})
                hosted.update(guards.added(counted, reserved))
                for partition, replicas in reserved.items():
                    counted.setdefault(partition, set()).update(replicas)
        return hosted

    def _current(self, owner: str) -> list[_Reservation]:
        """Reservations of others than ``owner`` that Kafka may not show yet."""
        with self._lock:
            self._expire()
            return [reservation for name, reservation in self._reservations.items() if name != owner]

    def _expire(self) -> None:
        """Drop reservations that ended so long ago that every broker shows their replicas."""
        now = self._clock()
        for owner, reservation in list(self._reservations.items()):
            if reservation.ended is not None and now >= reservation.ended + _GRACE_PERIOD:
                del self._reservations[owner]


def _view(
    broker: int, rack: str | None, alive: bool, hosted: int, limit: int, cordoned: bool
) -> schemas.BrokerView:
    return schemas.BrokerView(
        id=broker,
        rack=rack,
        alive=alive,
        hosted=hosted,
        max_partitions=limit,
        capacity=max(0, limit - hosted),
        excess=max(0, hosted - limit),
        cordoned=cordoned,
    )
