"""Places the replicas of an expansion: those of new partitions, and of removed ones that become live again."""

from __future__ import annotations

from dataclasses import dataclass

from spark_ordered_kafka.controller.change.protocol import Change
from spark_ordered_kafka.controller.placement import guards
from spark_ordered_kafka.controller.placement.place import continue_placement
from spark_ordered_kafka.controller.topics.capacities import Capacities, Headroom
from spark_ordered_kafka.controller.topics.retired_replicas import ReplicaSets, restored, staying
from spark_ordered_kafka.errors import ErrorCode, RequestError, UnavailableError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.values import TopicDescription


@dataclass(frozen=True)
class ExpansionPlan:
    """``restored``: replicas of existing partitions, by partition; ``added``: those of new partitions, in order."""

    restored: dict[int, list[int]]
    added: list[list[int]]


class Expansion:
    """Plans expansions, and reserves the brokers' capacity for them until they have ended."""

    def __init__(self, admin: KafkaAdmin, capacities: Capacities) -> None:
        self._admin = admin
        self._capacities = capacities
        self._replicas = ReplicaSets(admin)

    def factor(self, topic: TopicDescription) -> int:
        """How many replicas new partitions of the topic get."""
        return len(staying(topic, self._replicas.ongoing(topic.topic, [0]), 0))

    def plan(self, change: Change, topic: TopicDescription) -> ExpansionPlan:
        """Place the replicas of ``change`` and reserve their capacity; replaces an earlier reservation of the change.

        Raises RequestError when they cannot be placed (GUARD_RAILS when capacity is missing); UnavailableError when Kafka
        or ZooKeeper does not answer.
        """
        existing = len(topic.partitions)
        if existing < change.existing:
            raise UnavailableError(
                f"Kafka shows {existing} of {change.existing} partitions of topic {topic.topic!r}"
            )
        revived = range(change.source, min(change.target, existing))
        ongoing = self._replicas.ongoing(topic.topic, [0, *revived])
        current = {row.partition: row.replicas for row in topic.partitions}

        def plan(headroom: Headroom) -> dict[int, list[int]]:
            again = restored(topic, ongoing, revived, headroom.racks, headroom.capacity)
            gained = guards.added(current, again)
            left = {broker: free - gained[broker] for broker, free in headroom.capacity.items()}
            if change.target <= existing:
                new = []
            elif change.assignments is not None:
                new = [list(brokers) for brokers in change.assignments[existing - change.existing :]]
                guards.check(f"topic {topic.topic!r}", guards.added({}, dict(enumerate(new))), left)
            else:
                placed = {**current, 0: staying(topic, ongoing, 0)}
                new = continue_placement(headroom.racks, placed, change.target - existing, capacity=left)
            return again | dict(enumerate(new, existing))

        replicas = self._capacities.reserve(change.id, topic.topic, plan)
        return ExpansionPlan(
            restored={p: brokers for p, brokers in replicas.items() if p < existing},
            added=[replicas[p] for p in range(existing, change.target)],
        )

    def carry_out(self, change: Change, topic: TopicDescription, total: int) -> None:
        """Extend ``topic``, just described, to ``total`` partitions, and restore the replicas of removed ones.

        Plans again, since brokers and capacities may have changed since the request. Raises as :meth:`plan`, and
        RequestError when Kafka refuses.
        """
        plan = self.plan(change, topic)
        self._replicas.restore(topic.topic, plan.restored)
        if not plan.added:
            return
        ongoing = self._replicas.ongoing(topic.topic, range(len(topic.partitions)))
        try:
            self._admin.create_partitions(topic.topic, total, plan.added)
        except RequestError as error:
            if error.code != ErrorCode.INVALID_REPLICA_ASSIGNMENT or not (plan.restored or ongoing):
                raise
            # Kafka compares the replication factor with that of an existing partition, which is higher during a move.
            raise UnavailableError(f"while replicas are moved, {error.message}") from error

    def ended(self, change: Change) -> None:
        """The change has ended: its reservation lasts until brokers show the replicas."""
        self._capacities.done(change.id)

    def dropped(self, change: Change) -> None:
        """The change was refused: its reservation is released."""
        self._capacities.drop(change.id)
