"""``ordered-kafka topics release``, ``delete`` and ``delete-records``."""

from __future__ import annotations

from typing import Annotated

import typer

from spark_ordered_kafka.cli import common

_YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask before deleting.")]


def release(
    topic: common.TopicOption,
    controller: common.ControllerOption = None,
    command_config: common.CommandConfigOption = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Release it though consumer groups have not read all from before its last partition change.",
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before releasing.")] = False,
    validate_only: common.ValidateOption = False,
    reason: common.ReasonOption = None,
    output: common.OutputOption = common.OutputFormat.TABLE,
) -> None:
    """Release a topic from management: the opposite of adopt.

    Kafka keeps the topic, its records and its configuration. Ordered writers and readers end with an error, and what readers
    have not read from before the last partition change has no order any more.
    """
    from spark_ordered_kafka.client.schemas import ReleaseTopicRequest

    with common.connected(controller, reason, command_config=command_config) as client:
        view = client.topic(topic)
        if len(view.partitions) > view.undeleted_partition_count:
            typer.echo(
                f"note: partitions {view.undeleted_partition_count} to {len(view.partitions) - 1} were removed; Kafka's own "
                "producers write to them again",
                err=True,
            )
        if not yes and not validate_only:
            # All that can be refused is, before anybody is asked.
            client.release_topic(topic, ReleaseTopicRequest(force=force, validate_only=True))
            typer.confirm(
                f"Release {topic}? Ordered writers and readers of it end with an error.", abort=True, err=True
            )
        result = client.release_topic(topic, ReleaseTopicRequest(force=force, validate_only=validate_only))
    done = "could be released" if validate_only else "is released from management; Kafka keeps it"
    common.report(result, f"topic {topic} {done}", output)


def delete(
    topic: Annotated[
        list[str], typer.Option("--topic", metavar="TOPIC", help="Name of the topic; may be repeated.")
    ],
    controller: common.ControllerOption = None,
    command_config: common.CommandConfigOption = None,
    yes: _YesOption = False,
    if_exists: common.IfExistsOption = False,
    validate_only: common.ValidateOption = False,
    reason: common.ReasonOption = None,
    output: common.OutputOption = common.OutputFormat.TABLE,
) -> None:
    """Delete topics with all they hold; their writers end with an error."""
    from spark_ordered_kafka.client.schemas import DeleteTopicsRequest

    if not yes and not validate_only:
        typer.confirm(f"Delete {', '.join(topic)} with all records?", abort=True, err=True)
    with common.connected(controller, reason, command_config=command_config) as client:
        absent = set[str]()
        if if_exists:
            absent = set(topic) - {one.topic for one in client.kafka_topics(topic).topics}
        answer = client.delete_topics(DeleteTopicsRequest(topics=topic, validate_only=validate_only))
    rows = [row for row in answer.topics if row.topic not in absent]
    failed = common.print_errors(rows, lambda row: f"topic {row.topic}: ")
    if output.is_data:
        common.print_body(answer, output)
    else:
        for row in answer.topics:
            if row not in rows:
                typer.echo(f"topic {row.topic} does not exist, nothing is done", err=True)
        done = "could be deleted" if validate_only else "deleted"
        for row in rows:
            if row not in failed:
                typer.echo(f"topic {row.topic}: {done}")
    if failed:
        raise typer.Exit(common.REFUSED)


def delete_records(
    topic: common.TopicOption,
    controller: common.ControllerOption = None,
    command_config: common.CommandConfigOption = None,
    partition: Annotated[
        list[int] | None,
        typer.Option(
            metavar="N", help="Removed partition; may be repeated.", show_default="all that were removed"
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Delete though consumer groups have not read all of it.")
    ] = False,
    yes: _YesOption = False,
    validate_only: common.ValidateOption = False,
    reason: common.ReasonOption = None,
    output: common.OutputOption = common.OutputFormat.TABLE,
) -> None:
    """Delete what partitions that a shrink removed still hold."""
    from spark_ordered_kafka.client.schemas import DeleteRecordsRequest

    if not yes and not validate_only:
        which = (
            "all removed partitions" if partition is None else f"partition {', '.join(map(str, partition))}"
        )
        typer.confirm(f"Delete all records of {which} of {topic}?", abort=True, err=True)
    with common.connected(controller, reason, command_config=command_config) as client:
        request = DeleteRecordsRequest(partitions=partition, force=force, validate_only=validate_only)
        answer = client.delete_records(topic, request)
    failed = common.print_errors(answer.partitions, lambda row: "")
    if output.is_data:
        common.print_body(answer, output)
    elif not answer.partitions:
        typer.echo(f"topic {topic} has no removed partitions")
    else:
        done = "could be emptied" if validate_only else "emptied"
        for row in answer.partitions:
            if row not in failed:
                typer.echo(f"topic {topic} partition {row.partition}: {done}, log start {row.log_start}")
    if failed:
        raise typer.Exit(common.REFUSED)
