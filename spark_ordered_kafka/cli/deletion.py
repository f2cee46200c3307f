"""``ordered-kafka topics delete``."""

from __future__ import annotations

from typing import Annotated

import typer

from spark_ordered_kafka.cli.output import (
    REFUSED,
    CommandConfigOption,
    ControllerOption,
    OutputFormat,
    OutputOption,
    ReasonOption,
    connected,
    print_body,
)


def delete(
    topic: Annotated[
        list[str], typer.Option("--topic", metavar="TOPIC", help="Name of the topic; may be repeated.")
    ],
    controller: ControllerOption = None,
    command_config: CommandConfigOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before deleting.")] = False,
    validate_only: Annotated[bool, typer.Option("--validate-only", help="Only check the request.")] = False,
    reason: ReasonOption = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Delete topics with all they hold; their writers end with an error."""
    from spark_ordered_kafka.client.schemas import DeleteTopicsRequest

    if not yes and not validate_only:
        typer.confirm(f"Delete {', '.join(topic)} with all records?", abort=True, err=True)
    with connected(controller, reason, command_config=command_config) as client:
        answer = client.delete_topics(DeleteTopicsRequest(topics=topic, validate_only=validate_only))
    failed = [row for row in answer.topics if row.error_code != 0]
    for row in failed:
        typer.echo(f"error: topic {row.topic}: {row.error}: {row.error_message}", err=True)
    if output is OutputFormat.JSON:
        print_body(answer)
    else:
        done = "could be deleted" if validate_only else "deleted"
        for row in answer.topics:
            if row not in failed:
                typer.echo(f"topic {row.topic}: {done}")
    if failed:
        raise typer.Exit(REFUSED)
