"""What a plan knows of a cluster that changes while it is read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, cast

import pytest

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.reassign.requests.planning import ReassignmentPlans
from spark_ordered_kafka.controller.state.reassignment_records import Move, RequestRecord
from spark_ordered_kafka.kafka.values import (
    LogDirAnswers,
    PartitionDescription,
    PartitionId,
    Reassignment,
    TopicDescription,
)

PLACE = ("t", 0)
MOVE = Move(topic="t", partition=0, before=(1, 2), after=(3, 2))


class Cluster:
    """Three brokers and a partition whose move from 1 to 3 ends or begins when topics have been described.

    It stands in the place of all that a plan is made from. ``ours``: the move is of a request.
    """

    requests = None

    def __init__(self, *, moving: bool, ours: bool) -> None:
        self.moving = moving
        self.ours = ours

    def describe_topics(self, _names: Collection[str] | None = None) -> Mapping[str, TopicDescription]:
        replicas = (3, 2, 1) if self.moving else (1, 2)
        self.moving = not self.moving
        return {"t": TopicDescription("t", "id", False, (PartitionDescription(0, 2, 0, replicas, replicas),))}

    def brokers(self) -> schemas.BrokerList:
        rows = [
            schemas.BrokerView(
                id=broker, rack=None, alive=True, hosted=1, max_partitions=9, capacity=8, excess=0
            )
            for broker in (1, 2, 3, 4)
        ]
        return schemas.BrokerList(brokers=rows)

    def describe(self, _brokers: Collection[int], _places: object) -> LogDirAnswers:
        return {}

    def topic(self, _name: str) -> None:
        return None

    def records(self) -> Mapping[int, RequestRecord]:
        return {}

    def pending(self) -> Mapping[PartitionId, tuple[int, Move]]:
        return {PLACE: (1, MOVE)} if self.moving and self.ours else {}

    def all_ongoing(self) -> Mapping[PartitionId, Reassignment]:
        return {PLACE: MOVE.reassignment} if self.moving and not self.ours else {}


@pytest.mark.parametrize("ours", [True, False])
@pytest.mark.parametrize("moving", [True, False])
def test_a_move_that_ends_or_begins_while_the_cluster_is_read_is_left_out(moving: bool, ours: bool) -> None:
    cluster = cast("Any", Cluster(moving=moving, ours=ours))
    plans = ReassignmentPlans(
        cluster, cluster, cluster, cluster, lambda: 0.0, retired_factor=None, timeout=1.0
    )
    plans._log_dirs = plans._reassignments = cluster
    found = plans.propose(schemas.ReassignmentPlanRequest(goal="drain", brokers=[2]))
    assert found.partitions == []
    assert found.warnings == ["left out, since being reassigned already: t-0"]
