"""``ordered-kafka groups reset-offsets``, with the options of ``kafka-consumer-groups``."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from spark_ordered_kafka.cli import common
from spark_ordered_kafka.cli.completion import complete_group
from spark_ordered_kafka.cli.kafka_connection import BootstrapServerOption, KafkaConfigOption, client_conf
from spark_ordered_kafka.cli.lists import parse_ids
from spark_ordered_kafka.cli.times import parse_datetime, parse_duration
from spark_ordered_kafka.errors import ConfigError

if TYPE_CHECKING:
    from spark_ordered_kafka.client.group_admin import NewOffset, Target

_COLUMNS = ("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "NEW-OFFSET")
GroupOption = Annotated[
    str,
    typer.Option(
        "--group", metavar="GROUP", help="Name of the consumer group.", autocompletion=complete_group
    ),
]


def reset_offsets(
    group: GroupOption,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            metavar="TOPIC[:N,N,...]",
            help="Name of a topic, and some of its partitions; may be repeated.",
        ),
    ] = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="All topics that the group has committed offsets for.")
    ] = False,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the first record.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="Behind the last record.")] = False,
    to_datetime: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="To the first record that is not older: 2026-11-23T08:00:00, of UTC unless it ends in an offset "
            "such as +01:00.",
        ),
    ] = None,
    by_duration: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION", help="To the first record that is not older than that: PT2H, P1DT30M."
        ),
    ] = None,
    to_offset: Annotated[int | None, typer.Option(metavar="N", min=0, help="To this offset.")] = None,
    shift_by: Annotated[
        int | None, typer.Option(metavar="N", help="So many offsets on, or back if it is negative.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show the new offsets; this is the default.")
    ] = False,
    execute: Annotated[bool, typer.Option("--execute", help="Commit the new offsets.")] = False,
    bootstrap_server: BootstrapServerOption = None,
    controller: common.ControllerOption = None,
    command_config: KafkaConfigOption = None,
    output: common.OutputOption = common.OutputFormat.TABLE,
) -> None:
    """Move a consumer group to other offsets; changes nothing without --execute.

    Its consumers must be stopped. In topics with ordered delivery every key is read on from one point, without a gap: where
    an offset would leave one, the partition goes further back, and a line says so.
    """
    if dry_run and execute:
        raise ConfigError("--dry-run", True, "cannot be combined with --execute: give one")
    target = _target(
        {
            "--to-earliest": to_earliest or None,
            "--to-latest": to_latest or None,
            "--to-datetime": to_datetime,
            "--by-duration": by_duration,
            "--to-offset": to_offset,
            "--shift-by": shift_by,
        }
    )
    scopes = _scopes(topic or [], all_topics)
    conf = client_conf(bootstrap_server, controller, command_config) | {"group.id": group}
    from spark_ordered_kafka.client.group_admin import OffsetReset
    from spark_ordered_kafka.client.options import consumer_options

    with OffsetReset(consumer_options(conf).connection, group) as reset:
        if all_topics:
            scopes = dict.fromkeys(reset.admin.committed_topics(group))
        # First: what a running group has committed is no basis.
        reset.admin.check_idle(group)
        rows = [row for name, some in scopes.items() for row in reset.plan(name, some, target)]
        if execute and rows:
            reset.execute(rows)
    _print(group, rows, execute, output)


def _target(given: dict[str, str | int | bool | None]) -> Target:
    """The one position that is given; raises ConfigError for none or several."""
    from spark_ordered_kafka.client.group_admin import Target

    found = {name: value for name, value in given.items() if value is not None}
    if len(found) != 1:
        first = next(iter(found), "--to-earliest")
        value = found.get(first)
        raise ConfigError(first, value, f"exactly one of {', '.join(given)} is needed")
    ((name, value),) = found.items()
    if name == "--to-earliest":
        return Target("earliest")
    if name == "--to-latest":
        return Target("latest")
    if name == "--to-datetime":
        return Target("time", parse_datetime(name, str(value)))
    if name == "--by-duration":
        return Target("time", int(1000 * time.time()) - parse_duration(name, str(value)))
    return Target("offset" if name == "--to-offset" else "shift", int(value or 0))


def _scopes(topics: Sequence[str], all_topics: bool) -> dict[str, set[int] | None]:
    """Topics, and the partitions of those that are not meant whole."""
    if all_topics == bool(topics):
        raise ConfigError("--topic", ", ".join(topics) or None, "give it, or --all-topics")
    scopes: dict[str, set[int] | None] = {}
    for one in topics:
        name, colon, numbers = one.partition(":")
        some = set(parse_ids("--topic", numbers)) if colon else None
        if not name or some == set():
            raise ConfigError("--topic", one, "TOPIC or TOPIC:N,N,... is needed")
        known = scopes.get(name, set())
        scopes[name] = None if some is None or known is None else known | some
    return scopes


def _print(group: str, rows: Sequence[NewOffset], execute: bool, output: common.OutputFormat) -> None:
    if output.is_data:
        shown = [
            {
                "topic": one.topic,
                "partition": one.partition,
                "current_offset": one.current,
                "new_offset": one.new,
                "asked_offset": one.asked,
            }
            for one in rows
        ]
        common.print_data({"group": group, "executed": execute, "partitions": shown}, output)
        return
    common.print_table(_COLUMNS, [(group, one.topic, one.partition, one.current, one.new) for one in rows])
    for one in rows:
        if one.new < one.asked:
            typer.echo(
                f"{one.topic}-{one.partition} goes to {one.new} instead of {one.asked}: its keys have earlier records "
                "elsewhere that are read again",
                err=True,
            )
    if not rows:
        typer.echo("there is nothing to reset", err=True)
    elif not execute:
        typer.echo("nothing is changed: --execute commits these offsets", err=True)
