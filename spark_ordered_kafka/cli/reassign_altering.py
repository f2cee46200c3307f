"""``ordered-kafka reassign cancel`` and ``throttle``, for a running request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from spark_ordered_kafka.cli import common
from spark_ordered_kafka.cli.reassign_options import MAX_BYTES, NoWaitOption, RequestOption
from spark_ordered_kafka.cli.reassign_outcomes import end_as_refused, followed
from spark_ordered_kafka.errors import ConfigError, ErrorCode

if TYPE_CHECKING:
    from pydantic import BaseModel

    from spark_ordered_kafka.client.schemas import ReplicaProgress

_NONE = "none"


def cancel(
    request: RequestOption = None,
    no_wait: NoWaitOption = False,
    validate_only: common.ValidateOption = False,
    controller: common.ControllerOption = None,
    command_config: common.CommandConfigOption = None,
    reason: common.ReasonOption = None,
    output: common.OutputOption = common.OutputFormat.TABLE,
) -> None:
    """Cancel a reassignment and wait until it has ended; partitions that are in place already stay there."""
    with common.connected(controller, reason, command_config=command_config) as client:
        answer = client.cancel_reassignment(
            "latest" if request is None else request, validate_only=validate_only
        )
        # Else what has ended stays as it is, which is no error.
        if all(row.error_code != ErrorCode.NONE for row in answer.partitions):
            end_as_refused(answer, output)
        if no_wait or validate_only or answer.request_id is None:
            message = "could be cancelled" if validate_only else "is being cancelled"
            ended = {(row.topic, row.partition): row.error_message for row in answer.partitions}
            _report_each(answer, {partition: why or message for partition, why in ended.items()}, output)
            return
        view = followed(client, answer.request_id)
    outcomes = {(row.topic, row.partition): _outcome(row) for row in view.replicas}
    _report_each(view, outcomes, output)
    if view.cancelled == 0:
        typer.echo(
            f"error: request {view.request_id} was {view.state} before it could be cancelled", err=True
        )
        raise typer.Exit(common.REFUSED)


def _outcome(row: ReplicaProgress) -> str:
    if row.error_code == ErrorCode.NONE:
        return "done"
    if row.error_code == ErrorCode.OPERATION_NOT_ATTEMPTED:
        return "cancelled"
    return f"{row.error}: {row.error_message}"


def _report_each(
    body: BaseModel, outcomes: Mapping[tuple[str, int], str], output: common.OutputFormat
) -> None:
    if output.is_data:
        common.print_body(body, output)
        return
    for (topic, partition), message in outcomes.items():
        typer.echo(f"{topic}-{partition}: {message}")


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
    validate_only: common.ValidateOption = False,
    controller: common.ControllerOption = None,
    command_config: common.CommandConfigOption = None,
    reason: common.ReasonOption = None,
    output: common.OutputOption = common.OutputFormat.TABLE,
) -> None:
    """Change how fast a running reassignment may copy."""
    options = {"throttle": throttle, "replica_alter_log_dirs_throttle": replica_alter_log_dirs_throttle}
    # A limit that is left out stays, so those given alone are sent.
    limits = {name: _limit(name, value) for name, value in options.items() if value is not None}
    if not limits:
        raise ConfigError("--throttle", None, "give it, --replica-alter-log-dirs-throttle, or both")
    from spark_ordered_kafka.cli.units import shown_rate
    from spark_ordered_kafka.client.schemas import ReassignmentThrottleRequest

    body = ReassignmentThrottleRequest(**limits, validate_only=validate_only)
    with common.connected(controller, reason, command_config=command_config) as client:
        view = client.alter_reassignment_throttle("latest" if request is None else request, body)
    common.report(
        view,
        f"request {view.request_id} {'could have' if validate_only else 'has'} throttle {shown_rate(view.throttle)}, "
        f"log dirs throttle {shown_rate(view.replica_alter_log_dirs_throttle)}",
        output,
    )


def _limit(name: str, value: str) -> int | None:
    if value == _NONE:
        return None
    limit = int(value) if value.isascii() and value.isdecimal() and len(value) <= len(str(MAX_BYTES)) else 0
    if not 0 < limit <= MAX_BYTES:
        option = f"--{name.replace('_', '-')}"
        raise ConfigError(option, value, f"bytes per second are needed, from 1 to {MAX_BYTES}, or {_NONE}")
    return limit
