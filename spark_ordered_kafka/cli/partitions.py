"""``ordered-kafka topics delete-records``."""

from __future__ import annotations

from typing import Annotated

import typer

from spark_ordered_kafka.cli import common


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
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before deleting.")] = False,
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
