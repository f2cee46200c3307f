"""Throttles of requests that cannot be read: they stay as long as Kafka does what may need them (D-395). PURE."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

from spark_ordered_kafka.controller.reassign.throttle.policy import (
    FOLLOWER_REPLICAS,
    LEADER_REPLICAS,
    LOG_DIRS_RATE,
    ConfigOverride,
    Key,
    Rate,
    Replicas,
    Wanted,
)
from spark_ordered_kafka.kafka.values import PartitionId, Reassignment


def kept(
    held: Mapping[Key, ConfigOverride], ongoing: Mapping[PartitionId, Reassignment], copying: Collection[str]
) -> dict[Key, Rate | Replicas]:
    """Of the values that are ``held`` those that Kafka's reassignments need, if a request of ours began them.

    They are of topics whose list is held. ``copying``: brokers that may be copying replicas between their log directories.
    """
    topics = {key.resource for key in held if key.kind == "topic"}
    lists: dict[Key, set[tuple[int, int]]] = defaultdict(set)
    brokers: set[str] = set()
    for (topic, partition), one in ongoing.items():
        if topic not in topics:
            continue
        brokers.update(map(str, one.replicas))
        for broker in one.replicas:
            name = FOLLOWER_REPLICAS if broker in one.adding else LEADER_REPLICAS
            lists[Key("topic", topic, name)].add((partition, broker))
    found: dict[Key, Rate | Replicas] = {}
    for key, override in held.items():
        if key in lists:
            found[key] = Replicas(frozenset(lists[key]), override.requests)
        elif key.kind == "broker" and key.resource in (copying if key.name == LOG_DIRS_RATE else brokers):
            rate = override.value
            # Otherwise it is being restored already.
            if rate is not None and rate != override.original and rate.isdecimal():
                found[key] = Rate(int(rate))
    return found


def both(wishes: Wanted, more: Wanted) -> Wanted:
    """``wishes``, and ``more`` beside them: replicas are added to a list, and a rate that ``wishes`` has counts."""
    found = {**more, **wishes}
    for key, wish in more.items():
        other = wishes.get(key)
        if isinstance(wish, Replicas) and isinstance(other, Replicas):
            requests = tuple(sorted({*wish.requests, *other.requests}))
            found[key] = Replicas(wish.replicas | other.replicas, requests)
    return found
