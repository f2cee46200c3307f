"""``ordered-kafka topics``."""

from __future__ import annotations

from typing import Annotated

import typer

from spark_ordered_kafka.cli import common
from spark_ordered_kafka.cli.alter import alter
from spark_ordered_kafka.cli.grouping import command_group
from spark_ordered_kafka.cli.replicas import ReplicaAssignmentOption, parse_assignment
from spark_ordered_kafka.cli.topic_describing import describe
from spark_ordered_kafka.cli.topic_listing import list_topics
from spark_ordered_kafka.cli.topic_removal import delete, delete_records, release
from spark_ordered_kafka.errors import ConfigError, ErrorCode, RequestError

app = command_group("topics")


@app.command()
def create(
    topic: common.TopicOption,
    controller: common.ControllerOption = None,
    command_config: common.CommandConfigOption = None,
    partitions: Annotated[
        int | None, typer.Option(help="Partitions; the count can never go below it.", show_default="1")
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(help="Replicas of each partition.", show_default="3, or the number of brokers"),
    ] = None,
    replica_assignment: ReplicaAssignmentOption = None,
    hash_name: Annotated[
        str, typer.Option("--hash", metavar="NAME", help="Hash of keys: murmur3, murmur2 or crc32.")
    ] = "murmur3",
    ordered_delivery: Annotated[
        bool,
        typer.Option(
            "--ordered-delivery/--no-ordered-delivery",
            help="Keep every key in order through partition changes.",
        ),
    ] = True,
    config: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Topic configuration; may be repeated.")
    ] = None,
    if_not_exists: Annotated[
        bool,
        typer.Option(
            "--if-not-exists",
            help="Do nothing, instead of failing, where the topic is under management already.",
        ),
    ] = False,
    validate_only: common.ValidateOption = False,
    reason: common.ReasonOption = None,
    output: common.OutputOption = common.OutputFormat.TABLE,
) -> None:
    """Create a topic whose partition count can grow and shrink with every key in order."""
    from spark_ordered_kafka.client.schemas import CreateTopicRequest

    assignments = None if replica_assignment is None else parse_assignment(replica_assignment)
    if assignments is not None and (partitions is not None or replication_factor is not None):
        raise ConfigError(
            "--replica-assignment",
            replica_assignment,
            "cannot be combined with --partitions or --replication-factor: it says both",
        )
    if partitions is None:
        partitions = 1 if assignments is None else len(assignments)
    with common.connected(controller, reason, command_config=command_config) as client:
        request = CreateTopicRequest(
            topic=topic,
            partitions=partitions if assignments is None else None,
            replication_factor=replication_factor,
            assignments=assignments,
            hash=hash_name,
            ordered_delivery=ordered_delivery,
            configs=common.parse_configs(config or []),
            validate_only=validate_only,
        )
        try:
            result = client.create_topic(request)
        except RequestError as error:
            if not if_not_exists or error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
            # Fails where it is not under management.
            client.change(topic)
            typer.echo(f"topic {topic} exists, nothing is done", err=True)
            return
    line = f"created topic {topic} with {partitions} partitions, hash {hash_name}"
    if validate_only:
        line = f"topic {topic} could be created with {partitions} partitions"
    common.report(result, line, output)


@app.command()
def adopt(
    topic: common.TopicOption,
    controller: common.ControllerOption = None,
    command_config: common.CommandConfigOption = None,
    hash_name: Annotated[
        str,
        typer.Option(
            "--hash",
            metavar="NAME",
            help="Hash that its producers place keys by: murmur2 (Java), crc32 (librdkafka) or murmur3.",
        ),
    ] = "murmur2",
    force: Annotated[
        bool, typer.Option("--force", help="Adopt it though its records lie elsewhere than the hash says.")
    ] = False,
    validate_only: common.ValidateOption = False,
    reason: common.ReasonOption = None,
    output: common.OutputOption = common.OutputFormat.TABLE,
) -> None:
    """Take a topic that exists in Kafka, with its data, under management."""
    from spark_ordered_kafka.client.schemas import AdoptTopicRequest

    with common.connected(controller, reason, command_config=command_config) as client:
        request = AdoptTopicRequest(hash=hash_name, force=force, validate_only=validate_only)
        result = client.adopt_topic(topic, request)
    done = "could be adopted" if validate_only else "is under management"
    common.report(result, f"topic {topic} {done} with hash {hash_name}", output)


app.command("list")(list_topics)
app.command()(describe)
app.command()(alter)
app.command()(release)
app.command()(delete)
app.command("delete-records")(delete_records)
