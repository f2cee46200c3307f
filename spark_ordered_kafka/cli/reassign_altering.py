"""``ordered-kafka reassign cancel`` and ``throttle``: of a request that goes on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from spark_ordered_kafka.cli.output import (
    REFUSED,
    CommandConfigOption,
    ControllerOption,
    OutputFormat,
    OutputOption,
    ReasonOption,
    connected,
    exit_on_error,
    print_body,
    tell,
)
from spark_ordered_kafka.cli.reassign_options import MOST_BYTES, NoWaitOption, RequestOption, ValidateOption
from spark_ordered_kafka.cli.reassign_outcomes import followed, refusals
from spark_ordered_kafka.errors import ConfigError, ErrorCode

if TYPE_CHECKING:
    from pydantic import BaseModel

    from spark_ordered_kafka.client.schemas import ReassignmentResult, ReplicaProgress

_NONE = "none"


def cancel(
    request: RequestOption = None,
    no_wait: NoWaitOption = False,
    validate_only: ValidateOption = False,
    controller: ControllerOption = None,
    command_config: CommandConfigOption = None,
    reason: ReasonOption = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Take a reassignment back, and wait until nothing of it goes on; partitions that are in place already stay there."""
    with connected(controller, reason, command_config=command_config) as client:
        answer = client.cancel_reassignment(
            "latest" if request is None else request, validate_only=validate_only
        )
        _raise_if_ended(answer, output)
        if no_wait or validate_only or answer.request_id is None:
            told = "could be cancelled" if validate_only else "is being cancelled"
            ended = {(row.topic, row.partition): row.error_message for row in answer.partitions}
            _tell_each(answer, {place: why or told for place, why in ended.items()}, output)
            return
        view = followed(client, answer.request_id)
    outcomes = {(row.topic, row.partition): _outcome(row) for row in view.replicas}
    _tell_each(view, outcomes, output)
    if view.cancelled == 0:
        typer.echo(
            f"error: request {view.request_id} was {view.state} before it could be cancelled", err=True
        )
        raise typer.Exit(REFUSED)


def _raise_if_ended(answer: ReassignmentResult, output: OutputFormat) -> None:
    """End the command if there is nothing to cancel; else what has ended stays as it is, which is no error."""
    if any(row.error_code == ErrorCode.NONE for row in answer.partitions):
        return
    if output is OutputFormat.JSON:
        print_body(answer)
    for line in refusals(answer.partitions):
        typer.echo(f"error: {line}", err=True)
    raise typer.Exit(REFUSED)


def _outcome(row: ReplicaProgress) -> str:
    if row.error_code == ErrorCode.NONE:
        return "done"
    if row.error_code == ErrorCode.OPERATION_NOT_ATTEMPTED:
        return "cancelled"
    return f"{row.error}: {row.error_message}"


def _tell_each(body: BaseModel, outcomes: Mapping[tuple[str, int], str], output: OutputFormat) -> None:
    if output is OutputFormat.JSON:
        print_body(body)
        return
    for (topic, partition), told in outcomes.items():
        typer.echo(f"{topic}-{partition}: {told}")


def alter_throttle(
    request: RequestOption = None,
    throttle: Annotated[
        str | None,
        typer.Option(
            metavar=f"B|{_NONE}",
            help="Bytes per second that each broker may send and receive.",
            show_default="as it is",
        ),
    ] = None,
    replica_alter_log_dirs_throttle: Annotated[
        str | None,
        typer.Option(
            metavar=f"B|{_NONE}",
            help="Bytes per second that each broker may copy between its log directories.",
            show_default="as it is",
        ),
    ] = None,
    validate_only: ValidateOption = False,
    controller: ControllerOption = None,
    command_config: CommandConfigOption = None,
    reason: ReasonOption = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Change how fast a reassignment that goes on may copy."""
    options = {"throttle": throttle, "replica_alter_log_dirs_throttle": replica_alter_log_dirs_throttle}
    with exit_on_error():
        # A limit that is left out stays, so those given alone are sent.
        limits = {name: _limit(name, value) for name, value in options.items() if value is not None}
        if not limits:
            raise ConfigError("--throttle", None, "give it, --replica-alter-log-dirs-throttle, or both")
    from spark_ordered_kafka.cli.units import shown_rate
    from spark_ordered_kafka.client.schemas import ReassignmentThrottleRequest

    body = ReassignmentThrottleRequest(**limits, validate_only=validate_only)
    with connected(controller, reason, command_config=command_config) as client:
        view = client.alter_reassignment_throttle("latest" if request is None else request, body)
    tell(
        view,
        f"request {view.request_id} {'could have' if validate_only else 'has'} throttle {shown_rate(view.throttle)}, "
        f"log dirs throttle {shown_rate(view.replica_alter_log_dirs_throttle)}",
        output,
    )


def _limit(name: str, value: str) -> int | None:
    if value == _NONE:
        return None
    limit = int(value) if value.isascii() and value.isdecimal() and len(value) <= len(str(MOST_BYTES)) else 0
    if not 0 < limit <= MOST_BYTES:
        option = f"--{name.replace('_', '-')}"
        raise ConfigError(option, value, f"bytes per second are needed, from 1 to {MOST_BYTES}, or {_NONE}")
    return limit
