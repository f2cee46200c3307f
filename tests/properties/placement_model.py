"""What placement is compared with: Kafka's algorithm written down directly, and an exhaustive search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import combinations

Racks = Mapping[int, str | None]


def round_robin(
    racks: Racks, partitions: int, factor: int, first: int, start: int, capacity: Mapping[int, int]
) -> list[list[int]] | None:
    """``AdminUtils.assignReplicasToBrokers`` (KIP-36), brokers that are full left out as it goes on; None: it is stuck.

    Partition by partition, the brokers put in order anew each time.
    """
    left = dict(capacity)
    assignments = []
    for partition in range(first, first + partitions):
        usable = {broker: rack for broker, rack in racks.items() if left[broker] > 0}
        if len(usable) < factor:
            return None
        replicas = _replicas(usable, partition, factor, start)
        for broker in replicas:
            left[broker] -= 1
        assignments.append(replicas)
    return assignments


def _replicas(racks: Racks, partition: int, factor: int, start: int) -> list[int]:
    order = broker_order(racks)
    count = len(order)
    leader = (partition + start) % count
    shift = start + partition // count
    replicas = [order[leader]]
    if None in racks.values():
        return replicas + [order[_replica_index(leader, shift, j, count)] for j in range(factor - 1)]
    rack_count = len(set(racks.values()))
    used_racks = {racks[order[leader]]}
    step = 0
    while len(replicas) < factor:
        broker = order[_replica_index(leader, shift * rack_count, step, count)]
        step += 1
        if broker in replicas or (racks[broker] in used_racks and len(used_racks) < rack_count):
            continue
        replicas.append(broker)
        used_racks.add(racks[broker])
    return replicas


def _replica_index(leader: int, shift: int, replica: int, count: int) -> int:
    return 0 if count == 1 else (leader + 1 + (shift + replica) % (count - 1)) % count


def broker_order(racks: Racks) -> list[int]:
    """``AdminUtils.getRackAlternatedBrokerList``; without racks by id."""
    if None in racks.values():
        return sorted(racks)
    by_rack: dict[str, list[int]] = {}
    for broker in sorted(racks):
        by_rack.setdefault(str(racks[broker]), []).append(broker)
    order: list[int] = []
    while any(by_rack.values()):
        order += [by_rack[name].pop(0) for name in sorted(by_rack) if by_rack[name]]
    return order


def possible(capacity: Sequence[int], choices: Sequence[Sequence[tuple[int, ...]]]) -> bool:
    """Whether every partition can have one of its ``choices`` (sets of brokers, by index) within the capacity."""

    @cache
    def rest(number: int, left: tuple[int, ...]) -> bool:
        if number == len(choices):
            return True
        return any(
            all(left[b] > 0 for b in choice)
            and rest(number + 1, tuple(room - (b in choice) for b, room in enumerate(left)))
            for choice in choices[number]
        )

    return rest(0, tuple(capacity))


def possible_placement(
    racks: Racks, partitions: int, factor: int, capacity: Sequence[int], spread: bool
) -> bool:
    """Whether partitions fit on the brokers, which ``racks`` has in the order of ``capacity``; ``spread``: with
    replicas on different racks."""
    names = list(racks.values())
    sets = [
        chosen
        for chosen in combinations(range(len(names)), factor)
        if not spread or len({names[b] for b in chosen}) == factor
    ]
    return possible(capacity, [sets] * partitions)
