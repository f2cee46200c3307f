"""Places the replicas of an expansion: those of new partitions, and of removed ones that become live again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from spark_ordered_kafka.controller.change.protocol import Change
from spark_ordered_kafka.controller.placement import guards
from spark_ordered_kafka.controller.placement.place import continue_placement
from spark_ordered_kafka.controller.placement.planner.additional_replicas import add_replicas
from spark_ordered_kafka.controller.topics.capacities import Capacities, Headroom
from spark_ordered_kafka.controller.topics.placed import placed
from spark_ordered_kafka.controller.topics.retired_replicas import ReplicaSets, restored, staying
from spark_ordered_kafka.errors import ErrorCode, RequestError, UnavailableError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.values import TopicDescription
from spark_ordered_kafka.listed import listed

_SHOWN = 20
# What Kafka answers about new partitions while existing ones are moved; the latter without KRaft, whatever they look like.
_WHILE_MOVED = (ErrorCode.INVALID_REPLICA_ASSIGNMENT, ErrorCode.REASSIGNMENT_IN_PROGRESS)


@dataclass(frozen=True)
class ExpansionPlan:
    """Replicas by partition: ``restored`` of existing ones, ``added`` of new ones, of which the first ``factor`` stay.

    Kafka takes new partitions with one of the ``counts`` of replicas, which begin with ``factor``.
    """

    restored: dict[int, list[int]]
    added: dict[int, list[int]]
    counts: list[int]

    @property
    def factor(self) -> int:
        """The replication factor of the topic."""
        return self.counts[0]


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
        factor = len(staying(topic, ongoing, 0))
        counts = [factor, *sorted({len(row.replicas) for row in topic.partitions} - {factor})]

        def plan(headroom: Headroom) -> dict[int, list[int]]:
            again = restored(topic, ongoing, revived, headroom.racks, headroom.chosen_capacity)
            gained = guards.added(current, again)
            given = change.assignments is not None
            capacity = headroom.capacity if given else headroom.chosen_capacity
            left = {broker: free - gained[broker] for broker, free in capacity.items()}
            if change.target <= existing:
                return again
            if change.assignments is not None:
                new = [list(brokers) for brokers in change.assignments[existing - change.existing :]]
                guards.check(f"topic {topic.topic!r}", guards.added({}, dict(enumerate(new))), left)
            else:
                before = {**current, 0: staying(topic, ongoing, 0)}
                new = continue_placement(headroom.racks, before, change.target - existing, capacity=left)
            return again | _with_more(dict(enumerate(new, existing)), max(counts), headroom.racks, left)

        replicas = self._capacities.reserve(change.id, topic.topic, plan)
        return ExpansionPlan(
            restored={p: brokers for p, brokers in replicas.items() if p < existing},
            added={p: replicas[p] for p in range(existing, change.target)},
            counts=counts,
        )

    def check(self, change: Change, topic: TopicDescription) -> None:
        """Plan ``change`` as :meth:`plan` does, and have Kafka check the new partitions.

        Raises RequestError REASSIGNMENT_IN_PROGRESS when Kafka does not take them before moves of others have ended, and
        UnavailableError when these have just ended, or a broker has just stopped.
        """
        plan = self.plan(change, topic)
        if plan.added:
            with placed(change.assignments):
                self._create(topic, change.target, plan, validate_only=True)

    def carry_out(self, change: Change, topic: TopicDescription, total: int) -> None:
        """Extend ``topic``, just described, to ``total`` partitions, and restore the replicas of removed ones.

        Plans again, since brokers and capacities may have changed since the request. Raises as :meth:`plan`, and
        RequestError when Kafka refuses.
        """
        plan = self.plan(change, topic)
        self._replicas.restore(topic.topic, plan.restored)
        if not plan.added:
            return
        try:
            with placed(change.assignments):
                count = self._create(topic, total, plan)
            if count != plan.factor:
                final = {p: brokers[: plan.factor] for p, brokers in plan.added.items()}
                self._replicas.restore(topic.topic, final)
        except RequestError as error:
            # The moves may end in time, and Kafka's controller may not know the new partitions yet.
            passing = error.code in (ErrorCode.REASSIGNMENT_IN_PROGRESS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            if passing or (plan.restored and error.code == ErrorCode.INVALID_REPLICA_ASSIGNMENT):
                raise UnavailableError(error.message) from error
            raise

    def _create(
        self, topic: TopicDescription, total: int, plan: ExpansionPlan, *, validate_only: bool = False
    ) -> int:
        """Create the new partitions, and return how many replicas Kafka has let each of them have (D-416)."""
        refused = []
        for count in plan.counts:
            added = [brokers[:count] for brokers in plan.added.values()]
            try:
                self._admin.create_partitions(topic.topic, total, added, validate_only=validate_only)
            except RequestError as error:
                if error.code not in _WHILE_MOVED:
                    raise
                refused.append(error)
            else:
                return count
        ongoing = self._replicas.ongoing(topic.topic, range(len(topic.partitions)))
        if not ongoing:
            now = self._admin.describe_topics([topic.topic]).get(topic.topic)
            if now is not None and _replicas(now, topic) != _replicas(topic, topic):
                raise UnavailableError(
                    f"topic {topic.topic!r} was reassigned meanwhile; send the request again"
                )
            raise refused[0]
        raise RequestError(
            ErrorCode.REASSIGNMENT_IN_PROGRESS,
            f"replicas of topic {topic.topic!r} are being moved (partition {listed(sorted(ongoing), _SHOWN)}), and Kafka "
            f"takes no new partitions meanwhile ({refused[0].message}): wait for the end of the reassignment, or cancel it",
        )

    def ended(self, change: Change) -> None:
        """The change has ended: its reservation lasts until brokers show the replicas."""
        self._capacities.done(change.id)

    def dropped(self, change: Change) -> None:
        """The change was refused: its reservation is released."""
        self._capacities.drop(change.id)


def _replicas(topic: TopicDescription, known: TopicDescription) -> list[list[int]]:
    """Of the partitions that are known."""
    return [list(row.replicas) for row in topic.partitions[: len(known.partitions)]]


def _with_more(
    added: dict[int, list[int]], count: int, racks: Mapping[int, str | None], capacity: Mapping[int, int]
) -> dict[int, list[int]]:
    """``added`` with ``count`` replicas where it has fewer; as it is where they do not fit."""
    if all(len(brokers) >= count for brokers in added.values()):
        return added
    try:
        return add_replicas(racks, added, count, capacity=capacity)
    except RequestError:
        return added
