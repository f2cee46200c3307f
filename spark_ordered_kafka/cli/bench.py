"""``ordered-kafka bench``: figures of the parts whose speed matters."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from spark_ordered_kafka.cli.output import OutputFormat, OutputOption, errors_told, print_table

app = typer.Typer(help="Measure the parts whose speed matters.", no_args_is_help=True)


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
    with errors_told():
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
