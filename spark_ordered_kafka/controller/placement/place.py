"""Which brokers a new partition's replicas go to. PURE.

Rack-aware round-robin as Kafka's ``AdminUtils.assignReplicasToBrokers`` (KIP-36), but deterministic: where Kafka draws
a random start, the start is an argument. Brokers without capacity are left out (KIP-578), and the round robin is left
where going on with it would use up what later partitions need.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from spark_ordered_kafka.controller.placement.additional_replicas import widen
from spark_ordered_kafka.controller.placement.guards import UNLIMITED, added, refusal
from spark_ordered_kafka.controller.placement.round_robin import Bin, Ring
from spark_ordered_kafka.errors import ErrorCode, RequestError

MAX_PARTITIONS = 200_000
"""Partitions that one call plans; that many take some seconds."""


def place(
    racks: Mapping[int, str | None],
    partitions: int,
    replication_factor: int,
    *,
    first: int = 0,
    start: int = 0,
    capacity: Mapping[int, int] | None = None,
) -> list[list[int]]:
    """Replica lists (broker ids, preferred leader first) for ``partitions`` new partitions.

    ``racks`` maps broker id -> rack (None: not set); racks are respected when every broker has one, as in Kafka.
    ``first`` is the number of the first new partition and ``start`` the broker's index that partition 0 begins at,
    so that an expansion continues a topic's round robin. ``capacity`` maps broker id -> replicas it may still take;
    a missing broker is unlimited, one without capacity is left out.

    What can be placed at all is placed; and with the replicas of every partition on different racks, where that is
    possible for all of them. Raises RequestError: INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR, or GUARD_RAILS when it
    does not fit.
    """
    check_sizes(len(racks), partitions, replication_factor)
    left = {broker: max(0, (capacity or {}).get(broker, UNLIMITED)) for broker in sorted(racks)}
    if not _fits(left.values(), partitions, replication_factor):
        raise refusal(f"{partitions} partitions with replication factor {replication_factor}", left)
    bins = _bins(racks, left, partitions, replication_factor)
    look_ahead = _LookAhead(left, bins, partitions, replication_factor)
    assignments: list[list[int]] = []
    usable: Ring | None = None
    for partition in range(first, first + partitions):
        if usable is None:
            usable = Ring({broker: racks[broker] for broker, room in left.items() if room > 0}, bins)
        replicas = usable.replicas(partition, replication_factor, start)
        needed = look_ahead.needed
        if sum(bins[broker] in look_ahead.full for broker in replicas) < needed:
            replicas = usable.replicas(partition, replication_factor, start, look_ahead.full, needed)
        assignments.append(replicas)
        look_ahead.take([bins[broker] for broker in replicas])
        for broker in replicas:
            left[broker] -= 1
            if left[broker] == 0:
                usable = None
    return assignments


def check_sizes(brokers: int, partitions: int, replication_factor: int) -> None:
    """Raises RequestError INVALID_PARTITIONS or INVALID_REPLICATION_FACTOR for what no capacity could make possible."""
    if not 1 <= partitions <= MAX_PARTITIONS:
        raise RequestError(
            ErrorCode.INVALID_PARTITIONS,
            f"partitions has the value {partitions}: at least 1 is needed, and {MAX_PARTITIONS} at most in one request",
        )
    if not 1 <= replication_factor <= brokers:
        raise RequestError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"replication_factor has the value {replication_factor}: with {brokers} brokers it must be "
            f"between 1 and {brokers}",
        )


def continue_placement(
    racks: Mapping[int, str | None],
    existing: Mapping[int, Sequence[int]],
    partitions: int,
    *,
    capacity: Mapping[int, int] | None = None,
) -> list[list[int]]:
    """Replica lists for ``partitions`` further partitions of a topic with the assignment ``existing``.

    The replication factor is that of partition 0, and the round robin goes on from its first replica, as
    ``kafka-topics --alter`` does. Raises RequestError as :func:`place` does.
    """
    start = start_at(racks, existing[0][0])
    return place(racks, partitions, len(existing[0]), first=len(existing), start=start, capacity=capacity)


def place_again(
    racks: Mapping[int, str | None],
    first: Sequence[int],
    current: Mapping[int, Sequence[int]],
    *,
    capacity: Mapping[int, int] | None = None,
) -> dict[int, list[int]]:
    """Replica lists for existing partitions of a topic whose partition 0 has the replicas ``first``.

    ``current`` maps partition -> its replicas of now, fewer than it is to have. Each gets those of
    :func:`continue_placement` had the partition been added now; where ``capacity`` does not allow that for all of them,
    each keeps what it has and gets as many more as are missing. Raises RequestError as :func:`place`.
    """
    check_sizes(len(racks), max(1, len(current)), len(first))
    ring = Ring(racks, {broker: broker for broker in racks})
    start = start_at(racks, first[0])
    wanted = {partition: ring.replicas(partition, len(first), start) for partition in current}
    room = {} if capacity is None else capacity
    if all(more <= room.get(broker, UNLIMITED) for broker, more in added(current, wanted).items()):
        return wanted
    kept = {partition: brokers[: len(first)] for partition, brokers in current.items()}
    return widen(racks, kept, len(first), capacity=room)


def start_at(racks: Mapping[int, str | None], leader: int) -> int:
    """The index that the round robin of a topic began at whose partition 0 has the preferred leader ``leader``."""
    return Ring(racks, {}).index_of(leader) if racks else 0


class _LookAhead:
    """How many of a partition's replicas must go where, so that what is left goes on being enough for the rest.

    Bins are brokers, or racks; r replicas each of P partitions fit into different bins iff ``sum(min(capacity, P))`` is
    at least ``P * r``. A bin is *full-time* when it has capacity for every partition that is left: of these, and only of
    these, passing one over wastes capacity, so the sum says how many may be passed over.

    ``full``: the full-time bins; ``needed``: how many of them the next partition must use.
    """

    def __init__(
        self, left: Mapping[int, int], bins: Mapping[int, Bin], partitions: int, factor: int
    ) -> None:
        capacity = _capacity_of(bins, left)
        self._remaining = partitions
        self._factor = factor
        self._slack = sum(min(room, partitions) for room in capacity.values()) - partitions * factor
        self.full = {name for name, room in capacity.items() if room >= partitions}
        self._part = {name: room for name, room in capacity.items() if room < partitions}
        self._by_room: dict[int, set[Bin]] = {}
        for name, room in self._part.items():
            self._by_room.setdefault(room, set()).add(name)

    @property
    def needed(self) -> int:
        return max(0, len(self.full) - self._slack)

    def take(self, names: Iterable[Bin]) -> None:
        """The next partition's replicas go there."""
        self._slack += self._factor - len(self.full)
        self._remaining -= 1
        for name in names:
            if name in self._part:
                room = self._part[name]
                self._part[name] = room - 1
                self._by_room[room].discard(name)
                self._by_room.setdefault(room - 1, set()).add(name)
                self._slack -= 1
        for name in self._by_room.pop(self._remaining, ()):
            del self._part[name]
            self.full.add(name)


def _bins(
    racks: Mapping[int, str | None], left: Mapping[int, int], partitions: int, factor: int
) -> dict[int, Bin]:
    """What replicas of a partition are kept apart by: racks where that is possible throughout, brokers otherwise."""
    usable = {broker: rack for broker, rack in racks.items() if left[broker] > 0}
    by_rack: dict[int, Bin] = {broker: rack for broker, rack in usable.items() if rack is not None}
    if len(by_rack) == len(usable) and _fits(_capacity_of(by_rack, left).values(), partitions, factor):
        return by_rack
    return {broker: broker for broker in racks}


def _capacity_of(bins: Mapping[int, Bin], left: Mapping[int, int]) -> dict[Bin, int]:
    capacity: dict[Bin, int] = {}
    for broker, name in bins.items():
        capacity[name] = capacity.get(name, 0) + left[broker]
    return capacity


def _fits(capacity: Iterable[int], partitions: int, factor: int) -> bool:
    return sum(min(room, partitions) for room in capacity) >= partitions * factor
