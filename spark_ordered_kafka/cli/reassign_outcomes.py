"""How reassignments end, and why they are refused, on stderr and in exit codes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NoReturn

import typer

from spark_ordered_kafka.cli import common
from spark_ordered_kafka.errors import ErrorCode

if TYPE_CHECKING:
    from spark_ordered_kafka.client.controller import ControllerClient
    from spark_ordered_kafka.client.schemas import PartitionResult, ReassignmentResult, ReassignmentView

_INTERRUPTED = 130
_SHOWN = 20
"""Errors of a refused request that are shown."""


def raise_unless_accepted(answer: ReassignmentResult, output: common.OutputFormat) -> None:
    """End the command if a partition was refused, with each error and the partitions that have it."""
    if any(row.error_code != ErrorCode.NONE for row in answer.partitions):
        end_as_refused(answer, output)


def end_as_refused(answer: ReassignmentResult, output: common.OutputFormat) -> NoReturn:
    """End the command with each error of the partitions."""
    if output.is_data:
        common.print_body(answer, output)
    for line in refusals(answer.partitions):
        typer.echo(f"error: {line}", err=True)
    raise typer.Exit(common.REFUSED)


def refusals(rows: Iterable[PartitionResult]) -> list[str]:
    """A line for each error, in the order of the rows; the first of them, and how many more there are."""
    found = {
        f"{row.error}: {row.error_message or 'no reason given'}": None
        for row in rows
        if row.error_code != ErrorCode.NONE
    }
    lines = list(found)
    more = len(lines) - _SHOWN
    return lines if more <= 0 else [*lines[:_SHOWN], f"{more} more, which --output json has"]


def follow_to_end(client: ControllerClient, request_id: int | None, output: common.OutputFormat) -> None:
    """Show a request's progress until it has ended, then how; None: the latest. Ends the command unless all is done."""
    view = followed(client, request_id)
    _report_end(view, output)
    if view.state != "done":
        raise typer.Exit(common.REFUSED)


def followed(client: ControllerClient, request_id: int | None) -> ReassignmentView:
    """Show a request's progress until it has ended; the request as it is then. Ctrl-C ends the command, but not the request."""
    from spark_ordered_kafka.cli.reassign_progress import follow_request

    try:
        return follow_request(client, "latest" if request_id is None else request_id)
    except KeyboardInterrupt:
        option = "" if request_id is None else f" --request {request_id}"
        name = "the latest request" if request_id is None else f"request {request_id}"
        typer.echo(
            f"{name} continues: `ordered-kafka reassign status{option} --follow` shows it, "
            f"`ordered-kafka reassign cancel{option}` takes it back",
            err=True,
        )
        raise typer.Exit(_INTERRUPTED) from None


def _report_end(view: ReassignmentView, output: common.OutputFormat) -> None:
    """How a request ended; the error of each partition that was not reassigned on stderr."""
    from spark_ordered_kafka.cli.reassign_progress import counts, overall
    from spark_ordered_kafka.cli.units import shown_seconds

    for line in failures(view):
        typer.echo(f"error: {line}", err=True)
    if output.is_data:
        common.print_body(view, output)
        return
    took = "" if view.ended_at is None else f" in {shown_seconds(view.ended_at - view.created_at)}"
    typer.echo(f"request {view.request_id} {view.state}: {counts(view)}; {overall(view)}{took}")


def failures(view: ReassignmentView) -> list[str]:
    """A line for each partition that was not reassigned: several of its replicas may have the same error."""
    moving = (ErrorCode.NONE, ErrorCode.REASSIGNMENT_IN_PROGRESS)
    found = {
        f"{row.topic}-{row.partition}: {row.error}: {row.error_message or 'no reason given'}": None
        for row in view.replicas
        if row.error_code not in moving
    }
    return list(found)
