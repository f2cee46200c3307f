"""``ordered-kafka topics delete``."""

from __future__ import annotations

from typing import Annotated

import typer

from spark_ordered_kafka.cli import common


def delete(
    topic: Annotated[
        list[str], typer.Option("--topic", metavar="TOPIC", help="Name of the topic; may be repeated.")
    ],
    controller: common.ControllerOption = None,
    command_config: common.CommandConfigOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before deleting.")] = False,
    validate_only: common.ValidateOption = False,
    reason: common.ReasonOption = None,
    output: common.OutputOption = common.OutputFormat.TABLE,
) -> None:
    """Delete topics with all they hold; their writers end with an error."""
    from spark_ordered_kafka.client.schemas import DeleteTopicsRequest

    if not yes and not validate_only:
        typer.confirm(f"Delete {', '.join(topic)} with all records?", abort=True, err=True)
    with common.connected(controller, reason, command_config=command_config) as client:
        answer = client.delete_topics(DeleteTopicsRequest(topics=topic, validate_only=validate_only))
    failed = common.print_errors(answer.topics, lambda row: f"topic {row.topic}: ")
    if output is common.OutputFormat.JSON:
        common.print_body(answer)
    else:
        done = "could be deleted" if validate_only else "deleted"
        for row in answer.topics:
            if row not in failed:
                typer.echo(f"topic {row.topic}: {done}")
    if failed:
        raise typer.Exit(common.REFUSED)
