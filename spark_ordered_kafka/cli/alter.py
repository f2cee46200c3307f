"""``ordered-kafka topics alter``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from spark_ordered_kafka.cli import common
from spark_ordered_kafka.cli.replicas import ReplicaAssignmentOption, change_replicas, parse_assignment
from spark_ordered_kafka.errors import ConfigError, invalid_request

if TYPE_CHECKING:
    from spark_ordered_kafka.client.controller import ControllerClient
    from spark_ordered_kafka.client.schemas import (
        AlterTopicRequest,
        FinishedChangeView,
        PartitionCountsRequest,
        TopicChange,
    )


def alter(
    topic: common.TopicOption,
    controller: common.ControllerOption = None,
    command_config: common.CommandConfigOption = None,
    partitions: Annotated[int | None, typer.Option(help="New partition count; more or fewer.")] = None,
    replication_factor: Annotated[
        int | None, typer.Option(help="New number of replicas of each partition.")
    ] = None,
    replica_assignment: ReplicaAssignmentOption = None,
    ordered_delivery: Annotated[
        bool | None,
        typer.Option(
            "--ordered-delivery/--no-ordered-delivery",
            help="Whether every key is kept in order through partition changes.",
            show_default="as it is",
        ),
    ] = None,
    config: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Topic configuration; may be repeated.")
    ] = None,
    delete_config: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Topic configuration that goes back to its default; may be repeated."
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Change it though something else writes to the topic, out of order."),
    ] = False,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Return once the change is started.")] = False,
    validate_only: common.ValidateOption = False,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Take the change in progress back instead of starting one.")
    ] = False,
    if_exists: common.IfExistsOption = False,
    reason: common.ReasonOption = None,
    output: common.OutputOption = common.OutputFormat.TABLE,
) -> None:
    """Change a topic's partition count, replicas, ordered delivery or configuration, and watch until it is done.

    --replica-assignment with --partitions gives the replicas of all partitions, as in kafka-topics; existing partitions
    keep theirs. Without --partitions it moves the replicas of existing partitions.
    """
    configs = alterations(config or [], delete_config or [])
    assignments = None if replica_assignment is None else parse_assignment(replica_assignment)
    replicas = replication_factor is not None or (assignments is not None and partitions is None)
    altered = ordered_delivery is not None or bool(configs)
    if cancel and (partitions is not None or replicas or altered or force or validate_only):
        raise ConfigError("--cancel", True, "can be combined with --no-wait only")
    if force and partitions is None and ordered_delivery is None:
        raise ConfigError(
            "--force", True, "give --partitions, --ordered-delivery or --no-ordered-delivery with it"
        )
    if replication_factor is not None and assignments is not None:
        raise ConfigError(
            "--replication-factor", replication_factor, "cannot be combined with --replica-assignment"
        )
    if (partitions is not None) + replicas + altered > 1:
        raise ConfigError(
            "--replication-factor" if partitions is None else "--partitions",
            replication_factor if partitions is None else partitions,
            "cannot be combined with the others of --partitions, --replication-factor, --ordered-delivery, --config and "
            "--delete-config: alter one after the other",
        )
    if partitions is None and not replicas and not altered and not cancel:
        raise ConfigError(
            "--partitions",
            None,
            "give the new partition count, --replication-factor, --replica-assignment, --ordered-delivery, "
            "--config, --delete-config, or --cancel",
        )
    from spark_ordered_kafka.client.schemas import (
        AlterTopicRequest,
        PartitionCountsRequest,
        ReplicationFactorsRequest,
        TopicPartitionCount,
        TopicReplicationFactor,
    )

    with common.connected(controller, reason, command_config=command_config) as client:
        if if_exists and not client.kafka_topics([topic]).topics:
            typer.echo(f"topic {topic} does not exist, nothing is done", err=True)
            return
        if cancel:
            _cancel(client, topic, no_wait, output)
        elif partitions is not None:
            added = None if assignments is None else _added(client, topic, assignments, partitions)
            count = TopicPartitionCount(topic=topic, partition_count=partitions, assignments=added)
            counts = PartitionCountsRequest(topics=[count], force=force, validate_only=validate_only)
            _change_count(client, counts, no_wait, output)
        elif replicas:
            item = TopicReplicationFactor(
                topic=topic, replication_factor=replication_factor, assignments=assignments
            )
            factors = ReplicationFactorsRequest(topics=[item], validate_only=validate_only)
            change_replicas(client, factors, no_wait, output)
        else:
            request = AlterTopicRequest(
                ordered_delivery=ordered_delivery, configs=configs, force=force, validate_only=validate_only
            )
            _alter(client, topic, request, no_wait, output)


def _added(
    client: ControllerClient, topic: str, assignments: dict[int, list[int]], partitions: int
) -> dict[int, list[int]]:
    """The assignment of those partitions that Kafka does not have yet."""
    if len(assignments) != partitions:
        raise ConfigError(
            "--replica-assignment",
            ",".join(":".join(map(str, assignments[p])) for p in sorted(assignments)),
            f"it has {len(assignments)} partitions: the replicas of all {partitions} are needed",
        )
    existing = len(client.topic(topic).partitions)
    return {partition: brokers for partition, brokers in assignments.items() if partition >= existing}


def alterations(config: list[str], deleted: list[str]) -> dict[str, str | None]:
    """What ``--config`` and ``--delete-config`` say, None for what is deleted; raises ConfigError for what is wrong."""
    configs: dict[str, str | None] = dict(common.parse_configs(config))
    for name in deleted:
        if configs.get(name) is not None:
            raise ConfigError("--delete-config", name, "--config sets it: give one or the other")
        if not name or "=" in name:
            raise ConfigError("--delete-config", name, "NAME is needed, for example retention.ms")
        configs[name] = None
    return configs


def _change_count(
    client: ControllerClient, request: PartitionCountsRequest, no_wait: bool, output: common.OutputFormat
) -> None:
    topic, count = request.topics[0].topic, request.topics[0].partition_count
    answer = client.alter_partition_counts(request)
    result = answer.topics[0]
    common.raise_if_refused(result)
    if result.change_id is None:
        common.report(answer, f"topic {topic} could be changed to {count} partitions", output)
    elif no_wait:
        common.report(
            answer, f"topic {topic} is changing to {count} partitions, change {result.change_id}", output
        )
    else:
        body, last = _await_done(client, topic, result.change_id)
        what = f"{last.source} -> {last.target} partitions"
        common.report(body, f"topic {topic}: {what}, {_cost(client, topic, last)}", output)


def _alter(
    client: ControllerClient,
    topic: str,
    request: AlterTopicRequest,
    no_wait: bool,
    output: common.OutputFormat,
) -> None:
    answer = client.alter_topic(topic, request)
    common.raise_if_refused(answer)
    done = [name if value is None else f"{name}={value}" for name, value in request.configs.items()]
    altered = f"configuration altered ({', '.join(done)})" if done else ""
    wanted = None if request.ordered_delivery is None else f"ordered delivery {_on(request.ordered_delivery)}"
    if request.validate_only:
        common.report(answer, f"topic {topic} could be altered", output)
    elif wanted is None:
        common.report(answer, f"topic {topic}: {altered}", output)
    elif answer.change_id is None:
        common.report(answer, f"topic {topic}: {_joined(altered, f'{wanted} already')}", output)
    elif no_wait:
        common.report(
            answer, f"topic {topic}: {_joined(altered, f'{wanted} with change {answer.change_id}')}", output
        )
    else:
        body, last = _await_done(client, topic, answer.change_id)
        cost = _cost(client, topic, last)
        common.report(body, f"topic {topic}: {_joined(altered, wanted)}, {cost}", output)


def _await_done(
    client: ControllerClient, topic: str, change_id: str
) -> tuple[TopicChange, FinishedChangeView]:
    """Watch a change to its end; raises RequestError unless it was done."""
    from spark_ordered_kafka.cli.change_progress import follow_change

    body, last = follow_change(client, topic, change_id)
    if last.error is not None:
        common.raise_if_refused(last.error)
    if last.outcome != "done":
        raise invalid_request(f"change {last.id} of topic {topic!r} was {last.outcome}")
    return body, last


def _cost(client: ControllerClient, topic: str, last: FinishedChangeView) -> str:
    epoch = client.topic(topic).layout_epoch
    return f"layout epoch {epoch}, {last.fenced} fenced, writers paused {last.writer_pause_seconds:.3f} s"


def _on(ordered_delivery: bool) -> str:
    return "on" if ordered_delivery else "off"


def _joined(*parts: str) -> str:
    return ", ".join(part for part in parts if part)


def _cancel(client: ControllerClient, topic: str, no_wait: bool, output: common.OutputFormat) -> None:
    from spark_ordered_kafka.cli.change_progress import follow_change, shown

    result = client.cancel_change(topic)
    if result.change_id is None or no_wait:
        common.report(result, f"topic {topic}: change {result.change_id} is being cancelled", output)
        return
    body, last = follow_change(client, topic, result.change_id)
    common.report(body, f"topic {topic}: change {last.id}, {shown(last)}, {last.outcome}", output)
