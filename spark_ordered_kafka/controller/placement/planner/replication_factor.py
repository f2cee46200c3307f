"""Other replication factors for existing partitions, with as few moves as possible (KIP-179). PURE.

A partition that gets more replicas keeps all it has; one that gets fewer gives up some and moves none. The preferred
leader (the first replica) stays, unless others have to go while it is not in sync.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from spark_ordered_kafka.controller.placement.planner.additional_replicas import add_replicas
from spark_ordered_kafka.controller.placement.planner.checks import check_factor
from spark_ordered_kafka.controller.placement.planner.table import Table
from spark_ordered_kafka.controller.placement.planner.values import Partition, Snapshot
from spark_ordered_kafka.controller.placement.round_robin import has_racks


def change_factor(table: Table, snapshot: Snapshot, factor: int) -> None:
    """Give partitions of any topics ``factor`` replicas. Raises RequestError as :func:`plan_factor`."""
    alive = [broker for broker in snapshot.brokers if broker.alive]
    most = snapshot.retired_factor
    deleted = [p for p in table.movable if table.of(p).status == "deleted"]
    planned = plan_factor(
        {broker.id: broker.rack for broker in alive},
        {p: table.of(p) for p in table.movable},
        factor,
        retired={} if most is None else dict.fromkeys(deleted, most),
        capacity={broker.id: broker.room for broker in alive},
    )
    for partition, brokers in planned.items():
        table.put(partition, [table.index[broker] for broker in brokers])


def plan_factor(
    racks: Mapping[int, str | None],
    partitions: Mapping[int, Partition],
    factor: int,
    *,
    retired: Mapping[int, int] | None = None,
    capacity: Mapping[int, int] | None = None,
) -> dict[int, list[int]]:
    """New replica lists of those ``partitions`` that do not have ``factor`` replicas.

    Args:
        racks: live broker -> rack (None: not set).
        retired: partition -> replicas that it keeps at most, of partitions that are empty and never written; they get
            none that they do not have.
        capacity: broker -> replicas it may still take; a missing broker is unlimited. What a broker gives up in the same
            plan does not count for it.

    Deterministic. Raises RequestError: INVALID_REPLICATION_FACTOR, or GUARD_RAILS when it does not fit.
    """
    check_factor(factor, len(racks))
    limits = {p: min(factor, (retired or {}).get(p, factor)) for p in partitions}
    growing = {
        p: now.replicas
        for p, now in partitions.items()
        if len(now.replicas) < factor and p not in (retired or {})
    }
    dead = {p for p, now in partitions.items() if now.status != "live"}
    load = {
        apart: Counter(b for p, now in partitions.items() if (p in dead) == apart for b in now.replicas)
        for apart in (False, True)
    }
    planned: dict[int, list[int]] = {}
    for partition, now in sorted(partitions.items()):
        if len(now.replicas) > limits[partition]:
            counted = load[partition in dead]
            planned[partition] = _narrowed(now, limits[partition], racks, counted)
            counted.subtract(set(now.replicas).difference(planned[partition]))
    return planned | add_replicas(racks, growing, factor, capacity=capacity, deleted=dead)


def _narrowed(
    now: Partition, factor: int, racks: Mapping[int, str | None], load: Mapping[int, int]
) -> list[int]:
    """``factor`` of a partition's replicas: in sync first, then on as many racks as possible, then where the topic has
    few others (``load``)."""
    first = now.replicas[0]
    if first not in now.isr and now.leader in now.replicas:
        first = now.leader
    elif first not in now.isr:
        # Without a leader, those that were in sync last have all records, also on a broker that is down.
        last = [broker for broker in now.replicas if broker in now.isr]
        first = min(last, key=lambda broker: broker not in racks, default=first)
    kept = [first]
    racked = has_racks(racks)

    def cost(broker: int) -> tuple[bool, bool, int, int, int]:
        rack = racks.get(broker) if racked else None
        shared = sum(1 for other in kept if rack is not None and racks.get(other) == rack)
        return (
            broker not in racks,
            broker not in now.isr,
            shared,
            load.get(broker, 0),
            now.replicas.index(broker),
        )

    while len(kept) < factor:
        kept.append(min((broker for broker in now.replicas if broker not in kept), key=cost))
    return [first, *(broker for broker in now.replicas if broker in kept and broker != first)]
