"""What ``ordered-kafka topics describe`` prints of a topic under management, and of one beyond it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import TYPE_CHECKING

import typer

from spark_ordered_kafka.cli import common
from spark_ordered_kafka.listed import listed

if TYPE_CHECKING:
    from spark_ordered_kafka.client.schemas import GroupPosition, KafkaTopicView, PartitionView, TopicView

_NAMED_GROUPS = 3


def print_managed(view: TopicView) -> None:
    """A topic under management."""
    from spark_ordered_kafka.cli.change_progress import shown

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
    _print_configs(view.configs)
    columns = ("PARTITION", "STATUS", "LEADER", "REPLICAS", "ISR", "OFFSETS", "SIZE", "WAITS FOR")
    common.print_table(columns, [_row(partition) for partition in view.partitions])


def print_unmanaged(view: KafkaTopicView) -> None:
    """A topic that is not under management."""
    internal = "  internal to Kafka" if view.internal else ""
    typer.echo(
        f"topic {view.topic}  id {view.topic_id}  partitions {len(view.partitions)}  not under management{internal}"
    )
    _print_configs(view.configs)
    print_partitions([view], with_topics=False)


def print_partitions(views: list[KafkaTopicView], *, with_topics: bool = True) -> None:
    """A row for each partition, as of ``kafka-topics --describe``."""
    columns = ("PARTITION", "LEADER", "REPLICAS", "ISR")
    rows = [
        (
            *((view.topic,) if with_topics else ()),
            row.partition,
            "none" if row.leader < 0 else row.leader,
            ",".join(map(str, row.replicas)),
            ",".join(map(str, row.isr)),
        )
        for view in views
        for row in view.partitions
    ]
    common.print_table(("TOPIC", *columns) if with_topics else columns, rows)


def _print_configs(configs: Mapping[str, str] | None) -> None:
    if configs:
        shown = "  ".join(f"{name}={value}" for name, value in sorted(configs.items()))
        typer.echo(f"configuration {shown}")


def _ranges(numbers: list[int]) -> str:
    """``3, 5-8`` for ascending numbers."""
    runs = [
        [number for _, number in run]
        for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])
    ]
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


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
    return f"group {listed(groups, _NAMED_GROUPS, lambda group: f'{group.group} (lag {_lag(group, row)})')}"


def _lag(group: GroupPosition, row: PartitionView) -> int:
    start, end = row.log_start or 0, row.log_end or 0
    return end - max(start, start if group.offset is None else group.offset)
