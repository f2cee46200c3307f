"""``ordered-kafka local``: real ZooKeeper, Kafka and controllers on this machine."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from spark_ordered_kafka.cli import common
from spark_ordered_kafka.cli.grouping import command_group
from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.local.jars import KAFKA_VERSIONS
from spark_ordered_kafka.local.plan import MAX_BROKERS, MAX_CONTROLLERS, MAX_ZOOKEEPERS
from spark_ordered_kafka.local.processes import ended_by_sigterm

app = command_group("local")


DirOption = Annotated[
    Path,
    typer.Option("--dir", metavar="DIR", help="Directory that holds the cluster's data, logs and state."),
]

_DEFAULT_DIR = Path(".ordered-kafka")
_ENVIRONMENT = "env.sh"
_VERSIONS = " or ".join(KAFKA_VERSIONS)


@app.command()
def up(
    directory: DirOption = _DEFAULT_DIR,
    brokers: Annotated[
        int | None, typer.Option(min=1, max=MAX_BROKERS, help="Number of Kafka brokers.", show_default="1")
    ] = None,
    kafka_version: Annotated[
        str | None,
        typer.Option(help=f"Version of Apache Kafka: {_VERSIONS}.", show_default=KAFKA_VERSIONS[0]),
    ] = None,
    racks: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="Rack of each broker.", show_default="none")
    ] = None,
    controllers: Annotated[
        int | None,
        typer.Option(
            min=0, max=MAX_CONTROLLERS, help="Number of ordered-kafka controllers.", show_default="1"
        ),
    ] = None,
    zookeepers: Annotated[
        int | None,
        typer.Option(min=1, max=MAX_ZOOKEEPERS, help="Number of ZooKeeper servers.", show_default="1"),
    ] = None,
    secure: Annotated[
        bool | None,
        typer.Option(
            "--secure",
            help="TLS, logins and ACLs everywhere: in Kafka, ZooKeeper and the controllers.",
            show_default="no",
        ),
    ] = None,
    output: common.OutputOption = common.OutputFormat.TABLE,
) -> None:
    """Start the servers; return when all are ready.

    DIR/env.sh sets their addresses as variables of a shell.

    A second start in the same directory finds the data again and starts only what has died.

    The defaults apply to a new directory; a used one keeps what it was set up with.
    """
    cluster = LocalCluster(
        directory,
        brokers=brokers,
        kafka_version=kafka_version,
        racks=None if racks is None else racks.split(","),
        controllers=controllers,
        zookeepers=zookeepers,
        secure=secure,
        progress=lambda message: typer.echo(message, err=True),
    )
    with ended_by_sigterm():
        description = cluster.up()
    exports = _exports(description)
    environment = cluster.directory / _ENVIRONMENT
    environment.write_text("".join(f"{line}\n" for line in exports))
    if output.is_data:
        common.print_data(description, output)
        return
    _print_addresses(description, cluster.kafka_version)
    typer.echo(f"\nFor your shell (or: . {shlex.quote(str(environment))}):")
    for line in exports:
        typer.echo(line)


@app.command()
def down(directory: DirOption = _DEFAULT_DIR) -> None:
    """End every process of the cluster; its data stays in the directory."""
    cluster = LocalCluster(directory)
    ended = cluster.down()
    if not ended:
        _check_exists(cluster)
    typer.echo(
        f"Stopped {', '.join(ended)}" if ended else f"Nothing was running in {cluster.directory}", err=True
    )


@app.command()
def status(
    directory: DirOption = _DEFAULT_DIR, output: common.OutputOption = common.OutputFormat.TABLE
) -> None:
    """Show what each server does.

    The JSON is that of `up` with `kafka_version`, `directory`, `running` (whether all run) and `servers` added.
    """
    cluster = LocalCluster(directory)
    _check_exists(cluster)
    servers = cluster.status()
    if output is common.OutputFormat.TABLE:
        common.print_table(
            ("Server", "Address", "Pid", "Status"),
            [(server.name, server.address, server.pid, server.status) for server in servers],
        )
        return
    shown = {
        **cluster.description(),
        "kafka_version": cluster.kafka_version,
        "directory": str(cluster.directory),
        "running": all(server.status == "running" for server in servers),
        "servers": [dataclasses.asdict(server) for server in servers],
    }
    common.print_data(shown, output)


def _check_exists(cluster: LocalCluster) -> None:
    if not cluster.exists():
        raise ConfigError("--dir", str(cluster.directory), "there is no local cluster; `local up` makes one")


def _print_addresses(description: dict[str, Any], kafka_version: str) -> None:
    rows = [
        (f"Kafka {kafka_version}", description["bootstrap_servers"]),
        ("ZooKeeper", description["zookeeper"]),
    ]
    if description["controller"]:
        rows.append(("Controller", description["controller"]))
    security = description.get("security")
    if security is not None:
        rows.append(("Kafka by certificate", security["mutual_tls_bootstrap_servers"]))
        rows.append(("Authority", security["ssl_ca_location"]))
        rows += [(f"User {name}", user["client_properties"]) for name, user in security["users"].items()]
    width = max(len(name) for name, _ in rows)
    for name, address in rows:
        typer.echo(f"{name:<{width}}  {address}")


def _exports(description: dict[str, Any]) -> list[str]:
    """Shell lines that let commands, and the README's, find the cluster, and no other that the shell knew before."""
    variables: dict[str, str | None] = {
        "BOOTSTRAP_SERVERS": description["bootstrap_servers"],
        "ORDERED_KAFKA_CONTROLLER": None,
        "ORDERED_KAFKA_COMMAND_CONFIG": None,
    }
    if description["controller"]:
        variables["ORDERED_KAFKA_CONTROLLER"] = description["controller"]
        if "security" in description:
            admin = description["security"]["users"]["admin"]
            variables["ORDERED_KAFKA_COMMAND_CONFIG"] = admin["controller_properties"]
    return [
        f"unset {name}" if value is None else f"export {name}={shlex.quote(value)}"
        for name, value in variables.items()
    ]
