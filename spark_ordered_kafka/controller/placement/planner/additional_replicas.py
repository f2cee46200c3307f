"""Additional replicas for existing partitions. PURE."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from spark_ordered_kafka.controller.placement.guards import UNLIMITED
from spark_ordered_kafka.controller.placement.planner.needs import place
from spark_ordered_kafka.controller.placement.planner.table import Table
from spark_ordered_kafka.controller.placement.planner.values import Broker, Partition, Snapshot


def add_replicas(
    racks: Mapping[int, str | None],
    current: Mapping[int, Sequence[int]],
    replication_factor: int,
    *,
    capacity: Mapping[int, int] | None = None,
    deleted: Collection[int] = (),
) -> dict[int, list[int]]:
    """Replica lists with ``replication_factor`` replicas for partitions that have fewer; each keeps its own.

    ``current`` maps partition -> its replicas, preferred leader first, which stays first. New ones go to racks new to the
    partition where possible, and evenly over the brokers; those of ``deleted`` partitions are evened out apart. ``racks`` and
    ``capacity`` are as in :func:`~spark_ordered_kafka.controller.placement.place.place`; existing replicas use no capacity.
    Finds an assignment if there is one. Raises RequestError: INVALID_REPLICATION_FACTOR, or GUARD_RAILS when it does not fit.
    """
    # A missing replica is one that has to move from a broker that does not exist.
    missing = {p: range(len(replicas) - replication_factor, 0) for p, replicas in current.items()}
    table = Table(
        Snapshot(
            tuple(Broker(b, rack, capacity=(capacity or {}).get(b, UNLIMITED)) for b, rack in racks.items()),
            tuple(
                Partition("", p, (*replicas, *missing[p]), 0, status="deleted" if p in deleted else "live")
                for p, replicas in current.items()
            ),
        )
    )
    table.floor = [1] * len(table.floor)
    needs = {n: [table.index[b] for b in missing[one.partition]] for n, one in enumerate(table.partitions)}
    what = f"replication factor {replication_factor} for {len(current)} existing partitions"
    place(table, needs, table.alive, what)
    return {
        one.partition: [table.ids[b] for b in table.replicas[n]] for n, one in enumerate(table.partitions)
    }
