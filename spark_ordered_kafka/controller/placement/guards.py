"""Guard rails: how many replicas a broker may host (KIP-578). PURE.

A broker's *capacity* is ``max(0, max_partitions - hosted)``. ``hosted`` counts every replica, also while it is being
added or removed, so that a check holds during the whole reassignment and not only at its end. A broker beyond its limit
is tolerated; it takes no more replicas.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from spark_ordered_kafka.errors import ErrorCode, RequestError
from spark_ordered_kafka.listed import listed

UNLIMITED = 2**31 - 1
"""The KIP's default of ``max.broker.partitions``, and the capacity of a broker that a map of capacities lacks."""

_SHOWN = 20


def hosted(replicas: Iterable[Sequence[int]]) -> Counter[int]:
    """Replicas by broker; ``replicas`` has the replica list of every partition."""
    return Counter(broker for brokers in replicas for broker in brokers)


def capacities(limits: Mapping[int, int], hosting: Mapping[int, int]) -> dict[int, int]:
    """Broker -> replicas it may still take, of the brokers in ``limits`` (broker -> ``max_partitions``).

    ``hosting`` maps broker -> replicas; a missing broker hosts none.
    """
    return {broker: max(0, limit - hosting.get(broker, 0)) for broker, limit in limits.items()}


def added(current: Mapping[int, Collection[int]], target: Mapping[int, Sequence[int]]) -> Counter[int]:
    """Replicas that each broker takes on when partitions go from ``current`` to ``target`` replicas.

    Both map partition -> brokers; a partition that is not in ``current`` is new. ``current`` has all replicas of now:
    of a partition that is being reassigned also those being added and removed. What a broker gives up is not set off
    against it: replicas are removed only when those added are in sync, so that it hosts both meanwhile.
    """
    gained: Counter[int] = Counter()
    for partition, brokers in target.items():
        gained.update(set(brokers).difference(current.get(partition, ())))
    return gained


def check(what: str, gained: Mapping[int, int], capacity: Mapping[int, int]) -> None:
    """Refuse a whole plan that gives any broker more replicas than it has capacity for.

    ``what`` begins the message (``topic 'x'``); ``gained`` maps broker -> replicas it takes on, as of :func:`added`;
    ``capacity`` maps broker -> replicas it may still take, a missing broker is unlimited. Raises RequestError
    GUARD_RAILS.
    """
    short = lacking(gained, capacity)
    if not short:
        return
    shortages = ", ".join(f"broker {b} would take {gained[b]} more" for b in short[:_SHOWN])
    more = f" and {len(short) - _SHOWN} more brokers too many" if len(short) > _SHOWN else ""
    raise refusal(f"{what}: {shortages}{more}", capacity, short)


def lacking(gained: Mapping[int, int], capacity: Mapping[int, int]) -> list[int]:
    """The brokers that :func:`check` refuses, sorted."""
    return [broker for broker in sorted(gained) if gained[broker] > capacity.get(broker, UNLIMITED)]


def refusal(what: str, capacity: Mapping[int, int], first: Sequence[int] = ()) -> RequestError:
    """The error GUARD_RAILS with the map of brokers and their capacities; ``first`` are the brokers to show first."""
    return RequestError(
        ErrorCode.GUARD_RAILS,
        f"{what}: this does not fit the brokers' capacity for replicas, which is {shown(capacity, first)}",
    )


@contextmanager
def naming_cordoned(cordoned: Collection[int]) -> Iterator[None]:
    """Let an error GUARD_RAILS name the brokers that have no capacity because they are cordoned."""
    try:
        yield
    except RequestError as error:
        if error.code != ErrorCode.GUARD_RAILS or not cordoned:
            raise
        why = f"{error.message}; cordoned (cordoned.log.dirs): {listed(sorted(cordoned), _SHOWN)}"
        raise RequestError(error.code, why) from error


def shown(capacity: Mapping[int, int], first: Sequence[int] = ()) -> str:
    """The map of brokers and capacities as ``{1: 2, 2: 4}``.

    Of a large cluster, 20 brokers: ``first``, then those that have most, and what all have together.
    """
    if len(capacity) <= _SHOWN:
        return f"{{{', '.join(f'{broker}: {capacity[broker]}' for broker in sorted(capacity))}}}"
    known = [broker for broker in first if broker in capacity]
    others = sorted(capacity.keys() - set(known), key=lambda broker: (-capacity[broker], broker))
    named = ", ".join(f"{broker}: {capacity[broker]}" for broker in [*known, *others][:_SHOWN])
    left = sum(1 for room in capacity.values() if room > 0)
    return (
        f"{{{named}, … {len(capacity) - _SHOWN} more}} ({left} of {len(capacity)} brokers have any, "
        f"{sum(capacity.values())} together)"
    )
