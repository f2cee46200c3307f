"""``ordered-kafka topics``."""

from __future__ import annotations

from typing import Annotated

import typer

from spark_ordered_kafka.cli.alter import alter
from spark_ordered_kafka.cli.output import (
    ControllerOption,
    OutputFormat,
    OutputOption,
    TopicOption,
    connected,
    parse_configs,
    print_body,
    print_table,
    tell,
)
from spark_ordered_kafka.cli.partitions import delete_records, describe

app = typer.Typer(help="Create, show and change topics under management.", no_args_is_help=True)


@app.command()
def create(
    topic: TopicOption,
    controller: ControllerOption,
    partitions: Annotated[int, typer.Option(help="Partitions; the count can never go below it.")] = 1,
    replication_factor: Annotated[
        int | None,
        typer.Option(help="Replicas of each partition.", show_default="3, or the number of brokers"),
    ] = None,
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
    validate_only: Annotated[bool, typer.Option("--validate-only", help="Only check the request.")] = False,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Create a topic whose partition count can grow and shrink with every key in order."""
    from spark_ordered_kafka.client.schemas import CreateTopicRequest

    with connected(controller) as client:
        request = CreateTopicRequest(
            topic=topic,
            partitions=partitions,
            replication_factor=replication_factor,
            hash=hash_name,
            ordered_delivery=ordered_delivery,
            configs=parse_configs(config or []),
            validate_only=validate_only,
        )
        result = client.create_topic(request)
    if output is OutputFormat.JSON:
        print_body(result)
    elif validate_only:
        typer.echo(f"topic {topic} could be created with {partitions} partitions")
    else:
        typer.echo(f"created topic {topic} with {partitions} partitions, hash {hash_name}")


@app.command()
def adopt(
    topic: TopicOption,
    controller: ControllerOption,
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
    validate_only: Annotated[bool, typer.Option("--validate-only", help="Only check the request.")] = False,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Take a topic that exists in Kafka, with its data, under management."""
    from spark_ordered_kafka.client.schemas import AdoptTopicRequest

    with connected(controller) as client:
        request = AdoptTopicRequest(hash=hash_name, force=force, validate_only=validate_only)
        result = client.adopt_topic(topic, request)
    done = "could be adopted" if validate_only else "is under management"
    tell(result, f"topic {topic} {done} with hash {hash_name}", output)


@app.command("list")
def list_topics(controller: ControllerOption, output: OutputOption = OutputFormat.TABLE) -> None:
    """All topics under management."""
    from spark_ordered_kafka.cli.watch import shown

    with connected(controller) as client:
        topics = client.topics()
    if output is OutputFormat.JSON:
        print_body(topics)
        return
    rows = [
        (
            t.topic,
            t.undeleted_partition_count,
            t.initial_partition_count,
            t.layout_epoch,
            t.hash,
            "yes" if t.ordered_delivery else "no",
            None if t.change is None else f"{shown(t.change)}, {t.change.step}",
        )
        for t in topics.topics
    ]
    print_table(("TOPIC", "PARTITIONS", "INITIAL", "EPOCH", "HASH", "ORDERED", "CHANGE"), rows)


app.command()(describe)
app.command()(alter)
app.command("delete-records")(delete_records)
