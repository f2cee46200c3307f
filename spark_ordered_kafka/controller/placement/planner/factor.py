"""Another replication factor for partitions of any topics. PURE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spark_ordered_kafka.controller.placement.factors import Held, plan_factor
from spark_ordered_kafka.controller.placement.guards import added
from spark_ordered_kafka.controller.placement.planner.table import Table
from spark_ordered_kafka.controller.placement.planner.values import Snapshot
from spark_ordered_kafka.errors import ErrorCode, RequestError


def change_factor(table: Table, snapshot: Snapshot, factor: int) -> None:
    """Give partitions ``factor`` replicas. Raises RequestError as
    :func:`~spark_ordered_kafka.controller.placement.factors.plan_factor`."""
    try:
        planned = _by_pool(table, snapshot, factor)
    except RequestError as error:
        if error.code is not ErrorCode.GUARD_RAILS:
            raise
        # What live ones took may be what the others need: together, one can make way for another.
        planned = _planned(table, snapshot, factor, table.movable, _capacity(snapshot))
    for partition, brokers in planned.items():
        table.replicas[partition] = [table.index[broker] for broker in brokers]


def _by_pool(table: Table, snapshot: Snapshot, factor: int) -> dict[int, list[int]]:
    capacity = _capacity(snapshot)
    planned: dict[int, list[int]] = {}
    movable = set(table.movable)
    for pool in table.pools():
        some = _planned(table, snapshot, factor, [p for p in pool if p in movable], capacity)
        for broker, count in added({p: table.of(p).replicas for p in some}, some).items():
            capacity[broker] -= count
        planned |= some
    return planned


def _planned(
    table: Table, snapshot: Snapshot, factor: int, partitions: Sequence[int], capacity: Mapping[int, int]
) -> dict[int, list[int]]:
    held = {p: Held(table.of(p).replicas, table.of(p).isr, table.of(p).leader) for p in partitions}
    most = snapshot.retired_factor
    retired = {} if most is None else {p: most for p in partitions if table.of(p).status == "deleted"}
    racks = {broker.id: broker.rack for broker in snapshot.brokers if broker.alive}
    return plan_factor(racks, held, factor, retired=retired, capacity=capacity)


def _capacity(snapshot: Snapshot) -> dict[int, int]:
    return {broker.id: broker.capacity for broker in snapshot.brokers if broker.alive}
