"""How ``topics alter`` follows the replicas that it has asked for, by the answers that a controller gives."""

from __future__ import annotations

from typing import Any

import pytest
import typer

from spark_ordered_kafka.cli.common import REFUSED, OutputFormat
from spark_ordered_kafka.cli.replicas import change_replicas
from spark_ordered_kafka.client.schemas import (
    PartitionView,
    ReassignmentView,
    ReplicaProgress,
    ReplicationFactorsRequest,
    TopicReplicationFactor,
    TopicResult,
    TopicResults,
    TopicView,
)
from spark_ordered_kafka.errors import ErrorCode, RequestError

REQUEST = ReplicationFactorsRequest(topics=[TopicReplicationFactor(topic="t", replication_factor=2)])


class Answering:
    """A client of a controller that takes the request as number 7, and answers with ``states`` of it, one after another."""

    def __init__(self, *states: str, request_id: int | None = 7, may_see: bool = True) -> None:
        self.states = list(states)
        self._request_id, self._may_see = request_id, may_see

    def alter_replication_factors(self, _: ReplicationFactorsRequest) -> TopicResults:
        return TopicResults(topics=[TopicResult(topic="t", request_id=self._request_id)])

    def reassignment(self, request_id: int) -> ReassignmentView:
        if not self._may_see:
            raise RequestError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "DESCRIBE on the cluster is needed")
        state = self.states.pop(0)
        code = ErrorCode.BROKER_NOT_AVAILABLE if state == "failed" else ErrorCode.NONE
        row = ReplicaProgress(
            topic="t",
            partition=0,
            broker=2,
            numerator=0,
            denominator=1,
            error_code=code,
            error=code.name,
            error_message="broker 2 is down",
        )
        return ReassignmentView(
            request_id=request_id,
            complete=state in ("done", "failed", "cancelled"),
            state=state,
            numerator=0,
            denominator=1,
            rate=0.0,
            eta_seconds=None,
            created_at=0.0,
            replicas=[row],
        )

    def topic(self, topic: str) -> TopicView:
        row = PartitionView(partition=0, status="active", leader=1, replicas=[1, 2], isr=[1, 2])
        return TopicView(
            topic=topic,
            topic_id="id",
            cluster_id="cluster",
            initial_partition_count=1,
            undeleted_partition_count=1,
            layout_epoch=0,
            hash="murmur3",
            ordered_delivery=True,
            change=None,
            partitions=[row],
        )


@pytest.mark.parametrize(
    ("state", "reasons"),
    [("failed", ["error: t-0: BROKER_NOT_AVAILABLE: broker 2 is down"]), ("cancelled", [])],
)
def test_it_ends_with_its_reassignment(
    state: str, reasons: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    client: Any = Answering("running", state)
    with pytest.raises(typer.Exit) as ended:
        change_replicas(client, REQUEST, no_wait=False, output=OutputFormat.TABLE)
    told = capsys.readouterr()
    assert (ended.value.exit_code, told.out, client.states) == (REFUSED, "", [])
    assert [line for line in told.err.splitlines() if line.startswith("error: ")] == [
        *reasons,
        f"error: request 7 has ended as {state}",
    ]


@pytest.mark.parametrize(
    "client", [Answering("running", "done"), Answering(may_see=False), Answering(request_id=None)]
)
def test_in_the_end_the_replicas_are_looked_at(client: Any, capsys: pytest.CaptureFixture[str]) -> None:
    change_replicas(client, REQUEST, no_wait=False, output=OutputFormat.TABLE)
    assert (capsys.readouterr().out, client.states) == ("topic t has replication factor 2\n", [])
