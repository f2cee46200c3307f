"""``ordered-kafka replica-status``: how far replicas are behind their leaders (KIP-179)."""

from __future__ import annotations

from typing import Annotated

import typer

from spark_ordered_kafka.cli import common
from spark_ordered_kafka.cli.grouping import command_group
from spark_ordered_kafka.cli.lists import parse_ids, parse_texts
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
    controller: common.ControllerOption = None,
    command_config: common.CommandConfigOption = None,
    output: common.OutputOption = common.OutputFormat.TABLE,
) -> None:
    """How many records replicas are behind their leaders, and as of when."""
    from spark_ordered_kafka.cli.units import shown_time

    with common.connected(controller, command_config=command_config) as client:
        found = client.replica_status(
            topics=parse_texts(topic),
            partitions=parse_ids("--partition", partition),
            brokers=parse_ids("--broker", broker),
        )
    failed = common.print_errors(
        found.replicas, lambda row: f"{row.topic}-{row.partition} on broker {row.broker}: "
    )
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
    common.print_rows(found, _COLUMNS, rows, output)
    if failed:
        raise typer.Exit(common.REFUSED)
