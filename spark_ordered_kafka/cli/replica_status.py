"""``ordered-kafka replica-status``: how far replicas are behind their leaders (KIP-179)."""

from __future__ import annotations

from typing import Annotated

import typer

from spark_ordered_kafka.cli.grouping import command_group
from spark_ordered_kafka.cli.lists import parse_ids, parse_texts
from spark_ordered_kafka.cli.output import (
    REFUSED,
    CommandConfigOption,
    ControllerOption,
    OutputFormat,
    OutputOption,
    connected,
    print_body,
    print_table,
)
from spark_ordered_kafka.errors import ErrorCode

app = command_group("replica-status")
_COLUMNS = ("TOPIC", "PARTITION", "BROKER", "LAG", "STATUS TIME")


@app.command()
def replica_status(
    topic: Annotated[
        str, typer.Option("--topic", metavar="TOPIC,TOPIC,...", help="Topics.", show_default="all")
    ] = "",
    partition: Annotated[
        str,
        typer.Option("--partition", metavar="N,N,...", help="Partitions of the topics.", show_default="all"),
    ] = "",
    broker: Annotated[
        str, typer.Option("--broker", metavar="ID,ID,...", help="Ids of the brokers.", show_default="all")
    ] = "",
    controller: ControllerOption = None,
    command_config: CommandConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """How many records replicas are behind their leaders, and as of when."""
    from spark_ordered_kafka.cli.units import shown_time

    with connected(controller, command_config=command_config) as client:
        found = client.replica_status(
            topics=parse_texts(topic),
            partitions=parse_ids("--partition", partition),
            brokers=parse_ids("--broker", broker),
        )
    failed = [row for row in found.replicas if row.error_code != ErrorCode.NONE]
    for row in failed:
        place = f"{row.topic}-{row.partition} on broker {row.broker}"
        typer.echo(f"error: {place}: {row.error}: {row.error_message}", err=True)
    if output is OutputFormat.JSON:
        print_body(found)
    else:
        rows = [
            (
                row.topic,
                row.partition,
                row.broker,
                row.lag if row.error_code == ErrorCode.NONE else None,
                shown_time(row.status_time / 1000),
            )
            for row in found.replicas
        ]
        print_table(_COLUMNS, rows)
    if failed:
        raise typer.Exit(REFUSED)
