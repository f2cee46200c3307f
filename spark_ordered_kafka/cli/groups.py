"""``ordered-kafka groups``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from spark_ordered_kafka.cli import common
from spark_ordered_kafka.cli.group_listing import delete, list_groups
from spark_ordered_kafka.cli.group_reset import GroupOption, reset_offsets
from spark_ordered_kafka.cli.grouping import command_group
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


app.command("list")(list_groups)


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
app.command()(delete)


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
