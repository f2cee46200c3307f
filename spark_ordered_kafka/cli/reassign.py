"""``ordered-kafka reassign``, and its ``execute``, with the options and texts of ``kafka-reassign-partitions``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from spark_ordered_kafka.cli import common
from spark_ordered_kafka.cli.grouping import command_group
from spark_ordered_kafka.cli.reassign_altering import alter_throttle, cancel
from spark_ordered_kafka.cli.reassign_options import (
    INT32_MAX,
    MAX_BYTES,
    REASSIGNMENT_JSON_FILE,
    JsonFileOption,
    LogDirsThrottleOption,
    NoWaitOption,
    TimeoutOption,
)
from spark_ordered_kafka.cli.reassign_outcomes import follow_to_end, raise_unless_accepted
from spark_ordered_kafka.cli.reassign_plan import plan
from spark_ordered_kafka.cli.reassign_reading import list_reassignments, status, verify
from spark_ordered_kafka.errors import ConfigError, UnavailableError
from spark_ordered_kafka.updates import updated

if TYPE_CHECKING:
    from spark_ordered_kafka.client.controller import ControllerClient
    from spark_ordered_kafka.client.schemas import (
        PartitionAssignment,
        PartitionReassignment,
        ReassignmentRequest,
        ReassignmentResult,
        VerifiedPartition,
    )

_ANY = "any"
"""In Kafka's JSON: any log directory."""

app = command_group("reassign")


@app.command()
def execute(
    reassignment_json_file: JsonFileOption = None,
    rollback: Annotated[
        int | None,
        typer.Option(
            metavar="ID",
            min=1,
            max=INT32_MAX,
            help="Instead of a plan: undo this request, so that its partitions are where they were before it.",
        ),
    ] = None,
    throttle: Annotated[
        int | None,
        typer.Option(
            metavar="B",
            min=1,
            max=MAX_BYTES,
            help="Bytes per second that each broker may send and receive.",
            show_default="no limit",
        ),
    ] = None,
    replica_alter_log_dirs_throttle: LogDirsThrottleOption = None,
    additional: Annotated[
        bool, typer.Option("--additional", help="Begin though other reassignments are in progress.")
    ] = False,
    allow_replication_factor_change: Annotated[
        bool,
        typer.Option(
            "--allow-replication-factor-change", help="The plan may give partitions more or fewer replicas."
        ),
    ] = False,
    no_elect_leaders: Annotated[
        bool, typer.Option("--no-elect-leaders", help="Do not elect preferred leaders at the end.")
    ] = False,
    timeout: TimeoutOption = None,
    no_wait: NoWaitOption = False,
    validate_only: common.ValidateOption = False,
    controller: common.ControllerOption = None,
    command_config: common.CommandConfigOption = None,
    reason: common.ReasonOption = None,
    output: common.OutputOption = common.OutputFormat.TABLE,
) -> None:
    """Reassign partitions as a plan says, and show the progress until all are in place.

    Begins nothing if part of the plan is refused. Ctrl-C stops watching; the reassignment continues.
    """
    partitions = _plan(reassignment_json_file, rollback)
    from spark_ordered_kafka.client.schemas import ReassignmentRequest

    request = ReassignmentRequest(
        partitions=partitions,
        rollback=rollback,
        throttle=throttle,
        replica_alter_log_dirs_throttle=replica_alter_log_dirs_throttle,
        additional=additional,
        allow_replication_factor_change=allow_replication_factor_change,
        elect_leaders=not no_elect_leaders,
        validate_only=validate_only,
        timeout_ms=timeout,
    )
    with common.connected(controller, reason, command_config=command_config) as client:
        if validate_only:
            answer = _asked(client, request, output)
            count = len(answer.partitions)
            common.report(answer, f"{count} partition{'' if count == 1 else 's'} could be reassigned", output)
            return
        answer = _begin(client, request, output)
        if no_wait and output.is_data:
            common.print_body(answer, output)
        elif not no_wait and answer.request_id is not None:
            follow_to_end(client, answer.request_id, output)


app.command()(plan)
app.command()(status)
app.command()(verify)
app.command("list")(list_reassignments)
app.command()(cancel)
app.command("throttle")(alter_throttle)


def _plan(file: BinaryIO | None, rollback: int | None) -> list[PartitionReassignment] | None:
    if file is None:
        if rollback is None:
            raise ConfigError(REASSIGNMENT_JSON_FILE, None, "give it, or --rollback")
        return None
    if rollback is not None:
        raise ConfigError("--rollback", rollback, f"cannot be combined with {REASSIGNMENT_JSON_FILE}")
    from spark_ordered_kafka.cli.reassign_files import read_partitions

    return read_partitions(file)


def _begin(
    client: ControllerClient, request: ReassignmentRequest, output: common.OutputFormat
) -> ReassignmentResult:
    """Start it, and print what kafka-reassign-partitions does; on stderr if stdout is for JSON."""
    from spark_ordered_kafka.cli.reassign_texts import current_assignment, started

    to_stderr = output.is_data
    before = current_assignment(_as_it_is(client, request, output))
    try:
        answer = _asked(client, request, output)
    except (UnavailableError, KeyboardInterrupt):
        # The reassignment may have begun, and then this is the only copy of the former assignment.
        typer.echo(before, err=to_stderr)
        raise
    typer.echo(before, err=to_stderr)
    typer.echo(started((row.topic, row.partition) for row in answer.partitions), err=to_stderr)
    typer.echo(f"Request id: {answer.request_id}", err=to_stderr)
    return answer


def _asked(
    client: ControllerClient, request: ReassignmentRequest, output: common.OutputFormat
) -> ReassignmentResult:
    answer = client.reassign(request)
    raise_unless_accepted(answer, output)
    for warning in answer.warnings:
        typer.echo(f"warning: {warning}", err=True)
    return answer


def _as_it_is(
    client: ControllerClient, request: ReassignmentRequest, output: common.OutputFormat
) -> list[PartitionAssignment]:
    """Where the replicas of its partitions are, preferred leader first."""
    from spark_ordered_kafka.client.schemas import PartitionAssignment

    tps = [(row.topic, row.partition) for row in request.partitions or ()]
    if request.partitions is None:
        checked = client.reassign(updated(request, validate_only=True))
        raise_unless_accepted(checked, output)
        tps = [(row.topic, row.partition) for row in checked.partitions]
    replicas = {tp: row.replicas for tp, row in _verified(client, {tp: [] for tp in tps}).items()}
    found = _verified(client, replicas)
    rows = []
    for topic, partition in replicas:
        dirs = {one.broker: one.current_log_dir or _ANY for one in found[topic, partition].log_dirs}
        brokers = replicas[topic, partition]
        rows.append(
            PartitionAssignment(
                topic=topic,
                partition=partition,
                replicas=brokers,
                log_dirs=[dirs[broker] for broker in brokers],
            )
        )
    return rows


def _verified(
    client: ControllerClient, replicas: Mapping[tuple[str, int], list[int]]
) -> dict[tuple[str, int], VerifiedPartition]:
    from spark_ordered_kafka.client.schemas import PartitionReassignment, VerifyRequest

    rows = [
        # The answer has a directory only for replicas whose directory is asked for; any will do.
        PartitionReassignment(
            topic=topic, partition=partition, replicas=brokers, log_dirs=["/"] * len(brokers)
        )
        for (topic, partition), brokers in replicas.items()
    ]
    found = client.verify_reassignment(VerifyRequest(partitions=rows)).partitions if rows else []
    return {(row.topic, row.partition): row for row in found}
