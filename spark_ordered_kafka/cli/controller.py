"""``ordered-kafka controller run``."""

from __future__ import annotations

import logging
import socket
from typing import Annotated

import typer

from spark_ordered_kafka.cli.output import errors_told
from spark_ordered_kafka.errors import ConfigError

app = typer.Typer(help="Run a controller.", no_args_is_help=True)
_GRACE = 5  # seconds that requests under way get when the process is asked to end


@app.callback()
def group() -> None:
    """Run a controller."""


@app.command()
def run(
    bootstrap_server: Annotated[
        str, typer.Option(metavar="HOST:PORT[,...]", help="Kafka brokers to connect to.")
    ],
    zookeeper: Annotated[str, typer.Option(metavar="HOST:PORT[,...]", help="ZooKeeper servers.")],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")] = 8090,
    retire_replication_factor: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Replicas that a partition keeps after a shrink removed it and it is empty; an expansion that takes "
            "it up again gives them back.",
            show_default="all",
        ),
    ] = None,
) -> None:
    """Serve the HTTP API and carry out partition changes until SIGTERM or ctrl-C.

    Of several controllers one is active; the others answer NOT_CONTROLLER and take over when it has gone.
    """
    import uvicorn

    from spark_ordered_kafka.controller.api import create_app
    from spark_ordered_kafka.controller.service import ControllerService
    from spark_ordered_kafka.controller.settings import ControllerSettings

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for chatty in ("kazoo", "kafka"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    with errors_told():
        listener = _bind(host, port)
        name = socket.getfqdn() if host in ("0.0.0.0", "::", "") else host
        url = f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"
        service = ControllerService(
            ControllerSettings(
                bootstrap_server, zookeeper, url, retire_replication_factor=retire_replication_factor
            )
        )
        service.start()
    try:
        config = uvicorn.Config(
            create_app(service), log_config=None, access_log=False, timeout_graceful_shutdown=_GRACE
        )
        uvicorn.Server(config).run(sockets=[listener])
    finally:
        service.stop()


def _bind(host: str, port: int) -> socket.socket:
    """A socket bound before anything else is started, so that a port in use is told at once."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        raise ConfigError("--host and --port", f"{host}:{port}", f"cannot listen there: {error}") from error
    return listener
