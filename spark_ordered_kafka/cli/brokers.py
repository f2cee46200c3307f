"""``ordered-kafka brokers``."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from spark_ordered_kafka.cli.grouping import command_group
from spark_ordered_kafka.cli.output import (
    CommandConfigOption,
    ControllerOption,
    OutputFormat,
    OutputOption,
    ReasonOption,
    connected,
    print_body,
    print_table,
    tell,
)
from spark_ordered_kafka.errors import ConfigError

app = command_group("brokers")

_DEFAULT = "default"
_MOST = 2**31 - 1


@app.callback()
def group() -> None:
    """Show the brokers and limit what they host."""


@app.command("list")
def list_brokers(
    controller: ControllerOption = None,
    command_config: CommandConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Brokers with their racks, hosted replicas and what they can still take."""
    with connected(controller, command_config=command_config) as client:
        brokers = client.brokers()
    if output is OutputFormat.JSON:
        print_body(brokers)
        return
    print_table(
        ("BROKER", "RACK", "STATE", "HOSTED", "MAX PARTITIONS", "CAPACITY", "EXCESS"),
        [
            (b.id, b.rack, "up" if b.alive else "down", b.hosted, b.max_partitions, b.capacity, b.excess)
            for b in brokers.brokers
        ],
    )


@app.command("guard-rails")
def guard_rails(
    broker: Annotated[int, typer.Option(metavar="N", help="Id of the broker.")],
    max_partitions: Annotated[
        str,
        typer.Option(
            metavar="M|default",
            help="Replicas that the broker may host; 0: it takes no more; default: the controller's "
            "max.broker.partitions.",
        ),
    ],
    controller: ControllerOption = None,
    command_config: CommandConfigOption = None,
    validate_only: Annotated[bool, typer.Option("--validate-only", help="Only check the request.")] = False,
    reason: ReasonOption = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Limit how many replicas a broker may host. What it hosts beyond that stays."""
    from spark_ordered_kafka.client.schemas import GuardRailsRequest

    with connected(controller, reason, command_config=command_config) as client:
        request = GuardRailsRequest(max_partitions=_limit(max_partitions), validate_only=validate_only)
        view = client.set_guard_rails(broker, request)
    excess = f", {view.excess} too many" if view.excess else ""
    tell(
        view,
        f"broker {view.id} {'could host' if validate_only else 'may host'} {view.max_partitions} replicas: it hosts "
        f"{view.hosted}{excess}, capacity {view.capacity}",
        output,
    )


def _limit(value: str) -> int | None:
    if value == _DEFAULT:
        return None
    if re.fullmatch("[0-9]{1,10}", value) is None or int(value) > _MOST:
        raise ConfigError(
            "--max-partitions", value, f"it must be a whole number from 0 to {_MOST}, or {_DEFAULT}"
        )
    return int(value)
