"""Makes the request that carries out a proposal."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.client.schemas.healing import HealingAction
from spark_ordered_kafka.client.schemas.reassignments import FurtherPlanGoal, PlanGoal
from spark_ordered_kafka.controller.healing.policy import Proposal
from spark_ordered_kafka.controller.healing.rules import Rules
from spark_ordered_kafka.controller.reassign.requests.elections import LeaderElections
from spark_ordered_kafka.controller.reassign.requests.planning import ReassignmentPlans
from spark_ordered_kafka.controller.topics.capacities import Capacities
from spark_ordered_kafka.errors import RequestError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.values import PartitionId, TopicDescription
from spark_ordered_kafka.listed import listed

_GOALS: Final[dict[HealingAction, PlanGoal]] = {
    "drain": "drain",
    "replace_replicas": "replace_replicas",
    "balance_leaders": "leaders",
    "balance_log_dirs": "balance_log_dirs",
    "balance": "balance",
}


_SHOWN = 5


@dataclass(frozen=True)
class Planned:
    """``request``: path and body, None where there is nothing to request; ``notes`` say why, or what the plan leaves out.

    ``partitions`` that change, and bytes to move, -1 where not known.
    """

    request: tuple[str, Mapping[str, Any]] | None
    notes: tuple[str, ...]
    partitions: int | None = None
    bytes_to_move: int | None = None


@dataclass(frozen=True)
class HealingPlans:
    """Asks the planner. Topics that have no place on the brokers that are left do not keep the others from being healed."""

    rules: Rules
    plans: ReassignmentPlans
    elections: LeaderElections
    admin: KafkaAdmin
    capacities: Capacities

    def plan(self, proposal: Proposal, rates: Mapping[PartitionId, float]) -> Planned:
        """What to request for a proposal. ``rates``: bytes per second that are written, by partition.

        Raises UnavailableError when Kafka or ZooKeeper does not answer.
        """
        try:
            if proposal.action == "elect_leaders":
                return self._election()
            return self._reassignment(proposal, rates)
        except RequestError as error:
            return Planned(None, (f"there is no plan: {error.message}",))

    def _election(self) -> Planned:
        found = self.elections.elect(schemas.LeaderElectionRequest(validate_only=True))
        rows = [{"topic": row.topic, "partition": row.partition} for row in found.partitions]
        if not rows:
            return Planned(None, ("no partition needs an election any more",))
        return Planned(("/v1/leader-elections", {"partitions": rows}), (), len(rows), 0)

    def _reassignment(self, proposal: Proposal, rates: Mapping[PartitionId, float]) -> Planned:
        also: list[FurtherPlanGoal] = list(self.rules.drain_goals) if proposal.action == "drain" else []
        up = self.capacities.without_limits()
        if any(rack is None for rack in up.racks.values()):
            also = [goal for goal in also if goal != "racks"]
        topics: list[str] | None = None
        notes: tuple[str, ...] = ()
        if proposal.action in ("drain", "replace_replicas"):
            left = up.racks.keys() - up.cordoned - set(proposal.brokers)
            described = self.admin.describe_topics()
            without = [
                name for name in sorted(described) if not has_place(described[name], proposal.brokers, left)
            ]
            if without:
                topics = [name for name in sorted(described) if name not in without]
                notes = (
                    "left out, since they have more replicas than there are brokers left: topics "
                    f"{listed(without, _SHOWN)}",
                )
                if not topics:
                    return Planned(None, notes)
        goal = schemas.ReassignmentPlanRequest(
            goal=_GOALS[proposal.action],
            brokers=list(proposal.brokers) or None,
            topics=topics,
            also=also or None,
        )
        found = self.plans.propose(goal, rates)
        if not found.partitions:
            return Planned(None, ("a plan changes nothing", *notes, *found.warnings), 0, 0)
        rows = [row.model_dump() for row in found.partitions]
        body: dict[str, Any] = {"partitions": rows}
        if self.rules.throttle is not None:
            body["throttle"] = self.rules.throttle
            if proposal.action == "balance_log_dirs":
                body["replica_alter_log_dirs_throttle"] = self.rules.throttle
        return Planned(("/v1/reassignments", body), (*notes, *found.warnings), len(rows), found.bytes_to_move)


def has_place(topic: TopicDescription, emptied: Collection[int], left: Collection[int]) -> bool:
    """Whether brokers of ``left`` can take what every partition with a leader has on ``emptied``. PURE."""
    return all(
        len(set(row.replicas) & set(emptied)) <= len(set(left) - set(row.replicas))
        for row in topic.partitions
        if row.leader >= 0
    )
