"""``ordered-kafka brokers describe`` and ``brokers alter``: dynamic configuration, as ``kafka-configs`` has it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from spark_ordered_kafka.cli import common
from spark_ordered_kafka.cli.alter import alterations
from spark_ordered_kafka.cli.kafka_connection import BootstrapServerOption, KafkaConfigOption, broker_conf
from spark_ordered_kafka.errors import ConfigError

_MOST = 2**31 - 1


def describe(
    broker: Annotated[int, typer.Option(metavar="N", min=0, max=_MOST, help="Id of the broker.")],
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


def alter(
    broker: Annotated[int, typer.Option(metavar="N", min=0, max=_MOST, help="Id of the broker.")],
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
