"""How to connect: the part of every client's, source's and sink's configuration that is the same; secrets are masked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from spark_ordered_kafka import parsing
from spark_ordered_kafka.credentials import (
    NAMES,
    NO_CREDENTIALS,
    URL,
    ControllerCredentials,
    controller_credentials,
)
from spark_ordered_kafka.parsing import HIDDEN, Given, is_secret, together

Misrouted = Literal["ignore", "warn", "fail"]
"""What a reader does about records outside the partition that their key belongs to."""


@dataclass(frozen=True)
class Connection:
    """Where the cluster and its controller are. ``kafka`` holds librdkafka properties without the prefix,
    ``credentials`` what the controllers are shown.

    Hashable, so that what a worker process keeps for a connection can be found by it.
    """

    kafka: Mapping[str, str] = field(repr=False, hash=False)
    controller_url: str
    credentials: ControllerCredentials = NO_CREDENTIALS

    @property
    def bootstrap_servers(self) -> str:
        """The brokers for the first connection, ``host:port`` separated by commas."""
        return self.kafka["bootstrap.servers"]

    def __str__(self) -> str:
        return f"Connection({masked(self.kafka)}, controller.url={self.controller_url!r}, {self.credentials})"


def connection(given: Given, servers: str, kafka: Mapping[str, Any], alias: str | None = None) -> Connection:
    """The connection that ``given`` describes.

    Args:
        servers: the option that names the brokers.
        kafka: librdkafka's properties.
        alias: another name of ``servers``.

    Raises:
        ConfigError: an address is missing or malformed, or the credentials are wrong.
    """
    found = together(
        {
            "brokers": lambda: given.require(servers, parsing.servers, parsing.SERVERS_HINT, alias),
            "url": lambda: given.require(URL, parsing.urls, parsing.URLS_HINT),
        }
    )
    own = {name: value for name in NAMES if (value := given.text(name)) is not None}
    return Connection(
        {**kafka, "bootstrap.servers": found["brokers"]},
        found["url"],
        controller_credentials(own, found["url"], given.label),
    )


def masked(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties with passwords and keys replaced, fit for a log."""
    return {name: HIDDEN if is_secret(name) else value for name, value in properties.items()}
