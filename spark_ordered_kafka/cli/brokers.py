"""``ordered-kafka brokers``; ``describe`` and ``alter`` are about dynamic configuration, as ``kafka-configs`` has it."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from spark_ordered_kafka.cli import common
from spark_ordered_kafka.cli.alter import alterations
from spark_ordered_kafka.cli.completion import complete_broker
from spark_ordered_kafka.cli.grouping import command_group
from spark_ordered_kafka.cli.kafka_connection import BootstrapServerOption, KafkaConfigOption, broker_conf
from spark_ordered_kafka.errors import ConfigError

if TYPE_CHECKING:
    from spark_ordered_kafka.client.schemas import BrokerView

app = command_group("brokers")

_DEFAULT = "default"
_INT32_MAX = 2**31 - 1

_BrokerOption = Annotated[int, typer.Option(metavar="N", min=0, max=_INT32_MAX, help="Id of the broker.")]


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
        (b.id, b.rack, _state(b), b.hosted, b.max_partitions, b.capacity, b.excess) for b in brokers.brokers
    ]
    common.print_rows(brokers, columns, rows, output)


def _state(broker: BrokerView) -> str:
    if not broker.alive:
        return "down"
    return "up, cordoned" if broker.cordoned else "up"


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


@app.command()
def describe(
    broker: _BrokerOption,
    every: Annotated[
        bool, typer.Option("--all", help="Also what is set in the broker's file, and defaults.")
    ] = False,
    bootstrap_server: BootstrapServerOption = None,
    command_config: KafkaConfigOption = None,
    output: common.OutputOption = common.OutputFormat.TABLE,
) -> None:
    """Configuration of a broker that was set while it runs. Sensitive values are not shown."""
    from spark_ordered_kafka.client.cluster_admin import ClusterAdmin

    found = ClusterAdmin(broker_conf(bootstrap_server, command_config)).broker_configs(broker)
    shown = [one for one in found if every or one.is_dynamic]
    if output.is_data:
        common.print_data({"broker": broker, "configs": [asdict(one) for one in shown]}, output)
    elif not shown:
        typer.echo(f"broker {broker} has no dynamic configuration; --all shows the rest")
    else:
        rows = [(one.name, "hidden" if one.value is None else one.value, one.source) for one in shown]
        common.print_table(("NAME", "VALUE", "SOURCE"), rows)


@app.command()
def alter(
    broker: _BrokerOption,
    config: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="What to set; may be repeated.")
    ] = None,
    delete_config: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="What goes back to what it was before; may be repeated."),
    ] = None,
    validate_only: common.ValidateOption = False,
    bootstrap_server: BootstrapServerOption = None,
    command_config: KafkaConfigOption = None,
) -> None:
    """Alter the configuration of a broker while it runs: all that is named, or nothing."""
    configs = alterations(config or [], delete_config or [])
    if not configs:
        raise ConfigError("--config", None, "give it, or --delete-config")
    from spark_ordered_kafka.client.cluster_admin import ClusterAdmin

    admin = ClusterAdmin(broker_conf(bootstrap_server, command_config))
    admin.alter_broker(broker, configs, validate_only=validate_only)
    done = ", ".join(name if value is None else f"{name}={value}" for name, value in configs.items())
    typer.echo(f"broker {broker}: {'could be altered' if validate_only else 'altered'} ({done})")


def _limit(value: str) -> int | None:
    if value == _DEFAULT:
        return None
    if re.fullmatch("[0-9]{1,10}", value) is None or int(value) > _INT32_MAX:
        raise ConfigError(
            "--max-partitions", value, f"it must be a whole number from 0 to {_INT32_MAX}, or {_DEFAULT}"
        )
    return int(value)
