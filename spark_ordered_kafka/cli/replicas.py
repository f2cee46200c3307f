"""Replicas on the command line: assignments as ``kafka-topics`` writes them, and a progress bar over their moves."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from spark_ordered_kafka.cli import common
from spark_ordered_kafka.errors import ConfigError, ErrorCode, RequestError

if TYPE_CHECKING:
    from spark_ordered_kafka.client.controller import ControllerClient
    from spark_ordered_kafka.client.schemas import PartitionView, ReplicationFactorsRequest, TopicView

_BROKER = re.compile("[0-9]{1,10}")

ReplicaAssignmentOption = Annotated[
    str | None,
    typer.Option(
        "--replica-assignment",
        metavar="ID:ID,ID:ID,...",
        help="Broker ids of each partition's replicas, preferred leader first: 1:2,2:3 are those of partitions 0 and 1.",
    ),
]


def parse_assignment(value: str) -> dict[int, list[int]]:
    """Partition -> broker ids; raises ConfigError when it is not of the form ``1:2,2:3``."""
    rows = [replicas.split(":") for replicas in value.split(",")]
    if not all(_BROKER.fullmatch(broker) and int(broker) < 2**31 for row in rows for broker in row):
        raise ConfigError(
            "--replica-assignment",
            value,
            "broker ids are needed, those of one partition with : between them, partitions with , between them",
        )
    return {partition: list(map(int, row)) for partition, row in enumerate(rows)}


def change_replicas(
    client: ControllerClient, request: ReplicationFactorsRequest, no_wait: bool, output: common.OutputFormat
) -> None:
    """Request one topic's new replicas; unless ``no_wait``, watch until all are in place, or their reassignment has failed."""
    (item,) = request.topics
    topic, factor, assignments = item.topic, item.replication_factor, item.assignments or {}
    answer = client.alter_replication_factors(request)
    common.raise_if_refused(answer.topics[0])
    what = f"replication factor {factor}" if factor is not None else "the replicas asked for"
    if request.validate_only:
        common.report(answer, f"topic {topic} could have {what}", output)
        return
    if no_wait:
        common.report(answer, f"topic {topic} is getting {what}", output)
        return

    def done(row: PartitionView) -> bool:
        if factor is None:
            return row.partition not in assignments or row.replicas == assignments[row.partition]
        # One that was removed and is empty may keep fewer (retire.replication.factor).
        return len(row.replicas) == factor or (row.status == "deleted" and len(row.replicas) < factor)

    request_id = answer.topics[0].request_id
    if request_id is not None:  # otherwise they are in place already, or another tool moves them
        _follow_request(client, request_id)
    view = _follow_replicas(client, topic, done)
    common.report(view, f"topic {topic} has {what}", output)


def _follow_request(client: ControllerClient, request_id: int) -> None:
    """Show a reassignment until it has ended, if the caller may see it; ends the command unless it is done."""
    from spark_ordered_kafka.cli.reassign_outcomes import failures, followed

    try:
        view = followed(client, request_id)
    except RequestError as error:
        if error.code is not ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            raise
        return  # who may alter a topic need not have DESCRIBE on the cluster
    if view.state == "done":
        return
    for line in failures(view):
        typer.echo(f"error: {line}", err=True)
    typer.echo(f"error: request {request_id} has ended as {view.state}", err=True)
    raise typer.Exit(common.REFUSED)


def _follow_replicas(
    client: ControllerClient, topic: str, done: Callable[[PartitionView], bool]
) -> TopicView:
    """Show on stderr how many partitions are ``done``, with all replicas in sync, until all are; the topic then."""
    from rich.progress import MofNCompleteColumn

    from spark_ordered_kafka.cli.follow import Extent, bar, follow

    text = f"{topic}: replicas in place"

    def ready(view: TopicView) -> int:
        return sum(1 for row in view.partitions if done(row) and set(row.isr) == set(row.replicas))

    return follow(
        lambda: client.topic(topic),
        bar(lambda view: Extent(text, ready(view), len(view.partitions)), MofNCompleteColumn()),
        lambda _, view: ready(view) == len(view.partitions),
        unfinished=f"the replicas of topic {topic!r} are not all in place and in sync",
    )
