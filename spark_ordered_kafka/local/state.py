"""The state file of a local cluster's directory: ``cluster.json``."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ValidationError

from spark_ordered_kafka.errors import LocalClusterError
from spark_ordered_kafka.local.ports import HOST
from spark_ordered_kafka.local.processes import ProcessIdentity
from spark_ordered_kafka.local.secrets import write_private

FILE_NAME = "cluster.json"

Kind = Literal["zookeeper", "kraft", "broker", "controller"]


class Server(BaseModel):
    """One server process: where it listens and, while it runs, which process it is.

    ``port`` is the one clients use; ``internal_ports`` are for its peers: ZooKeeper's quorum and election ports, the
    KRaft controller listener of a Kafka node that has that role. ``kraft`` is a Kafka node that is only a KRaft
    controller. ``id`` counts from 1 within the kind (a Kafka node's ``node.id``). ``tls``: ``port`` speaks TLS only, as
    everything of a secured cluster; its brokers listen on ``mutual_tls_port`` for each other and for clients that show
    a certificate instead of a password.
    """

    kind: Kind
    id: int
    port: int
    internal_ports: list[int] = []
    tls: bool = False
    mutual_tls_port: int | None = None
    rack: str | None = None
    process: ProcessIdentity | None = None

    @property
    def name(self) -> str:
        """For example ``broker-1``; also the name of its directory."""
        return f"{self.kind}-{self.id}"

    @property
    def address(self) -> str:
        """``host:port`` for clients."""
        return f"{HOST}:{self.port}"

    @property
    def url(self) -> str:
        """Base URL of a server that speaks HTTP."""
        return f"{'https' if self.tls else 'http'}://{self.address}"

    @property
    def ports(self) -> set[int]:
        """Every port it listens on."""
        more = set() if self.mutual_tls_port is None else {self.mutual_tls_port}
        return {self.port, *self.internal_ports} | more


class ClusterState(BaseModel):
    """A directory's parameters and servers.

    ``has_been_up`` is False until all servers were ready once: until then they hold no user's data.
    """

    version: Literal[1] = 1
    cluster_id: str
    kafka_version: str
    racks: list[str] | None
    broker_config: dict[str, str]
    secure: bool = False
    has_been_up: bool = False
    servers: list[Server]

    def of(self, *kinds: Kind) -> list[Server]:
        """The servers of these kinds, by kind and id."""
        return [server for kind in kinds for server in self.servers if server.kind == kind]

    @property
    def ports(self) -> set[int]:
        """Every port that belongs to the cluster."""
        return {port for server in self.servers for port in server.ports}

    @property
    def bootstrap_servers(self) -> str:
        """Kafka's ``bootstrap.servers``: every broker."""
        return ",".join(broker.address for broker in self.of("broker"))

    @property
    def zookeeper(self) -> str:
        """ZooKeeper's connect string, without a chroot."""
        return ",".join(server.address for server in self.of("zookeeper"))


def load(directory: Path) -> ClusterState | None:
    """The state stored in ``directory``; None if there is no cluster.

    Raises:
        LocalClusterError: the file cannot be read, or is not such a state.
    """
    file = directory / FILE_NAME
    try:
        return ClusterState.model_validate_json(file.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        raise LocalClusterError(f"{file} cannot be used: {error}") from error


def save(directory: Path, state: ClusterState) -> None:
    """Write the state in one step: a reader sees the old file or the new one."""
    write_private(directory / FILE_NAME, state.model_dump_json(indent=2) + "\n")
