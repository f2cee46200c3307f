"""``ordered-kafka bench``: figures of the parts whose speed matters."""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spark_ordered_kafka.cli.grouping import command_group
from spark_ordered_kafka.cli.output import OutputFormat, OutputOption, exit_on_error, print_table

if TYPE_CHECKING:
    from spark_ordered_kafka.bench.clients import ClientsReport
    from spark_ordered_kafka.bench.reassign import ReassignReport

app = command_group("bench")


@app.callback()
def group() -> None:
    """Measure the parts whose speed matters."""


@app.command()
def gate(
    partitions: Annotated[
        list[int] | None, typer.Option(help="Kafka partitions of the topic; with --epochs, may be repeated.")
    ] = None,
    epochs: Annotated[list[int] | None, typer.Option(help="Layouts in its history.")] = None,
    repeats: Annotated[int, typer.Option(help="Calls timed per reader.")] = 15,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Time of one call of the gate, by default for 10,000 partitions x 100 epochs and 100,000 x 10."""
    from spark_ordered_kafka.bench.gate import run

    sizes = list(zip(partitions or [10_000, 100_000], epochs or [100, 10], strict=False))
    with exit_on_error():
        timings = [run(count, history, repeats) for count, history in sizes]
    if output is OutputFormat.JSON:
        typer.echo(json.dumps([asdict(timing) for timing in timings], indent=2))
        return
    print_table(
        ("PARTITIONS", "EPOCHS", "READER", "MEDIAN", "SLOWEST"),
        [
            (timing.partitions, timing.epochs, name, f"{reader.median_ms:.1f} ms", f"{reader.max_ms:.1f} ms")
            for timing in timings
            for name, reader in (
                ("caught up", timing.caught_up),
                ("at the start", timing.lagging),
                ("one partition at the start", timing.straggler),
            )
        ],
    )


@app.command()
def placement(
    brokers: Annotated[int, typer.Option(help="Brokers of the cluster.")] = 1_000,
    racks: Annotated[int, typer.Option(help="Racks that they are in; 0: none.")] = 3,
    partitions: Annotated[int, typer.Option(help="Partitions to place.")] = 200_000,
    replication_factor: Annotated[int, typer.Option(help="Replicas of each.")] = 3,
    repeats: Annotated[int, typer.Option(help="Plans of each kind.")] = 3,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Time of planning where replicas go, by default of 200,000 partitions on 1,000 brokers."""
    from spark_ordered_kafka.bench.placement import run

    with exit_on_error():
        report = run(brokers, racks, partitions, replication_factor, repeats)
    if output is OutputFormat.JSON:
        typer.echo(json.dumps(asdict(report), indent=2))
        return
    typer.echo(
        f"{brokers} brokers, {racks} racks, {partitions} partitions, replication factor {replication_factor}"
    )
    print_table(
        ("CAPACITY", "MEDIAN", "SLOWEST", "ON ALL RACKS", "MOST ON A BROKER", "LEAST"),
        [
            (
                plan.capacity,
                f"{plan.median_seconds:.2f} s",
                f"{plan.max_seconds:.2f} s (goal {report.goal_seconds:g} s)",
                f"{plan.spread:.1%}",
                plan.most,
                plan.least,
            )
            for plan in report.plans
        ],
    )


@app.command()
def clients(
    records: Annotated[int, typer.Option(help="Records per run of a client.")] = 500_000,
    value_bytes: Annotated[int, typer.Option(help="Bytes of a value.")] = 100,
    partitions: Annotated[int, typer.Option(help="Partitions of the topics.")] = 4,
    repeats: Annotated[int, typer.Option(help="Runs per client.")] = 7,
    producers: Annotated[int, typer.Option(help="Producers that are open at the partition changes.")] = 50,
    changes: Annotated[int, typer.Option(help="Partition changes, by turns up and down.")] = 6,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """OrderedProducer and OrderedConsumer beside confluent-kafka's own, and the pause of producers at a change.

    Starts ZooKeeper, Kafka and a controller in a temporary directory.
    """
    from spark_ordered_kafka.bench.clients import ClientsPlan, run
    from spark_ordered_kafka.config import Connection
    from spark_ordered_kafka.local import LocalCluster

    def say(line: str) -> None:
        typer.echo(line, err=True)

    with exit_on_error():
        plan = ClientsPlan(records, value_bytes, partitions, repeats, producers, changes)
        with (
            tempfile.TemporaryDirectory(prefix="ordered-kafka-bench-") as directory,
            LocalCluster(Path(directory), progress=say) as cluster,
        ):
            servers = {"bootstrap.servers": cluster.bootstrap_servers}
            report = run(Connection(servers, cluster.controller_url), plan, say)
    if output is OutputFormat.JSON:
        typer.echo(json.dumps(asdict(report), indent=2))
    else:
        _print_report(report)


def _print_report(report: ClientsReport) -> None:
    from spark_ordered_kafka.bench.figures import Spread

    def rate(name: str, spread: Spread) -> tuple[str, ...]:
        return name, *(f"{value:,.0f}/s" for value in (spread.median, spread.min, spread.max))

    def pause(name: str, spread: Spread, goal: str = "") -> tuple[str, ...]:
        return name, f"{spread.median:.2f} s{goal}", f"{spread.min:.2f} s", f"{spread.max:.2f} s"

    rows = []
    for kind, compared in (("producer", report.producer), ("consumer", report.consumer)):
        ratio = compared.ratio
        median = f"{ratio.median:.2f} (goal {compared.goal:.2f})"
        rows += [
            rate(f"plain {kind}", compared.plain),
            rate(f"ordered {kind}", compared.ordered),
            (f"{kind}, ordered / plain", median, f"{ratio.min:.2f}", f"{ratio.max:.2f}"),
        ]
    pauses = report.pauses
    rows += [
        pause(f"pause at {change.source} to {change.target} partitions", Spread.of(change.pauses))
        for change in pauses.changes
    ]
    name = f"pause, {pauses.producers} producers open"
    rows.append(pause(name, pauses.seconds, f" (goal {pauses.goal:.2f} s)"))
    print_table(("WHAT", "MEDIAN", "MIN", "MAX"), rows)


@app.command()
def reassign(
    brokers: Annotated[int, typer.Option(help="Brokers of the cluster that is planned for.")] = 1_000,
    partitions: Annotated[int, typer.Option(help="Partitions of it, with three replicas each.")] = 200_000,
    moved_partitions: Annotated[int, typer.Option(help="Partitions that are moved.")] = 100,
    moved_megabytes: Annotated[int, typer.Option(help="Megabytes in all of them.")] = 1_000,
    status_replicas: Annotated[
        int, typer.Option(help="Replicas of the request whose status is asked.")
    ] = 10_000,
    repeats: Annotated[int, typer.Option(help="Plans for each goal, and moves there and back.")] = 3,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Plans for a very large cluster; moves beside Kafka's own kafka-reassign-partitions; the status of a large request.

    Starts ZooKeeper, three Kafka brokers and a controller in a temporary directory.
    """
    from spark_ordered_kafka.bench.reassign import ReassignPlan, run
    from spark_ordered_kafka.config import Connection
    from spark_ordered_kafka.local import LocalCluster
    from spark_ordered_kafka.local.tools import kafka_tool

    def say(line: str) -> None:
        typer.echo(line, err=True)

    with exit_on_error():
        plan = ReassignPlan(brokers, partitions, moved_partitions, moved_megabytes, status_replicas, repeats)
        # What is to be measured is not the download.
        kafka_tool("kafka-reassign-partitions", "--version", progress=say)
        with (
            tempfile.TemporaryDirectory(prefix="ordered-kafka-bench-") as directory,
            LocalCluster(Path(directory), brokers=3, progress=say) as cluster,
        ):
            servers = {"bootstrap.servers": cluster.bootstrap_servers}
            report = run(Connection(servers, cluster.controller_url), kafka_tool, plan, say)
    if output is OutputFormat.JSON:
        typer.echo(json.dumps(asdict(report), indent=2))
    else:
        _print_reassign_report(report)


def _print_reassign_report(report: ReassignReport) -> None:
    from spark_ordered_kafka.bench.figures import Spread

    def row(name: str, spread: Spread, digits: int, unit: str, goal: float | None = None) -> tuple[str, ...]:
        median, least, most = (
            f"{value:.{digits}f}{unit}" for value in (spread.median, spread.min, spread.max)
        )
        return name, median if goal is None else f"{median} (goal {goal:g}{unit})", least, most

    planning, execution, status = report.planning, report.execution, report.status
    size = f"{planning.brokers:,} brokers, {planning.partitions:,} partitions"
    moved = f"{execution.partitions} partitions, {execution.bytes / 1e6:,.0f} MB, there and back"
    asked = f"status of {status.replicas:,} replicas"
    print_table(
        ("WHAT", "MEDIAN", "MIN", "MAX"),
        [
            *(
                row(f"plan: {timing.goal} ({size})", timing.seconds, 2, " s", planning.goal_seconds)
                for timing in planning.timings
            ),
            row(f"kafka-reassign-partitions ({moved})", execution.kafka, 2, " s"),
            row("kafka-reassign-partitions, with its start", execution.kafka_with_start, 2, " s"),
            row("ordered-kafka", execution.ordered, 2, " s"),
            row("ordered-kafka / kafka-reassign-partitions", execution.ratio, 2, "", execution.goal),
            row(f"{asked}, going on", status.running, 0, " ms", status.goal),
            row(f"{asked}, ended", status.ended, 0, " ms", status.goal),
        ],
    )
