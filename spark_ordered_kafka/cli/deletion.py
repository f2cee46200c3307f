"""``ordered-kafka topics delete``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from spark_ordered_kafka.cli import common

if TYPE_CHECKING:
    from spark_ordered_kafka.client.controller import ControllerClient


def delete(
    topic: Annotated[
        list[str], typer.Option("--topic", metavar="TOPIC", help="Name of the topic; may be repeated.")
    ],
    controller: common.ControllerOption = None,
    command_config: common.CommandConfigOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before deleting.")] = False,
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
        absent = _absent(client, topic) if if_exists else set()
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


def _absent(client: ControllerClient, topics: Sequence[str]) -> set[str]:
    return {*topics} - {one.topic for one in client.kafka_topics(topics).topics}
