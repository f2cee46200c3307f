"""``ordered-kafka demo``: the main job on embedded real servers, with live progress and a verdict."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.table import Table

from spark_ordered_kafka.cli import common
from spark_ordered_kafka.cli.grouping import command_group
from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.extras import require

if TYPE_CHECKING:
    from spark_ordered_kafka.demo import DemoReport, Progress

app = command_group("demo")

_SPARK = "spark"
"""Directory of the checkpoints: queries that find some would continue with topics that are not new."""


@app.command()
def demo(
    directory: Annotated[
        Path | None,
        typer.Option("--dir", help="A new directory for servers and checkpoints; kept. Default: temporary."),
    ] = None,
    brokers: Annotated[int, typer.Option(min=1, max=3, help="Kafka brokers to start.")] = 1,
    kafka_version: Annotated[str, typer.Option(help="Apache Kafka version: 4.3.1 or 3.9.2.")] = "4.3.1",
    secure: Annotated[
        bool, typer.Option("--secure", help="With TLS, logins and ACLs everywhere, as local up --secure.")
    ] = False,
) -> None:
    """Stream 500,000 records between two topics that grow and shrink meanwhile, and check every one.

    Exit code 1 when a record is out of order, lost or doubled.
    """
    console = Console()
    require("local", "ordered-kafka demo")
    if directory is not None and (directory / _SPARK).exists():
        raise ConfigError("--dir", str(directory), "a demo has run there; name another directory")
    with common.new_directory(directory, "ordered-kafka-demo-") as chosen:
        violations = _run(console, chosen, brokers, kafka_version, secure)
    raise typer.Exit(0 if violations == 0 else 1)


def _run(console: Console, directory: Path, brokers: int, kafka_version: str, secure: bool) -> int:
    # Spark takes a second to import: not before the command is really run.
    from spark_ordered_kafka.client.controller import ControllerClient
    from spark_ordered_kafka.credentials import controller_credentials
    from spark_ordered_kafka.demo import Demo, DemoPlan, spark_session
    from spark_ordered_kafka.local import LocalCluster
    from spark_ordered_kafka.local.processes import ended_by_sigterm

    began = time.monotonic()
    plan = DemoPlan(replication_factor=brokers)
    with (
        ended_by_sigterm(),
        _bars(console) as bars,
        LocalCluster(
            directory / "servers", brokers=brokers, kafka_version=kafka_version, secure=secure
        ) as cluster,
    ):
        url, login = cluster.controller_url, cluster.controller_options()
        given = {name: value for name, value in login.items() if name != "controller.url"}
        options = login | {f"kafka.{name}": value for name, value in cluster.kafka_properties().items()}
        console.print(
            f"Kafka {kafka_version} at {cluster.bootstrap_servers}, controller {cluster.controller_url}"
        )
        written = bars.add_task("written", total=plan.records, note="")
        copied = bars.add_task("copied, re-keyed", total=plan.records, note="")
        announced: set[str] = set()

        def show(progress: Progress) -> None:
            _update(bars, written, copied, progress)
            if progress.change and progress.change not in announced:
                announced.add(progress.change)
                console.print(f"[dim]{time.monotonic() - began:6.1f} s[/dim]  {progress.change}")

        with (
            spark_session(directory / _SPARK, options) as spark,
            ControllerClient(url, credentials=controller_credentials(given, url)) as controller,
        ):
            report = Demo(spark, controller, directory / _SPARK, plan, show).run()
    _print_report(console, report, time.monotonic() - began)
    return report.violations


def _bars(console: Console) -> Bars:
    return Bars(
        SpinnerColumn(),
        TextColumn("{task.description:<17}"),
        BarColumn(),
        TextColumn("{task.completed:>9,.0f}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}"),
        console=console,
    )


def _update(bars: Bars, written: TaskID, copied: TaskID, progress: Progress) -> None:
    notes = [f"{topic}: {count} partitions" for topic, count in progress.counts.items()]
    bars.update(written, completed=progress.written, note=notes[0])
    bars.update(copied, completed=progress.copied, note=notes[1])


def _print_report(console: Console, report: DemoReport, seconds: float) -> None:
    changes = Table("topic", "partitions", "took", "writers paused", title="Partition changes under load")
    for topic, change in report.changes:
        changes.add_row(
            topic,
            f"{change.source} → {change.target}",
            f"{change.finished_at - change.started_at:.2f} s",
            f"{change.writer_pause_seconds * 1000:.0f} ms",
        )
    console.print(changes)
    verdict = Table(
        "check", "records", "keys", "lost", "twice", "out of order", title="Output, every record checked"
    )
    for name, found in (("as delivered", report.delivered), ("by (layout_epoch, offset)", report.recovered)):
        verdict.add_row(
            name,
            *(
                f"{n:,}"
                for n in (found.records, found.keys, found.lost, found.duplicated, found.out_of_order)
            ),
        )
    console.print(verdict)
    for example in (*report.delivered.examples, *report.recovered.examples):
        console.print(f"[red]{example}[/red]")
    pauses = sorted(change.writer_pause_seconds for _, change in report.changes)
    console.print(
        f"{report.written:,} records, {len(report.changes)} changes, longest pause of writers {pauses[-1]:.2f} s,"
        f" [bold]{report.violations} violations[/bold], {seconds:.0f} s"
    )
