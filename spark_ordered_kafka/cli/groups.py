"""``ordered-kafka groups``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from spark_ordered_kafka.cli import common
from spark_ordered_kafka.cli.completion import complete_group
from spark_ordered_kafka.cli.group_reset import GroupOption, reset_offsets
from spark_ordered_kafka.cli.grouping import command_group
from spark_ordered_kafka.cli.kafka_connection import BootstrapServerOption, KafkaConfigOption, broker_conf
from spark_ordered_kafka.errors import OrderedKafkaError, RequestError
from spark_ordered_kafka.listed import listed

if TYPE_CHECKING:
    from spark_ordered_kafka.client.schemas import PartitionPosition, RequiredPosition

app = command_group("groups")
# Those of kafka-consumer-groups --describe, and two of ours.
_COLUMNS = (
    "GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID",
    "STATUS", "WAITS FOR",
)  # fmt: skip
_NAMED = 3


@app.command("list")
def list_groups(
    bootstrap_server: BootstrapServerOption = None,
    command_config: KafkaConfigOption = None,
    output: common.OutputOption = common.OutputFormat.TABLE,
) -> None:
    """Consumer groups of the cluster with their states, by name.

    Leaves out the ledgers of writers, which are groups without members (ordered:TOPIC:WRITER:TASK).
    """
    from spark_ordered_kafka.client.group_admin import GroupAdmin

    found = GroupAdmin(broker_conf(bootstrap_server, command_config)).groups()
    shown = [one for one in found if not one.is_ledger]
    if output.is_data:
        rows = [{"group": one.group, "state": one.state, "type": one.kind} for one in shown]
        common.print_data({"groups": rows}, output)
        return
    common.print_table(("GROUP", "STATE", "TYPE"), [(one.group, one.state, one.kind) for one in shown])
    if len(shown) < len(found):
        typer.echo(f"ledgers of writers are left out: {len(found) - len(shown)}", err=True)


@app.command()
def describe(
    group: GroupOption,
    controller: common.ControllerOption = None,
    command_config: common.CommandConfigOption = None,
    topic: Annotated[
        str | None,
        typer.Option(
            "--topic", metavar="TOPIC", help="Name of the topic.", show_default="all that the group reads"
        ),
    ] = None,
    output: common.OutputOption = common.OutputFormat.TABLE,
) -> None:
    """Positions and lag of a group in topics under management, and what its blocked partitions wait for."""
    with common.connected(controller, command_config=command_config) as client:
        answer = client.group_positions(group, topic)
    if output.is_data:
        common.print_body(answer, output)
    elif not answer.topics:
        typer.echo(f"group {group} has committed nothing in topics under management")
    else:
        rows = [(group, one.topic, *row) for one in answer.topics for row in _rows(one.partitions)]
        common.print_table(_COLUMNS, rows)


app.command("reset-offsets")(reset_offsets)


@app.command()
def delete(
    group: Annotated[
        list[str],
        typer.Option(
            "--group",
            metavar="GROUP",
            help="Name of the group; may be repeated.",
            autocompletion=complete_group,
        ),
    ],
    bootstrap_server: BootstrapServerOption = None,
    command_config: KafkaConfigOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before deleting.")] = False,
    output: common.OutputOption = common.OutputFormat.TABLE,
) -> None:
    """Delete consumer groups without members, with the offsets that they have committed."""
    groups = list(dict.fromkeys(group))
    from spark_ordered_kafka.client.group_admin import GroupAdmin

    admin = GroupAdmin(broker_conf(bootstrap_server, command_config))
    if not yes:
        typer.confirm(f"Delete {', '.join(groups)} with all offsets?", abort=True, err=True)
    failed = admin.delete(groups)
    for one in (name for name in groups if name in failed):
        typer.echo(f"error: group {one}: {_said(failed[one])}", err=True)
    if output.is_data:
        rows = [{"group": one, "error": failed[one].name if one in failed else "NONE"} for one in groups]
        common.print_data({"groups": rows}, output)
    else:
        for one in groups:
            if one not in failed:
                typer.echo(f"group {one}: deleted")
    if failed:
        raise typer.Exit(common.REFUSED)


def _rows(partitions: Sequence[PartitionPosition]) -> Iterator[tuple[object, ...]]:
    positions = {row.partition: row.position for row in partitions}
    for row in partitions:
        member = row.member
        owner = (None, None, None) if member is None else (member.consumer_id, member.host, member.client_id)
        yield row.partition, row.position, row.log_end, row.lag, *owner, row.status, _waits(row, positions)


def _waits(row: PartitionPosition, positions: Mapping[int, int | None]) -> str | None:
    if not row.waits_for:
        return None

    def shown(one: RequiredPosition) -> str:
        position = positions.get(one.partition)
        # An existing member of ordered consumers may still hold the keys' state.
        reached = position is not None and position >= one.offset
        return f"partition {one.partition} to {'hand over at' if reached else 'reach'} {one.offset}"

    return listed(row.waits_for, _NAMED, shown)


def _said(error: OrderedKafkaError) -> str:
    return f"{error.name}: {error.message}" if isinstance(error, RequestError) else str(error)
