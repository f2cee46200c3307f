"""``python -m benchmarks``: run parts, list them, make a table of a run's JSON."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import asdict, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from benchmarks import machine, tables
from benchmarks.bench import Bench
from benchmarks.figures import Report
from benchmarks.parts import PARTS, Part
from benchmarks.scale import FULL, QUICK, TINY
from spark_ordered_kafka.cli.common import exit_on_error, print_table
from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.local.processes import ended_by_sigterm

app = typer.Typer(
    help="How fast this is, beside Spark's own Kafka connector and others.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


class Size(StrEnum):
    """How much is measured."""

    TINY = "tiny"
    QUICK = "quick"
    FULL = "full"


_SCALES = {Size.TINY: TINY, Size.QUICK: QUICK, Size.FULL: FULL}


class Format(StrEnum):
    """How a table is printed."""

    TEXT = "text"
    MARKDOWN = "markdown"


@app.command()
def run(
    parts: Annotated[
        list[str] | None, typer.Argument(help="Parts, by default all.", metavar="PART...")
    ] = None,
    scale: Annotated[
        Size,
        typer.Option(
            help="How much: quick takes a quarter of an hour, full an hour, tiny tests the benchmark."
        ),
    ] = Size.FULL,
    rounds: Annotated[int | None, typer.Option(help="Runs of each contender.", min=1)] = None,
    directory: Annotated[Path, typer.Option(help="Where the JSON goes.")] = Path("bench-results"),
) -> None:
    """Measure, print a table, and keep every run's figures as JSON. Starts ZooKeeper, Kafka, a controller and Spark.

    A part that fails is told of and makes the exit code 1; the others go on.
    """
    size = _SCALES[scale] if rounds is None else replace(_SCALES[scale], rounds=rounds)
    began = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    with exit_on_error(), tempfile.TemporaryDirectory(prefix="ordered-kafka-bench-") as data:
        chosen = _chosen(parts or [], quick=scale is Size.QUICK)
        path = directory / f"{began.replace(':', '')}.json"
        directory.mkdir(parents=True, exist_ok=True)
        report = Report(machine.description(), began, asdict(size))
        failed: list[str] = []
        with Bench(Path(data), size, _say) as bench:
            for part in chosen:
                _say(f"-- {part.name}: {part.about}")
                try:
                    for measurement in part.measure(bench):
                        report = replace(report, measurements=[*report.measurements, measurement])
                except Exception as error:  # noqa: BLE001 - told now and by the exit code
                    failed.append(part.name)
                    _say(f"{part.name} failed: {type(error).__name__}: {error}")
                # After each part: a run that is stopped has measured something.
                path.write_text(json.dumps(report.to_json(), indent=1))
    typer.echo(tables.text(report))
    typer.echo(f"\n{path}")
    if failed:
        typer.echo(f"error: failed: {', '.join(failed)}", err=True)
        raise typer.Exit(1)


@app.command("list")
def list_() -> None:
    """The parts, and what each measures; a quick run has those with a star."""
    print_table(
        ("PART", "QUICK", "WHAT"), [(part.name, "*" if part.quick else "", part.about) for part in PARTS]
    )


@app.command()
def table(
    file: Annotated[Path, typer.Argument(help="JSON of a run.", exists=True, dir_okay=False)],
    output: Annotated[Format, typer.Option("--format", help="How to print it.")] = Format.TEXT,
) -> None:
    """The table of a run."""
    report = _report(file)
    typer.echo(tables.text(report) if output is Format.TEXT else tables.markdown(report))


@app.command()
def publish(
    file: Annotated[Path, typer.Argument(help="JSON of a run.", exists=True, dir_okay=False)],
    page: Annotated[Path, typer.Argument(help="Page whose tables are replaced.")] = Path(
        "docs/performance.md"
    ),
) -> None:
    """Put the tables of a run into docs/performance.md."""
    page.write_text(tables.published(page.read_text(), _report(file)))


def _report(file: Path) -> Report:
    return Report.from_json(json.loads(file.read_text()))


def _chosen(names: list[str], *, quick: bool) -> list[Part]:
    known = {part.name: part for part in PARTS}
    for name in names:
        if name not in known:
            raise ConfigError("part", name, f"give some of {', '.join(known)}")
    if names:
        return [known[name] for name in names]
    return [part for part in PARTS if part.quick or not quick]


def _say(line: str) -> None:
    typer.echo(line, err=True)


if __name__ == "__main__":
    # Brokers have both of Java's compilers, as they have in production.
    os.environ.setdefault("KAFKA_JVM_PERFORMANCE_OPTS", "-XX:+UseG1GC")
    with ended_by_sigterm():
        app()
