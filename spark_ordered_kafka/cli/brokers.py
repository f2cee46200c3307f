"""``ordered-kafka brokers``."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from spark_ordered_kafka.cli import common
from spark_ordered_kafka.cli.broker_configs import alter, describe
from spark_ordered_kafka.cli.completion import complete_broker
from spark_ordered_kafka.cli.grouping import command_group
from spark_ordered_kafka.errors import ConfigError

app = command_group("brokers")

_DEFAULT = "default"
_INT32_MAX = 2**31 - 1


@app.callback()
def group() -> None:
    """Show the brokers, limit what they host, and configure them."""


@app.command("list")
def list_brokers(
    controller: common.ControllerOption = None,
    command_config: common.CommandConfigOption = None,
    output: common.OutputOption = common.OutputFormat.TABLE,
) -> None:
    """Brokers with their racks, hosted replicas and what they can still take."""
    with common.connected(controller, command_config=command_config) as client:
        brokers = client.brokers()
    columns = ("BROKER", "RACK", "STATE", "HOSTED", "MAX PARTITIONS", "CAPACITY", "EXCESS")
    rows = [
        (b.id, b.rack, "up" if b.alive else "down", b.hosted, b.max_partitions, b.capacity, b.excess)
        for b in brokers.brokers
    ]
    common.print_rows(brokers, columns, rows, output)


@app.command("guard-rails")
def guard_rails(
    broker: Annotated[
        int, typer.Option(metavar="N", help="Id of the broker.", autocompletion=complete_broker)
    ],
    max_partitions: Annotated[
        str,
        typer.Option(
            metavar="M|default",
            help="Replicas that the broker may host; 0: it takes no more; default: the controller's "
            "max.broker.partitions.",
        ),
    ],
    controller: common.ControllerOption = None,
    command_config: common.CommandConfigOption = None,
    validate_only: common.ValidateOption = False,
    reason: common.ReasonOption = None,
    output: common.OutputOption = common.OutputFormat.TABLE,
) -> None:
    """Limit how many replicas a broker may host. What it hosts beyond that stays."""
    from spark_ordered_kafka.client.schemas import GuardRailsRequest

    with common.connected(controller, reason, command_config=command_config) as client:
        request = GuardRailsRequest(max_partitions=_limit(max_partitions), validate_only=validate_only)
        view = client.set_guard_rails(broker, request)
    excess = f", {view.excess} too many" if view.excess else ""
    common.report(
        view,
        f"broker {view.id} {'could host' if validate_only else 'may host'} {view.max_partitions} replicas: it hosts "
        f"{view.hosted}{excess}, capacity {view.capacity}",
        output,
    )


app.command()(describe)
app.command()(alter)


def _limit(value: str) -> int | None:
    if value == _DEFAULT:
        return None
    if re.fullmatch("[0-9]{1,10}", value) is None or int(value) > _INT32_MAX:
        raise ConfigError(
            "--max-partitions", value, f"it must be a whole number from 0 to {_INT32_MAX}, or {_DEFAULT}"
        )
    return int(value)
