"""Replicas of removed partitions: fewer while one is empty, as many as before when it is written again."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set

from spark_ordered_kafka.controller.placement.place import place_again
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.leaders import NO_LEADER
from spark_ordered_kafka.kafka.reassignments import Reassignments
from spark_ordered_kafka.kafka.values import PartitionDescription, Reassignment, TopicDescription

_TIMEOUT = 10.0  # seconds for a request; callers retry


class ReplicaSets:
    """Changes the replicas of partitions that are beyond a topic's partition count.

    Every method raises RequestError where Kafka refuses, and UnavailableError when it does not answer in time.
    """

    def __init__(self, admin: KafkaAdmin) -> None:
        self._admin = admin
        self._reassignments = Reassignments(admin.requests, timeout=_TIMEOUT)

    def reduce(self, topic: TopicDescription, partitions: Iterable[int], factor: int) -> list[int]:
        """Reduce the ``partitions`` that have more than ``factor`` replicas to that; returns those partitions.

        Skips partitions that are being reassigned. Nothing may revive a partition at the same time.
        """
        fewer = reduced((topic.partitions[p] for p in partitions), factor)
        for partition in self._reassignments.ongoing(topic.topic, fewer):
            del fewer[partition]
        self._reassignments.start(topic.topic, fewer)
        return sorted(fewer)

    def ongoing(self, topic: str, partitions: Collection[int]) -> dict[int, Reassignment]:
        """Those of ``partitions`` that are being reassigned."""
        return self._reassignments.ongoing(topic, partitions)

    def restore(self, topic: str, replicas: Mapping[int, Sequence[int]]) -> None:
        """Give partitions the replicas of :func:`restored`. Kafka completes it in the background."""
        self._reassignments.start(topic, replicas)

    def not_in_sync(self, topic: TopicDescription, partitions: Sequence[int]) -> list[int]:
        """Those of ``partitions`` that do not yet have as many replicas in sync as :meth:`restore` requested.

        Kafka's controller knows first that replicas are in sync, and brokers learn it a moment later: every live broker must
        show it, so that all later reads see it (D-023). Replicas on brokers that are down are not waited for.
        """
        if not partitions:
            return []
        ongoing = self._reassignments.ongoing(topic.topic, [0, *partitions])
        factor = _target(topic, ongoing, 0)
        shown = self._admin.replicas_in_sync(topic.topic)
        up = {broker.id for broker in self._admin.brokers()}
        return [p for p in partitions if len(_in_sync(shown.get(p, ()), ongoing.get(p), up)) < factor]


def reduced(partitions: Iterable[PartitionDescription], factor: int) -> dict[int, Sequence[int]]:
    """The first ``factor`` replicas of those that have more: the leader, then others in sync. PURE.

    A partition without a leader keeps all.
    """
    fewer: dict[int, Sequence[int]] = {}
    for row in partitions:
        if len(row.replicas) > factor and row.leader != NO_LEADER:
            ranked = sorted(row.replicas, key=lambda replica: (replica != row.leader, replica not in row.isr))
            fewer[row.partition] = ranked[:factor]
    return fewer


def restored(
    topic: TopicDescription,
    ongoing: Mapping[int, Reassignment],
    partitions: Collection[int],
    racks: Mapping[int, str | None],
    capacity: Mapping[int, int],
) -> dict[int, list[int]]:
    """Replicas that give ``partitions`` as many as partition 0 has; of some that have more, fewer. PURE.

    ``ongoing`` has the reassignments of these and of partition 0; ``racks`` (of live brokers) and ``capacity`` are as in
    :func:`~spark_ordered_kafka.controller.placement.place.place`, and so are the errors.
    """
    factor = _target(topic, ongoing, 0)
    short = {p: topic.partitions[p].replicas for p in partitions if _target(topic, ongoing, p) < factor}
    wanted: dict[int, list[int]] = {}
    if short:
        wanted |= place_again(racks, staying(topic, ongoing, 0), short, capacity=capacity)
    # The state may date from before a recent reduction; requesting the replicas again is harmless.
    wanted |= {
        p: list(topic.partitions[p].replicas)
        for p in partitions
        if p not in wanted and p not in ongoing and racks.keys() >= set(topic.partitions[p].replicas)
    }
    # A change that made partitions with more, since Kafka took no others, may have been cut off before it reduced them.
    excess = reduced((topic.partitions[p] for p in partitions if p not in ongoing), factor)
    return wanted | {p: list(brokers) for p, brokers in excess.items()}


def staying(topic: TopicDescription, ongoing: Mapping[int, Reassignment], partition: int) -> list[int]:
    """The replicas that a partition has once its reassignment, if there is one, has ended. PURE.

    ``topic`` may have been described before that began.
    """
    going = ongoing.get(partition)
    return list(topic.partitions[partition].replicas if going is None else going.target)


def _in_sync(shown: Sequence[int], going: Reassignment | None, up: Set[int]) -> list[int]:
    """The replicas ``shown`` in sync, or down, less those that Kafka's controller still adds.

    It does not end what waits for a broker that is not ``up``: then those that are shown count.
    """
    adding = () if going is None or not up >= set(going.adding) else going.adding
    return [replica for replica in shown if replica not in adding]


def _target(topic: TopicDescription, ongoing: Mapping[int, Reassignment], partition: int) -> int:
    """Replicas that a partition has once its reassignment, if there is one, has ended."""
    return len(staying(topic, ongoing, partition))
