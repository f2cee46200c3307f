"""The parameters of a local cluster and the servers that follow from them."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.local.jars import KAFKA_VERSIONS
from spark_ordered_kafka.local.servers import OWNED_BROKER_PROPERTIES
from spark_ordered_kafka.local.state import ClusterState, Server

MAX_BROKERS = 9
MAX_CONTROLLERS = 9
MAX_ZOOKEEPERS = 5

# Apart from the brokers' ids, which count from 1.
_KRAFT_NODE_ID = 3000


@dataclass(frozen=True)
class Parameters:
    """What a caller asked for; None means the value stored in the directory, else the default.

    Raises:
        ConfigError: a value is out of range, or two do not fit together.
    """

    brokers: int | None = None
    kafka_version: str | None = None
    racks: Sequence[str] | None = None
    controllers: int | None = None
    zookeepers: int | None = None
    broker_config: Mapping[str, str] | None = None
    secure: bool | None = None

    def __post_init__(self) -> None:
        _in_range("brokers", self.brokers, 1, MAX_BROKERS)
        _in_range("controllers", self.controllers, 0, MAX_CONTROLLERS)
        _in_range("zookeepers", self.zookeepers, 1, MAX_ZOOKEEPERS)
        if self.kafka_version is not None and self.kafka_version not in KAFKA_VERSIONS:
            raise ConfigError("kafka_version", self.kafka_version, f"give one of {', '.join(KAFKA_VERSIONS)}")
        if self.racks is not None and not all(rack.strip() for rack in self.racks):
            raise ConfigError("racks", ",".join(self.racks), "a rack has an empty name")
        if self.racks is not None and self.brokers is not None:
            _check_racks(self.racks, self.brokers)
        owned = sorted(OWNED_BROKER_PROPERTIES & (self.broker_config or {}).keys())
        if owned:
            raise ConfigError(
                "broker_config", ", ".join(owned), "the local cluster sets these properties itself"
            )


def new_state(parameters: Parameters, ports: Iterator[int]) -> ClusterState:
    """A cluster that has not run yet.

    Args:
        parameters: the requested ones; the defaults are one broker, the newest Kafka, no racks, one ZooKeeper, not
            secured.
        ports: free ports to take from.

    Raises:
        ConfigError: there is not one rack for each broker.
    """
    brokers = 1 if parameters.brokers is None else parameters.brokers
    racks = None if parameters.racks is None else [rack.strip() for rack in parameters.racks]
    if racks is not None:
        _check_racks(racks, brokers)
    zookeepers = 1 if parameters.zookeepers is None else parameters.zookeepers
    secure = bool(parameters.secure)

    listed = [Server(kind="zookeeper", id=n, port=next(ports)) for n in range(1, zookeepers + 1)]
    if zookeepers > 1:
        for server in listed:
            server.internal_ports = [next(ports), next(ports)]
    for number in range(1, brokers + 1):
        rack = None if racks is None else racks[number - 1]
        listed.append(Server(kind="broker", id=number, port=next(ports), rack=rack))
        listed[-1].mutual_tls_port = next(ports) if secure else None
    if brokers == 1:
        listed[-1].internal_ports = [next(ports)]
    else:
        port = next(ports)
        listed.append(Server(kind="kraft", id=_KRAFT_NODE_ID, port=port, internal_ports=[port]))
    for server in listed:
        server.tls = secure
    return ClusterState(
        cluster_id=_new_cluster_id(),
        kafka_version=parameters.kafka_version or KAFKA_VERSIONS[0],
        racks=racks,
        broker_config=dict(parameters.broker_config or {}),
        secure=secure,
        servers=listed,
    )


def check_agreement(parameters: Parameters, state: ClusterState, directory: Path) -> None:
    """Refuse parameters that differ from those ``directory`` was set up with.

    The number of controllers may differ, since they keep nothing there.

    Raises:
        ConfigError: names the parameter, the value asked for and the stored one.
    """
    racks = None if parameters.racks is None else [rack.strip() for rack in parameters.racks]
    compared: list[tuple[str, object, object]] = [
        ("brokers", parameters.brokers, len(state.of("broker"))),
        ("kafka_version", parameters.kafka_version, state.kafka_version),
        ("racks", racks, state.racks),
        ("zookeepers", parameters.zookeepers, len(state.of("zookeeper"))),
        ("broker_config", parameters.broker_config, state.broker_config),
        ("secure", parameters.secure, state.secure),
    ]
    for name, asked, remembered in compared:
        if asked is not None and asked != remembered:
            raise ConfigError(
                name,
                asked,
                f"the cluster in {directory} was set up with {remembered!r}; give that, or another directory",
            )


def resize_controllers(state: ClusterState, count: int, ports: Iterator[int]) -> list[Server]:
    """Make the state hold ``count`` controllers; returns the removed ones, highest ids first."""
    kept = state.of("controller")[:count]
    removed = state.of("controller")[count:]
    added = [
        Server(kind="controller", id=n, port=next(ports), tls=state.secure)
        for n in range(len(kept) + 1, count + 1)
    ]
    state.servers = [*state.of("zookeeper", "broker", "kraft"), *kept, *added]
    return removed


def _check_racks(racks: Sequence[str], brokers: int) -> None:
    if len(racks) != brokers:
        raise ConfigError("racks", ",".join(racks), f"give {brokers}, one for each broker")


def _in_range(name: str, value: int | None, low: int, high: int) -> None:
    if value is not None and not low <= value <= high:
        raise ConfigError(name, value, f"give a number from {low} to {high}")


def _new_cluster_id() -> str:
    """A UUID as Kafka writes it: 22 characters of URL-safe base 64, none of them a leading dash."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode("ascii")
        if not text.startswith("-"):
            return text
