"""Other replication factors for existing partitions, with as few moves as possible (KIP-179). PURE.

A partition that gets more replicas keeps all it has; one that gets fewer gives up some and moves none. The preferred
leader (the first replica) stays, unless others have to go while it is not in sync.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spark_ordered_kafka.controller.placement.additional_replicas import widen
from spark_ordered_kafka.controller.placement.round_robin import has_racks
from spark_ordered_kafka.errors import ErrorCode, RequestError


@dataclass(frozen=True)
class Held:
    """A partition's replicas, preferred leader first, and those of them that are in sync. ``leader`` is -1 without
    one."""

    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    leader: int


def plan_factor(
    racks: Mapping[int, str | None],
    partitions: Mapping[int, Held],
    factor: int,
    *,
    retired: Mapping[int, int] | None = None,
    capacity: Mapping[int, int] | None = None,
) -> dict[int, list[int]]:
    """New replica lists of those of a topic's ``partitions`` that do not have ``factor`` replicas.

    Args:
        racks: live broker -> rack (None: not set).
        retired: partition -> replicas that it keeps at most, of partitions that are empty and never written; they get
            none that they do not have.
        capacity: broker -> replicas it may still take; a missing broker is unlimited. What a broker gives up in the same
            plan does not count for it.

    Deterministic. Raises RequestError: INVALID_REPLICATION_FACTOR, or GUARD_RAILS when it does not fit.
    """
    if not 1 <= factor <= len(racks):
        raise RequestError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"replication_factor has the value {factor}: with {len(racks)} brokers it must be between 1 and "
            f"{len(racks)}",
        )
    limits = {p: min(factor, (retired or {}).get(p, factor)) for p in partitions}
    wider = {
        p: held.replicas
        for p, held in partitions.items()
        if len(held.replicas) < factor and p not in (retired or {})
    }
    load = Counter(broker for held in partitions.values() for broker in held.replicas)
    planned: dict[int, list[int]] = {}
    for partition, held in sorted(partitions.items()):
        if len(held.replicas) > limits[partition]:
            planned[partition] = _narrowed(held, limits[partition], racks, load)
            load.subtract(set(held.replicas).difference(planned[partition]))
    if wider:
        known, room = _with_absent(racks, wider, capacity or {})
        planned |= widen(known, wider, factor, capacity=room)
    return planned


def _with_absent(
    racks: Mapping[int, str | None], wider: Mapping[int, Sequence[int]], capacity: Mapping[int, int]
) -> tuple[dict[int, str | None], dict[int, int]]:
    """Racks and capacity with the brokers that are down: what they have stays theirs, and they take nothing more."""
    absent = {broker for replicas in wider.values() for broker in replicas} - racks.keys()
    racked = has_racks(racks)
    # Their racks are not known. A name of its own keeps a broker from counting for another one's.
    unknown = {broker: f"\0{broker}" if racked else None for broker in absent}
    return {**racks, **unknown}, {**capacity, **dict.fromkeys(absent, 0)}


def _narrowed(held: Held, factor: int, racks: Mapping[int, str | None], load: Mapping[int, int]) -> list[int]:
    """``factor`` of a partition's replicas: in sync first, then on as many racks as possible, then where the topic has
    few others (``load``)."""
    preferred = held.replicas[0]
    first = preferred if preferred in held.in_sync or held.leader not in held.replicas else held.leader
    kept = [first]
    racked = has_racks(racks)

    def cost(broker: int) -> tuple[bool, bool, int, int, int]:
        rack = racks.get(broker) if racked else None
        shared = sum(1 for other in kept if rack is not None and racks.get(other) == rack)
        return (
            broker not in racks,
            broker not in held.in_sync,
            shared,
            load.get(broker, 0),
            held.replicas.index(broker),
        )

    while len(kept) < factor:
        kept.append(min((broker for broker in held.replicas if broker not in kept), key=cost))
    return [first, *(broker for broker in held.replicas if broker in kept and broker != first)]
