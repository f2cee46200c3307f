"""Which brokers a new partition's replicas go to. PURE.

Rack-aware round-robin as Kafka's ``AdminUtils.assignReplicasToBrokers`` (KIP-36), but deterministic: where Kafka draws
a random start, the start is an argument. Brokers without capacity are left out (KIP-578), and from the partition on where
the round robin would use up capacity that later ones need, the brokers with most room come first (D-223).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush, heapreplace

from spark_ordered_kafka.controller.placement import guards
from spark_ordered_kafka.controller.placement.guards import UNLIMITED, refusal
from spark_ordered_kafka.controller.placement.planner.additional_replicas import add_replicas
from spark_ordered_kafka.controller.placement.planner.checks import check_factor
from spark_ordered_kafka.controller.placement.round_robin import Ring
from spark_ordered_kafka.errors import ErrorCode, RequestError

Bin = int | str
"""A unit of capacity: a broker (its id) or a rack (its name)."""

MAX_PARTITIONS = 200_000
"""Maximum of partitions in one call, which takes some seconds."""


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

    Finds an assignment if there is one, with the replicas of every partition on different racks where that is possible for
    all of them. Raises RequestError: INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR, or GUARD_RAILS when it does not fit.
    """
    check_sizes(len(racks), partitions, replication_factor)
    left = {broker: max(0, (capacity or {}).get(broker, UNLIMITED)) for broker in sorted(racks)}
    if not _fits(left.values(), partitions, replication_factor):
        raise refusal(f"{partitions} partitions with replication factor {replication_factor}", left)
    bins = _bins(racks, left, partitions, replication_factor)
    numbers = range(first, first + partitions)
    placed = _round_robin(racks, left, bins, numbers, replication_factor, start)
    if len(placed) == partitions:
        return placed

    # Once it has left too little room it never leaves enough again, so the longest part that may stay is found by bisection.
    def left_after(count: int) -> Counter[int]:
        return Counter(left) - Counter(broker for replicas in placed[:count] for broker in replicas)

    def stuck_after(count: int) -> bool:
        room = _capacity_of(bins, left_after(count))
        return not _fits(room.values(), partitions - count, replication_factor)

    kept = bisect_left(range(len(placed) + 1), True, key=stuck_after) - 1
    order = Ring({broker: racks[broker] for broker, room in left.items() if room > 0}).order
    rest = _most_room_first(order, left_after(kept), bins, numbers[kept:], replication_factor, start)
    return [*placed[:kept], *rest]


def check_sizes(brokers: int, partitions: int, replication_factor: int) -> None:
    """Raises RequestError INVALID_PARTITIONS or INVALID_REPLICATION_FACTOR for sizes that no capacity allows."""
    if not 1 <= partitions <= MAX_PARTITIONS:
        raise RequestError(
            ErrorCode.INVALID_PARTITIONS,
            f"partitions has the value {partitions}: at least 1 is needed, and {MAX_PARTITIONS} at most in one request",
        )
    check_factor(replication_factor, brokers)


def continue_placement(
    racks: Mapping[int, str | None],
    existing: Mapping[int, Sequence[int]],
    partitions: int,
    *,
    capacity: Mapping[int, int] | None = None,
) -> list[list[int]]:
    """Replica lists for ``partitions`` further partitions of a topic with the assignment ``existing``.

    The replication factor is that of partition 0, and the round robin continues from its first replica, as
    ``kafka-topics --alter`` does. Where fewer brokers are up than that, each partition has a replica on all of them, and
    the others on brokers of partition 0 that are down (D-415). Raises RequestError as :func:`place` does.
    """
    down = _down(racks, existing[0])
    if down:
        guards.check(f"{partitions} partitions", Counter(dict.fromkeys(down, partitions)), capacity or {})
    start = start_at(racks, existing[0][0])
    up = len(existing[0]) - len(down)
    placed = place(racks, partitions, up, first=len(existing), start=start, capacity=capacity)
    return [[*replicas, *down] for replicas in placed]


