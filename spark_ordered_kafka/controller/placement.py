"""Which brokers a partition's replicas go to. PURE.

Rack-aware round-robin as Kafka's ``AdminUtils.assignReplicasToBrokers`` (KIP-36), but deterministic: where Kafka draws
a random start, the start is an argument. Brokers without capacity are left out (KIP-578).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spark_ordered_kafka.errors import ErrorCode, RequestError

UNLIMITED = 2**31 - 1


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
    Raises RequestError: INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR, or GUARD_RAILS when it does not fit.
    """
    if partitions < 1:
        raise RequestError(
            ErrorCode.INVALID_PARTITIONS, f"partitions has the value {partitions}: at least 1 is needed"
        )
    if not 1 <= replication_factor <= len(racks):
        raise RequestError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"replication_factor has the value {replication_factor}: with {len(racks)} brokers it must be "
            f"between 1 and {len(racks)}",
        )
    left = {broker: (capacity or {}).get(broker, UNLIMITED) for broker in racks}
    assignments: list[list[int]] = []
    usable: list[int] = []
    for partition in range(first, first + partitions):
        if partition == first or any(left[broker] < 1 for broker in usable):
            usable = [broker for broker in racks if left[broker] > 0]
        if len(usable) < replication_factor:
            shown = ", ".join(
                f"broker {b}: {max(0, (capacity or {}).get(b, UNLIMITED))}" for b in sorted(racks)
            )
            raise RequestError(
                ErrorCode.GUARD_RAILS,
                f"{partitions} partitions with replication factor {replication_factor} do not fit the brokers' "
                f"capacity ({shown})",
            )
        replicas = _replicas(
            {broker: racks[broker] for broker in usable}, partition, replication_factor, start
        )
        for broker in replicas:
            left[broker] -= 1
        assignments.append(replicas)
    return assignments


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
    start = _start(racks, existing[0][0])
    return place(racks, partitions, len(existing[0]), first=len(existing), start=start, capacity=capacity)


def place_again(
    racks: Mapping[int, str | None], first: Sequence[int], partitions: Sequence[int]
) -> dict[int, list[int]]:
    """Replica lists for existing ``partitions`` of a topic whose partition 0 has the replicas ``first``.

    Each is that of :func:`continue_placement` had the partition been added now. Raises RequestError as :func:`place`.
    """
    start = _start(racks, first[0])
    return {p: place(racks, 1, len(first), first=p, start=start)[0] for p in partitions}


def _start(racks: Mapping[int, str | None], leader: int) -> int:
    order = _broker_order(racks)
    if leader in order:
        return order.index(leader)
    # A leader that is not among the live brokers gives no position; Kafka starts at the next id then.
    return next((i for i, broker in enumerate(order) if broker >= leader), 0)


def _replicas(racks: Mapping[int, str | None], partition: int, factor: int, start: int) -> list[int]:
    order = _broker_order(racks)
    count = len(order)
    leader = (partition + start) % count
    shift = start + partition // count
    replicas = [order[leader]]
    if not _has_racks(racks):
        replicas += [order[_replica_index(leader, shift, j, count)] for j in range(factor - 1)]
        return replicas
    rack_count = len(set(racks.values()))
    used_racks = {racks[order[leader]]}
    step = 0
    while len(replicas) < factor:
        broker = order[_replica_index(leader, shift * rack_count, step, count)]
        step += 1
        # Every rack gets a replica before one gets a second, and no broker gets two. This ends: the index runs
        # through all other brokers, so through all racks.
        if broker in replicas or (racks[broker] in used_racks and len(used_racks) < rack_count):
            continue
        replicas.append(broker)
        used_racks.add(racks[broker])
    return replicas


def _replica_index(leader: int, shift: int, replica: int, count: int) -> int:
    if count == 1:
        return 0
    return (leader + 1 + (shift + replica) % (count - 1)) % count


def _has_racks(racks: Mapping[int, str | None]) -> bool:
    return all(rack is not None for rack in racks.values())


def _broker_order(racks: Mapping[int, str | None]) -> list[int]:
    """Brokers by id, or rack by rack in turn (KIP-36's getRackAlternatedBrokerList)."""
    if not _has_racks(racks):
        return sorted(racks)
    by_rack: dict[str | None, list[int]] = {}
    for broker in sorted(racks):
        by_rack.setdefault(racks[broker], []).append(broker)
    names = sorted(by_rack, key=str)
    longest = max((len(brokers) for brokers in by_rack.values()), default=0)
    return [by_rack[name][i] for i in range(longest) for name in names if i < len(by_rack[name])]
