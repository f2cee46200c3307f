"""``ordered-kafka controller``."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import Annotated

import typer

from spark_ordered_kafka.cli import common
from spark_ordered_kafka.cli.grouping import command_group
from spark_ordered_kafka.extras import require

app = command_group("controller")


@app.command()
def run(
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Configuration file; conf/controller.toml explains every key."),
    ] = None,
    bootstrap_server: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT[,...]", help="Kafka brokers to connect to.", show_default="the file's"
        ),
    ] = None,
    zookeeper: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT[,...]", help="ZooKeeper servers.", show_default="the file's"),
    ] = None,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on.", show_default="the file's, or 127.0.0.1")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Port to listen on.", show_default="the file's, or 8090"),
    ] = None,
    retire_replication_factor: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Replicas that a partition keeps after a shrink removed it and it is empty; an expansion that takes "
            "it up again gives them back.",
            show_default="the file's, or all",
        ),
    ] = None,
) -> None:
    """Serve the HTTP API and carry out partition changes until SIGTERM or ctrl-C.

    Of several controllers one leads; the others answer reads, redirect writes to the leader, and take over when it fails.
    Options override the file.
    """
    require("controller", "ordered-kafka controller run")

    from spark_ordered_kafka.controller.config import controller_config, read_file
    from spark_ordered_kafka.controller.monitoring.logs import configure_logging
    from spark_ordered_kafka.controller.server import bind, check_tls, serve
    from spark_ordered_kafka.controller.service import ControllerService

    given = {
        "kafka.bootstrap.servers": bootstrap_server,
        "zookeeper.connect": zookeeper,
        "host": host,
        "port": port,
        "retire.replication.factor": retire_replication_factor,
    }
    entries = {} if config is None else read_file(config, os.environ)
    entries |= {name: value for name, value in given.items() if value is not None}
    parsed = controller_config(entries, default_host=socket.getfqdn())
    configure_logging(parsed.log_level, parsed.log_format)
    check_tls(parsed.settings.tls)
    listener = bind(parsed.host, parsed.port)
    service = ControllerService(parsed.settings)
    service.start()
    try:
        serve(service, listener)
    finally:
        service.stop()


@app.command("list")
def list_controllers(
    controller: common.ControllerOption = None,
    command_config: common.CommandConfigOption = None,
    output: common.OutputOption = common.OutputFormat.TABLE,
) -> None:
    """The running controllers, and which of them leads."""
    with common.connected(controller, command_config=command_config) as client:
        found = client.controllers()
    rows = [(one.id, one.url, one.role) for one in found.controllers]
    common.print_rows(found, ("ID", "URL", "ROLE"), rows, output)


@app.command("hash-token")
def hash_token(
    principal: Annotated[
        str, typer.Option(metavar="User:NAME", help="Who shows the token; Kafka's ACLs are about this name.")
    ],
    from_stdin: Annotated[
        bool, typer.Option("--stdin", help="Hash the token on stdin, instead of making a new one.")
    ] = False,
    output: common.OutputOption = common.OutputFormat.TABLE,
) -> None:
    """Make a bearer token, and the line for the file of authentication.tokens.file that lets it in."""
    from spark_ordered_kafka.controller.access.tokens import hashed, new_token

    token = sys.stdin.readline().strip() if from_stdin else new_token()
    entry = hashed(token, principal)
    shown = {"entry": str(entry)} if from_stdin else {"token": token, "entry": str(entry)}
    if output.is_data:
        common.print_data(shown, output)
    else:
        for name, value in shown.items():
            typer.echo(f"{name}: {value}")
