"""``ordered-kafka autoscale``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spark_ordered_kafka.cli import common, load_files
from spark_ordered_kafka.cli.grouping import command_group
from spark_ordered_kafka.cli.units import shown_seconds, shown_time
from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.extras import require
from spark_ordered_kafka.updates import updated

if TYPE_CHECKING:
    from spark_ordered_kafka.client.schemas import AutoscaleTopic
    from spark_ordered_kafka.controller.autoscale.simulation import Moment, Simulated

app = command_group("autoscale")
_STEPS = 1_000_000


@app.command()
def status(
    controller: common.ControllerOption = None,
    command_config: common.CommandConfigOption = None,
    topic: Annotated[
        str | None,
        typer.Option(
            "--topic", metavar="TOPIC", help="Name of the topic.", show_default="all that are observed"
        ),
    ] = None,
    output: common.OutputOption = common.OutputFormat.TABLE,
) -> None:
    """Load, proposed count, latest decision and changes of topics."""
    with common.connected(controller, command_config=command_config) as client:
        found = client.autoscale()
    if topic is not None:
        found = updated(found, topics=[row for row in found.topics if row.topic == topic])
        if not found.topics:
            typer.echo(f"error: topic {topic} is not under management, or may not be described", err=True)
            raise typer.Exit(common.REFUSED)
    if output.is_data:
        common.print_body(found, output)
        return
    rows = found.topics if topic is not None else [row for row in found.topics if row.mode != "off"]
    if not rows:
        typer.echo('no topic is observed: set autoscale.mode = "observe" in the controllers\' configuration')
        return
    columns = ("TOPIC", "MODE", "COUNT", "TARGET", "PEAK", "DECISION")
    common.print_table(columns, [_cells(row) for row in rows])
    for row in rows:
        if row.decision is not None and row.decision.action != "none":
            typer.echo(f"\n{row.topic}: {row.decision.reason}")
    if topic is not None:
        for one in rows[0].changes:
            typer.echo(f"\n{shown_time(one.at)}: {one.source} to {one.target} partitions was requested")


def _cells(row: AutoscaleTopic) -> tuple[object, ...]:
    decision, observation = row.decision, row.observation
    peak = None if observation is None else f"{100 * observation.peak:.0f} %"
    if decision is None:
        return row.topic, row.mode, row.count, None, peak, None
    shown = (
        decision.action
        if decision.action == "none"
        else f"{decision.action}: {decision.held_by or decision.outcome}"
    )
    return row.topic, row.mode, row.count, decision.target, peak, shown


@app.command()
def simulate(
    config: Annotated[Path, typer.Option(metavar="FILE", help="The controller's configuration file.")],
    topic: Annotated[
        str, typer.Option("--topic", metavar="TOPIC", help="The topic whose settings are taken.")
    ],
    load: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help=f"CSV file with the columns {', '.join(load_files.COLUMNS)}; the last two may be missing.",
        ),
    ] = None,
    shape: Annotated[
        str | None, typer.Option(metavar="TIME:RATE,...", help="A load made up, as in 0:1MB,1h:20MB,2h:1MB.")
    ] = None,
    initial: Annotated[
        int, typer.Option(min=1, max=10_000, help="Partitions that the topic was created with.")
    ] = 1,
    partitions: Annotated[
        int | None,
        typer.Option(
            min=1, max=10_000, help="Partitions at the beginning.", show_default="those of --initial"
        ),
    ] = None,
    record_size: Annotated[
        int, typer.Option(min=1, help="Bytes of a record, where the load does not have records per second.")
    ] = 1000,
    output: common.OutputOption = common.OutputFormat.TABLE,
) -> None:
    """What the policy of a configuration file would do under a load, which nothing is changed for.

    Keys are taken to be spread evenly; the part of one hot key may be in the file.
    """
    require("controller", "ordered-kafka autoscale simulate")

    from spark_ordered_kafka.controller.autoscale import simulation
    from spark_ordered_kafka.controller.autoscale.configuration import KEYS, autoscale_settings
    from spark_ordered_kafka.controller.config import read_file

    if (load is None) == (shape is None):
        raise ConfigError("--load and --shape", None if load is None else str(load), "give one of the two")
    count = initial if partitions is None else partitions
    if count < initial:
        raise ConfigError("--partitions", count, f"it must be at least --initial, which is {initial}")
    points = (
        load_files.from_csv(load, record_size)
        if load is not None
        else load_files.from_shape(shape or "", record_size)
    )
    entries = read_file(config, os.environ)
    settings = autoscale_settings({name: value for name, value in entries.items() if name in KEYS})
    if (points[-1][0] - points[0][0]) / settings.interval > _STEPS:
        hint = f"the load lasts for more than {_STEPS} of them"
        raise ConfigError("autoscale.interval.ms", round(1000 * settings.interval), hint)
    rules = settings.of(topic)
    found = simulation.simulate(
        rules, [simulation.LoadPoint(*point) for point in points], initial, count, settings.interval
    )
    if output.is_data:
        common.print_data(_body(found), output)
        return
    common.print_table(("TIME (UTC)", "MB/s", "COUNT", "PEAK", "DECISION"), list(_timeline(found)))
    typer.echo(
        f"\n{len(found.changes)} changes; above the target for {shown_seconds(found.seconds_above_target)}"
    )
    for rule, seconds in sorted(found.held_back.items()):
        typer.echo(f"held back by {rule} for {shown_seconds(seconds)}")
    if rules.mode != "act":
        typer.echo(f'autoscale.mode is "{rules.mode}" for topic {topic}: a controller would change nothing')


@app.command()
def demo(
    directory: Annotated[
        Path | None, typer.Option("--dir", help="A new directory for the servers; kept. Default: temporary.")
    ] = None,
    kafka_version: Annotated[str, typer.Option(help="Apache Kafka version: 4.3.1 or 3.9.2.")] = "4.3.1",
) -> None:
    """Let a load rise and fall on real servers while the topic follows it, and check every record; about a minute.

    Exit code 1 when a record is out of order, lost or doubled.
    """
    require("local", "ordered-kafka autoscale demo")
    with common.new_directory(directory, "ordered-kafka-autoscale-") as chosen:
        chosen.mkdir(parents=True, exist_ok=True)
        violations = _demo(chosen, kafka_version)
    raise typer.Exit(0 if violations == 0 else 1)


def _demo(directory: Path, kafka_version: str) -> int:
    from spark_ordered_kafka.cli import autoscale_demo

    typer.echo("each partition should take up to 300 records/s; the servers start")
    last, announced = (0.0, 0), set[float]()

    def show(elapsed: float, written: int, read: int, topic: AutoscaleTopic) -> None:
        nonlocal last
        rate = (written - last[1]) / max(elapsed - last[0], 0.001)
        last = (elapsed, written)
        bar = "#" * topic.count
        typer.echo(
            f"{elapsed:5.0f} s  {rate:6.0f} records/s  partitions {bar:<8} {topic.count}  behind {written - read:5}"
        )
        for change in reversed(topic.changes):
            if change.at not in announced:
                announced.add(change.at)
                typer.echo(f"         {change.source} to {change.target} partitions")

    report, changes = autoscale_demo.run(directory, kafka_version, show)
    for example in report.examples:
        typer.echo(example, err=True)
    typer.echo(
        f"{changes} changes; {report.records} records of {report.keys} keys: {report.out_of_order} out of order, "
        f"{report.lost} lost, {report.duplicated} doubled"
    )
    return report.violations


def _timeline(found: Simulated) -> Iterator[tuple[object, ...]]:
    """The first and last moment, and each whose decision differs from the one before."""
    last: tuple[object, ...] = ()
    for index, moment in enumerate(found.moments):
        decision = moment.decision
        now = (moment.count, decision.action, decision.held_by)
        if now != last or index == len(found.moments) - 1:
            yield _moment(moment)
        last = now


def _moment(moment: Moment) -> tuple[object, ...]:
    decision = moment.decision
    shown = decision.action if decision.action == "none" else f"{decision.action} to {decision.target}"
    if decision.held_by is not None:
        shown = f"{decision.action}: held by {decision.held_by}"
    at = datetime.fromtimestamp(moment.load.at, UTC).strftime("%a %Y-%m-%d %H:%M:%S")
    return at, f"{moment.load.bytes / 1e6:.1f}", moment.count, f"{100 * moment.peak:.0f} %", shown


def _body(found: Simulated) -> dict[str, object]:
    return {
        "moments": [
            {
                "at": moment.load.at,
                "bytes_per_second": moment.load.bytes,
                "records_per_second": moment.load.records,
                "count": moment.count,
                "peak": moment.peak,
                "action": moment.decision.action,
                "target": moment.decision.target,
                "held_by": moment.decision.held_by,
                "reason": moment.decision.reason,
            }
            for moment in found.moments
        ],
        "changes": [{"at": one.at, "source": one.source, "target": one.target} for one in found.changes],
        "seconds_above_target": found.seconds_above_target,
        "seconds_held_back": dict(found.held_back),
    }
