"""``ordered-kafka topics describe`` and ``topics delete-records``: partitions and what they hold."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer

from spark_ordered_kafka.cli import common
from spark_ordered_kafka.errors import OrderedKafkaError

if TYPE_CHECKING:
    from spark_ordered_kafka.client.controller import ControllerClient
    from spark_ordered_kafka.client.schemas import GroupPosition, PartitionView, TopicView

_NAMED_GROUPS = 3


def describe(
    topic: common.TopicOption,
    controller: common.ControllerOption = None,
    command_config: common.CommandConfigOption = None,
    output: common.OutputOption = common.OutputFormat.TABLE,
) -> None:
    """A topic's counts, change and partitions, and what removed partitions wait for.

    OFFSETS counts from the log's start to its end: the records, the markers that end transactions, and what was aborted. The
    SIZE, in bytes, is that of the leader's log.
    """
    from spark_ordered_kafka.cli.change_progress import shown

    with common.connected(controller, command_config=command_config) as client:
        view = _view(client, topic)
    if output is common.OutputFormat.JSON:
        common.print_body(view)
        return
    typer.echo(
        f"topic {view.topic}  id {view.topic_id}  partitions {view.undeleted_partition_count}  "
        f"initial {view.initial_partition_count}  epoch {view.layout_epoch}  hash {view.hash}  "
        f"ordered {'yes' if view.ordered_delivery else 'no'}"
    )
    if view.change is not None:
        typer.echo(f"changing {shown(view.change)}: {view.change.step} (change {view.change.id})")
    if view.last_change is not None:
        last = view.last_change
        reason = "" if last.error is None else f": {last.error.error}: {last.error.error_message}"
        typer.echo(f"last change {shown(last)}: {last.outcome}{reason}")
    if (ids := view.transactional_ids) is not None and ids.known > 0:
        typer.echo(
            f"transactional ids of writers {ids.known}  idle {ids.idle}  of these fenced and not used since {ids.fenced}"
        )
    if view.stray_partitions:
        typer.echo(
            f"partitions {_ranges(view.stray_partitions)} were made by no change that was committed: what lies there is "
            "delivered as misrouted"
        )
    columns = ("PARTITION", "STATUS", "LEADER", "REPLICAS", "ISR", "OFFSETS", "SIZE", "WAITS FOR")
    common.print_table(columns, [_row(partition) for partition in view.partitions])


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
    if output is common.OutputFormat.JSON:
        common.print_body(answer)
    elif not answer.partitions:
        typer.echo(f"topic {topic} has no removed partitions")
    else:
        done = "could be emptied" if validate_only else "emptied"
        for row in answer.partitions:
            if row not in failed:
                typer.echo(f"topic {topic} partition {row.partition}: {done}, log start {row.log_start}")
    if failed:
        raise typer.Exit(common.REFUSED)


def _ranges(numbers: list[int]) -> str:
    """``3, 5-8`` for ascending numbers."""
    runs = [
        [number for _, number in run]
        for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])
    ]
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def _view(client: ControllerClient, topic: str) -> TopicView:
    """With details; without them when a broker that has them does not answer."""
    try:
        return client.topic(topic, details=True)
    except OrderedKafkaError as error:
        if not error.retriable:
            raise
        view = client.topic(topic)
        typer.echo(f"warning: what the partitions hold is not known: {error}", err=True)
        return view


def _row(row: PartitionView) -> tuple[object, ...]:
    replicas, isr = (",".join(map(str, brokers)) for brokers in (row.replicas, row.isr))
    known = row.log_start is not None and row.log_end is not None
    offsets = (row.log_end or 0) - (row.log_start or 0) if known else None
    waits = None
    if row.status == "marked" and known and row.waiting_groups is not None:
        waits = _waits(row.waiting_groups, row)
    return row.partition, row.status, row.leader, replicas, isr, offsets, row.size, waits


def _waits(groups: list[GroupPosition], row: PartitionView) -> str:
    if not groups:
        return "retention or topics delete-records"
    named = ", ".join(f"{group.group} (lag {_lag(group, row)})" for group in groups[:_NAMED_GROUPS])
    more = len(groups) - _NAMED_GROUPS
    return f"group {named}" + (f" and {more} more" if more > 0 else "")


def _lag(group: GroupPosition, row: PartitionView) -> int:
    start, end = row.log_start or 0, row.log_end or 0
    return end - max(start, start if group.offset is None else group.offset)