def place_again(
    racks: Mapping[int, str | None],
    first: Sequence[int],
    current: Mapping[int, Sequence[int]],
    *,
    capacity: Mapping[int, int] | None = None,
) -> dict[int, list[int]]:
    """Replica lists for existing partitions of a topic whose partition 0 has the replicas ``first``.

    ``current`` maps partition -> its replicas, fewer than needed. Each partition gets the replicas of
    :func:`continue_placement`, as if added now; where ``capacity`` does not allow that for all of them, each keeps its
    replicas and gets the missing ones (D-177). Raises RequestError as :func:`place`.
    """
    down = _down(racks, first)
    up = len(first) - len(down)
    check_sizes(len(racks), max(1, len(current)), up)
    ring = Ring(racks)
    start = start_at(racks, first[0])
    wanted = {partition: [*ring.replicas(partition, up, start), *down] for partition in current}
    room = {} if capacity is None else capacity
    if not guards.lacking(guards.added(current, wanted), room):
        return wanted
    kept = {p: [broker for broker in brokers[:up] if broker in racks] for p, brokers in current.items()}
    placed = add_replicas(racks, kept, up, capacity=room)
    wanted = {partition: [*replicas, *down] for partition, replicas in placed.items()}
    guards.check(f"{len(wanted)} partitions", guards.added(current, wanted), room)
    return wanted


def _down(racks: Mapping[int, str | None], first: Sequence[int]) -> list[int]:
    """Those of partition 0's replicas ``first`` that are down and needed all the same, since too few brokers are up."""
    missing = max(0, len(first) - len(racks))
    return [broker for broker in first if broker not in racks][:missing]


def start_at(racks: Mapping[int, str | None], leader: int) -> int:
    """The index at which the round robin of a topic began, given the preferred leader of its partition 0."""
    return Ring(racks).index_of(leader) if racks else 0


def _round_robin(
    racks: Mapping[int, str | None],
    capacity: Mapping[int, int],
    bins: Mapping[int, Bin],
    partitions: range,
    factor: int,
    start: int,
) -> list[list[int]]:
    """Kafka's round robin without the brokers that are full, up to the first partition that it gives too few ``bins``."""
    left = dict(capacity)
    placed: list[list[int]] = []
    ring: Ring | None = None
    for partition in partitions:
        if ring is None:
            ring = Ring({broker: racks[broker] for broker, room in left.items() if room > 0})
        if len(ring.order) < factor:
            break
        replicas = ring.replicas(partition, factor, start)
        if len({bins[broker] for broker in replicas}) < factor:
            break
        placed.append(replicas)
        for broker in replicas:
            left[broker] -= 1
            if left[broker] == 0:
                ring = None
    return placed


def _most_room_first(
    order: Sequence[int],
    left: Mapping[int, int],
    bins: Mapping[int, Bin],
    partitions: range,
    factor: int,
    start: int,
) -> Iterator[list[int]]:
    """Replicas in the ``factor`` bins with most room, which leaves room for all later partitions if there is any.

    The preferred leader is the broker that leads fewest of these partitions. Ties, and followers, go by ``order``.
    """
    turns: dict[Bin, list[tuple[int, int]]] = {}  # a heap of (-room, index in order)
    for turn, broker in enumerate(order):
        turns.setdefault(bins[broker], []).append((-left[broker], turn))
    by_room = [(sum(room for room, _ in own), own[0][1], own) for own in turns.values()]
    heapify(by_room)
    for own in turns.values():
        heapify(own)
    led = [0] * len(order)
    for partition in partitions:
        replicas = []
        for room, first, own in [heappop(by_room) for _ in range(factor)]:
            heappush(by_room, (room + 1, first, own))
            replicas.append(own[0][1])
            heapreplace(own, (own[0][0] + 1, own[0][1]))
        replicas.sort(key=lambda turn: (turn - partition - start) % len(order))
        leader = min(replicas, key=lambda turn: led[turn])
        led[leader] += 1
        yield [order[leader], *(order[turn] for turn in replicas if turn != leader)]


def _bins(
    racks: Mapping[int, str | None], left: Mapping[int, int], partitions: int, factor: int
) -> dict[int, Bin]:
    """What keeps replicas of a partition apart: racks where possible throughout, brokers otherwise.

    r replicas each of P partitions fit into different bins iff ``sum(min(room, P))`` is at least ``P * r``.
    """
    usable = {broker: rack for broker, rack in racks.items() if left[broker] > 0}
    by_rack: dict[int, Bin] = {broker: rack for broker, rack in usable.items() if rack is not None}
    if len(by_rack) == len(usable) and _fits(_capacity_of(by_rack, left).values(), partitions, factor):
        return by_rack
    return {broker: broker for broker in racks}


def _capacity_of(bins: Mapping[int, Bin], left: Mapping[int, int]) -> dict[Bin, int]:
    """Room of each bin."""
    capacity: dict[Bin, int] = {}
    for broker, name in bins.items():
        capacity[name] = capacity.get(name, 0) + left[broker]
    return capacity


def _fits(capacity: Iterable[int], partitions: int, factor: int) -> bool:
    """Whether ``factor`` replicas of each partition fit into different bins of this ``capacity``."""
    return sum(min(room, partitions) for room in capacity) >= partitions * factor
