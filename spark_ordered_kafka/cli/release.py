"""``ordered-kafka topics release``."""

from __future__ import annotations

from typing import Annotated

import typer

from spark_ordered_kafka.cli import common


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
