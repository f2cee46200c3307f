"""``ordered-kafka reassign status``, ``verify`` and ``list``: they change nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from spark_ordered_kafka.cli import common
from spark_ordered_kafka.cli.reassign_options import REASSIGNMENT_JSON_FILE, JsonFileOption, RequestOption
from spark_ordered_kafka.cli.reassign_outcomes import follow_to_end
from spark_ordered_kafka.errors import ConfigError

if TYPE_CHECKING:
    from spark_ordered_kafka.client.schemas import ReassignmentSummary, ReassignmentView


def status(
    request: RequestOption = None,
    progress: Annotated[
        bool, typer.Option("--progress", help="Bytes of each replica that is being made.")
    ] = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="Show the progress until all are in place.")
    ] = False,
    controller: common.ControllerOption = None,
    command_config: common.CommandConfigOption = None,
    output: common.OutputOption = common.OutputFormat.TABLE,
) -> None:
    """How far a reassignment is. With --follow, ends with 0 only if every partition was reassigned."""
    if progress and follow:
        raise ConfigError("--progress", True, "cannot be combined with --follow")
    with common.connected(controller, command_config=command_config) as client:
        if follow:
            follow_to_end(client, request, output)
            return
        view = client.reassignment("latest" if request is None else request)
    if output.is_data:
        common.print_body(view, output)
    elif progress:
        _print_replicas(view)
    else:
        _print_summary(view)


def verify(
    reassignment_json_file: JsonFileOption = None,
    controller: common.ControllerOption = None,
    command_config: common.CommandConfigOption = None,
    output: common.OutputOption = common.OutputFormat.TABLE,
) -> None:
    """Whether partitions and log directories are as a plan says: 0 if all are, else 1.

    Prints what kafka-reassign-partitions --verify does. Leaves throttles alone: the controller removes those of requests.
    """
    if reassignment_json_file is None:
        raise ConfigError(REASSIGNMENT_JSON_FILE, None, "give it")
    from spark_ordered_kafka.cli.reassign_files import read_partitions

    partitions = read_partitions(reassignment_json_file)
    from spark_ordered_kafka.cli.reassign_texts import verification
    from spark_ordered_kafka.client.schemas import VerifyRequest

    with common.connected(controller, command_config=command_config) as client:
        found = client.verify_reassignment(VerifyRequest(partitions=partitions))
    if output.is_data:
        common.print_body(found, output)
    else:
        typer.echo(verification(found))
    if not found.complete:
        raise typer.Exit(common.REFUSED)


def list_reassignments(
    requests: Annotated[
        bool, typer.Option("--requests", help="The controller's requests instead, the newest first.")
    ] = False,
    controller: common.ControllerOption = None,
    command_config: common.CommandConfigOption = None,
    output: common.OutputOption = common.OutputFormat.TABLE,
) -> None:
    """List Kafka's ongoing reassignments, including those of other tools, as kafka-reassign-partitions --list does."""
    from spark_ordered_kafka.cli.reassign_texts import ongoing

    with common.connected(controller, command_config=command_config) as client:
        found = client.reassignments()
    if output.is_data:
        common.print_body(found, output)
    elif requests:
        _print_requests(found.requests)
    else:
        typer.echo(ongoing(found.ongoing))


def _print_summary(view: ReassignmentView) -> None:
    from spark_ordered_kafka.cli.reassign_progress import counts, overall, rate_and_eta
    from spark_ordered_kafka.cli.units import shown_rate, shown_time

    copied = overall(view)
    rows: list[tuple[str, object]] = [
        ("state", view.state),
        ("partitions", counts(view)),
        ("bytes", f"{copied}" if copied.percent is None else f"{copied} ({int(copied.percent)} %)"),
        ("rate", rate_and_eta(view) or None),
        ("throttle", shown_rate(view.throttle)),
        ("log dirs throttle", shown_rate(view.replica_alter_log_dirs_throttle)),
        ("requested by", f"{view.principal or '-'}, {shown_time(view.created_at)}"),
        ("ended", None if view.ended_at is None else shown_time(view.ended_at)),
        ("rollback of", view.rollback_of),
        *(("warning", warning) for warning in view.warnings),
    ]
    common.print_table(("REQUEST", str(view.request_id)), rows)


def _print_replicas(view: ReassignmentView) -> None:
    from spark_ordered_kafka.cli.reassign_progress import Copied
    from spark_ordered_kafka.cli.units import shown_bytes

    rows = []
    for row in view.replicas:
        known = row.denominator >= 0
        percent = Copied(row.numerator, row.denominator if known else None).percent
        total = shown_bytes(row.denominator) if known else None
        shown = None if percent is None else f"{int(percent)} %"
        replica = (row.topic, row.partition, row.broker, row.log_dir)
        rows.append((*replica, shown_bytes(row.numerator), total, shown, row.error))
    common.print_table(("TOPIC", "PARTITION", "BROKER", "LOG DIR", "COPIED", "OF", "PERCENT", "ERROR"), rows)


def _print_requests(requests: list[ReassignmentSummary]) -> None:
    from spark_ordered_kafka.cli.reassign_progress import counts, overall
    from spark_ordered_kafka.cli.units import shown_time

    rows = [
        (
            one.request_id,
            one.state,
            counts(one),
            overall(one),
            one.principal or None,
            shown_time(one.created_at),
        )
        for one in requests
    ]
    common.print_table(("REQUEST", "STATE", "PARTITIONS", "BYTES", "REQUESTED BY", "AT"), rows)
