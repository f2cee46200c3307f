"""What a plan knows of a cluster that changes while it is read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, cast

import pytest

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.reassign.requests.planning import ReassignmentPlans
from spark_ordered_kafka.controller.state.reassignment_records import Move, RequestRecord
from spark_ordered_kafka.errors import ErrorCode, RequestError
from spark_ordered_kafka.kafka.values import (
    DirReplica,
    LogDir,
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

    def describe(self, _brokers: Collection[int]) -> LogDirAnswers:
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


class Filling(Cluster):
    """The move to broker 3 waits, and would leave it half of what partition 1 needs; broker 4 has too little, too."""

    def __init__(self) -> None:
        super().__init__(moving=True, ours=True)

    def describe_topics(self, names: Collection[str] | None = None) -> Mapping[str, TopicDescription]:
        assert names in (None, ["t"])
        rows = (
            PartitionDescription(0, 1, 0, (1, 2), (1, 2)),
            PartitionDescription(1, 1, 0, (1, 2), (1, 2)),
        )
        return {"t": TopicDescription("t", "id", False, rows)}

    def describe(self, brokers: Collection[int]) -> LogDirAnswers:
        logs = tuple(DirReplica("t", partition, 100, 0, is_future=False) for partition in (0, 1))
        free = {3: 150, 4: 90}
        return {
            broker: [
                LogDir(
                    "/a",
                    replicas=logs if broker < 3 else (),
                    total_bytes=1000,
                    usable_bytes=free.get(broker, 9000),
                )
            ]
            for broker in brokers
        }


def test_what_waits_for_a_broker_is_taken_off_its_space() -> None:
    cluster = cast("Any", Filling())
    plans = ReassignmentPlans(
        cluster, cluster, cluster, cluster, lambda: 0.0, retired_factor=None, timeout=1.0
    )
    plans._log_dirs = plans._reassignments = cluster
    with pytest.raises(RequestError, match="broker 4 would get 100 bytes and has 90 left") as caught:
        plans.propose(schemas.ReassignmentPlanRequest(goal="drain", brokers=[2], topics=["t"]))
    assert caught.value.code is ErrorCode.GUARD_RAILS
