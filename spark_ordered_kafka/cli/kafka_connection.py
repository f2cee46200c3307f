"""Options and properties of the commands that talk to the brokers themselves, as Kafka's own tools do."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spark_ordered_kafka.cli.command_config import address, given_properties
from spark_ordered_kafka.credentials import URL

_SERVERS = "bootstrap.servers"

BootstrapServerOption = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-server",
        envvar="BOOTSTRAP_SERVERS",
        metavar="HOST:PORT,...",
        help="Brokers.",
        show_default=f"{_SERVERS} of --command-config",
    ),
]
KafkaConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        envvar="ORDERED_KAFKA_COMMAND_CONFIG",
        metavar="FILE",
        help="Properties of the connections: those of Kafka's clients (security.protocol, sasl.*, ssl.*), and "
        "controller.*",
    ),
]


def client_conf(servers: str | None, controller: str | None, path: Path | None) -> dict[str, str]:
    """The configuration of a plain client: brokers, controllers and how to log in to both.

    Args:
        servers: ``--bootstrap-server``; it wins over ``bootstrap.servers`` of the file.
        controller: ``--controller``; it wins over ``controller.url`` of the file.
        path: of the file.

    Raises:
        ConfigError: the file cannot be read, or an address is missing.
    """
    own, kafka = given_properties(path, controller, servers)
    conf = kafka | own | broker_address(servers, kafka)
    return conf | {URL: address("--controller", controller, URL, own)}


def broker_conf(servers: str | None, path: Path | None) -> dict[str, str]:
    """librdkafka's properties of a connection to the brokers alone.

    Raises:
        ConfigError: the file cannot be read, the address is missing, or a property is wrong.
    """
    from spark_ordered_kafka.client.options import broker_properties

    _, kafka = given_properties(path, None, servers)
    return broker_properties(kafka | broker_address(servers, kafka))


def broker_address(servers: str | None, kafka: dict[str, str]) -> dict[str, str]:
    """``bootstrap.servers``, from the option or the file. Raises ConfigError where it is missing or malformed."""
    from spark_ordered_kafka.parsing import servers as parsed

    found = address("--bootstrap-server", servers, _SERVERS, kafka)
    return {_SERVERS: parsed("--bootstrap-server" if servers else _SERVERS, found)}
