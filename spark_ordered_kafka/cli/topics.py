"""``ordered-kafka topics``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from spark_ordered_kafka.cli.output import (
    ControllerOption,
    OutputFormat,
    OutputOption,
    connected,
    print_body,
    print_table,
    raise_if_refused,
)
from spark_ordered_kafka.errors import ConfigError, ErrorCode, RequestError

if TYPE_CHECKING:
    from pydantic import BaseModel

    from spark_ordered_kafka.client.controller import ControllerClient

app = typer.Typer(help="Create, show and change topics under management.", no_args_is_help=True)
TopicOption = Annotated[str, typer.Option("--topic", metavar="TOPIC", help="Name of the topic.")]


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
            configs=_configs(config or []),
            validate_only=validate_only,
        )
        result = client.create_topic(request)
    if output is OutputFormat.JSON:
        print_body(result)
    elif validate_only:
        typer.echo(f"topic {topic} could be created with {partitions} partitions")
    else:
        typer.echo(f"created topic {topic} with {partitions} partitions, hash {hash_name}")


@app.command("list")
def list_topics(controller: ControllerOption, output: OutputOption = OutputFormat.TABLE) -> None:
    """All topics under management."""
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
            None if t.change is None else f"{t.change.source} -> {t.change.target}, {t.change.step}",
        )
        for t in topics.topics
    ]
    print_table(("TOPIC", "PARTITIONS", "INITIAL", "EPOCH", "HASH", "CHANGE"), rows)


@app.command()
def describe(
    topic: TopicOption, controller: ControllerOption, output: OutputOption = OutputFormat.TABLE
) -> None:
    """A topic's counts, change and partitions."""
    with connected(controller) as client:
        view = client.topic(topic)
    if output is OutputFormat.JSON:
        print_body(view)
        return
    typer.echo(
        f"topic {view.topic}  id {view.topic_id}  partitions {view.undeleted_partition_count}  "
        f"initial {view.initial_partition_count}  epoch {view.layout_epoch}  hash {view.hash}  "
        f"ordered {'yes' if view.ordered_delivery else 'no'}"
    )
    if view.change is not None:
        change = view.change
        typer.echo(f"changing {change.source} -> {change.target}: {change.step} (change {change.id})")
    if view.last_change is not None:
        last = view.last_change
        reason = "" if last.error is None else f": {last.error.error}: {last.error.error_message}"
        typer.echo(f"last change {last.source} -> {last.target}: {last.outcome}{reason}")
    rows = [
        (p.partition, p.status, p.leader, ",".join(map(str, p.replicas)), ",".join(map(str, p.isr)))
        for p in view.partitions
    ]
    print_table(("PARTITION", "STATUS", "LEADER", "REPLICAS", "ISR"), rows)


@app.command()
def alter(
    topic: TopicOption,
    controller: ControllerOption,
    partitions: Annotated[int | None, typer.Option(help="New partition count; more or fewer.")] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Go on though something else writes to the topic, out of order.")
    ] = False,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Return once the change is started.")] = False,
    validate_only: Annotated[bool, typer.Option("--validate-only", help="Only check the request.")] = False,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Take the change in progress back instead of starting one.")
    ] = False,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Change a topic's partition count, and watch until the change has ended."""
    with connected(controller) as client:
        if cancel:
            if partitions is not None or force or validate_only:
                raise ConfigError(
                    "--cancel", True, "cannot be combined with --partitions, --force or --validate-only"
                )
            _cancel(client, topic, no_wait, output)
        elif partitions is None:
            raise ConfigError("--partitions", None, "give the new partition count, or --cancel")
        else:
            _change(client, topic, partitions, force, no_wait, validate_only, output)


def _change(
    client: ControllerClient,
    topic: str,
    partitions: int,
    force: bool,
    no_wait: bool,
    validate_only: bool,
    output: OutputFormat,
) -> None:
    from spark_ordered_kafka.cli.watch import watch
    from spark_ordered_kafka.client.schemas import PartitionCountsRequest, TopicPartitionCount

    count = TopicPartitionCount(topic=topic, partition_count=partitions)
    request = PartitionCountsRequest(topics=[count], force=force, validate_only=validate_only)
    answer = client.alter_partition_counts(request)
    result = answer.topics[0]
    raise_if_refused(result)
    if result.change_id is None:
        _tell(answer, f"topic {topic} could be changed to {partitions} partitions", output)
        return
    if no_wait:
        _tell(
            answer, f"topic {topic} is changing to {partitions} partitions, change {result.change_id}", output
        )
        return
    body, last = watch(client, topic, result.change_id)
    if last.error is not None:
        raise_if_refused(last.error)
    if last.outcome != "done":
        raise RequestError(
            ErrorCode.INVALID_REQUEST, f"change {last.id} of topic {topic!r} was {last.outcome}"
        )
    epoch = client.topic(topic).layout_epoch
    _tell(
        body,
        f"topic {topic}: {last.source} -> {last.target} partitions, layout epoch {epoch}, {last.fenced} fenced, "
        f"writers paused {last.writer_pause_seconds:.3f} s",
        output,
    )


def _cancel(client: ControllerClient, topic: str, no_wait: bool, output: OutputFormat) -> None:
    from spark_ordered_kafka.cli.watch import watch

    result = client.cancel_change(topic)
    if result.change_id is None or no_wait:
        _tell(result, f"topic {topic}: change {result.change_id} is being cancelled", output)
        return
    body, last = watch(client, topic, result.change_id)
    _tell(body, f"topic {topic}: change {last.id} to {last.target} partitions {last.outcome}", output)


def _tell(body: BaseModel, line: str, output: OutputFormat) -> None:
    if output is OutputFormat.JSON:
        print_body(body)
    else:
        typer.echo(line)


def _configs(pairs: list[str]) -> dict[str, str]:
    configs = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name:
            raise ConfigError("--config", pair, "NAME=VALUE is needed, for example retention.ms=60000")
        configs[name] = value
    return configs
