"""``ordered-kafka groups list`` and ``groups delete``, by the brokers alone."""

from __future__ import annotations

from typing import Annotated

import typer

from spark_ordered_kafka.cli import common
from spark_ordered_kafka.cli.completion import complete_group
from spark_ordered_kafka.cli.kafka_connection import BootstrapServerOption, KafkaConfigOption, broker_conf
from spark_ordered_kafka.errors import OrderedKafkaError, RequestError


def list_groups(
    bootstrap_server: BootstrapServerOption = None,
    command_config: KafkaConfigOption = None,
    output: common.OutputOption = common.OutputFormat.TABLE,
) -> None:
    """Consumer groups of the cluster with their states, by name.

    Leaves out the ledgers of writers, which are groups without members (ordered:TOPIC:WRITER:TASK).
    """
    from spark_ordered_kafka.client.group_admin import GroupAdmin

    found = GroupAdmin(broker_conf(bootstrap_server, command_config)).groups()
    shown = [one for one in found if not one.is_ledger]
    if output.is_data:
        rows = [{"group": one.group, "state": one.state, "type": one.kind} for one in shown]
        common.print_data({"groups": rows}, output)
        return
    common.print_table(("GROUP", "STATE", "TYPE"), [(one.group, one.state, one.kind) for one in shown])
    if len(shown) < len(found):
        typer.echo(f"ledgers of writers are left out: {len(found) - len(shown)}", err=True)


def delete(
    group: Annotated[
        list[str],
        typer.Option(
            "--group",
            metavar="GROUP",
            help="Name of the group; may be repeated.",
            autocompletion=complete_group,
        ),
    ],
    bootstrap_server: BootstrapServerOption = None,
    command_config: KafkaConfigOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before deleting.")] = False,
    output: common.OutputOption = common.OutputFormat.TABLE,
) -> None:
    """Delete consumer groups without members, with the offsets that they have committed."""
    groups = list(dict.fromkeys(group))
    from spark_ordered_kafka.client.group_admin import GroupAdmin

    admin = GroupAdmin(broker_conf(bootstrap_server, command_config))
    if not yes:
        typer.confirm(f"Delete {', '.join(groups)} with all offsets?", abort=True, err=True)
    failed = admin.delete(groups)
    for one in (name for name in groups if name in failed):
        typer.echo(f"error: group {one}: {_said(failed[one])}", err=True)
    if output.is_data:
        rows = [{"group": one, "error": failed[one].name if one in failed else "NONE"} for one in groups]
        common.print_data({"groups": rows}, output)
    else:
        for one in groups:
            if one not in failed:
                typer.echo(f"group {one}: deleted")
    if failed:
        raise typer.Exit(common.REFUSED)


def _said(error: OrderedKafkaError) -> str:
    return f"{error.name}: {error.message}" if isinstance(error, RequestError) else str(error)
