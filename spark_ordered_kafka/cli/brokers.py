"""``ordered-kafka brokers``."""

from __future__ import annotations

import typer

from spark_ordered_kafka.cli.output import (
    ControllerOption,
    OutputFormat,
    OutputOption,
    connected,
    print_body,
    print_table,
)

app = typer.Typer(help="Show the brokers.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Show the brokers."""


@app.command("list")
def list_brokers(controller: ControllerOption, output: OutputOption = OutputFormat.TABLE) -> None:
    """Brokers with their racks, hosted replicas and what they can still take."""
    with connected(controller) as client:
        brokers = client.brokers()
    if output is OutputFormat.JSON:
        print_body(brokers)
        return
    print_table(
        ("BROKER", "RACK", "HOSTED", "MAX PARTITIONS", "CAPACITY"),
        [(b.id, b.rack, b.hosted, b.max_partitions, b.capacity) for b in brokers.brokers],
    )
