"""Three each of brokers, KRaft controllers, ZooKeeper servers and controllers, every one on a host of its own."""

from __future__ import annotations

import itertools
import re
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import javaproperties
from confluent_kafka import KafkaException
from confluent_kafka.admin import AclBinding, AdminClient

from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.credentials import controller_credentials
from spark_ordered_kafka.local import secured, servers
from spark_ordered_kafka.local.accounts import create_users
from spark_ordered_kafka.local.class_archive import sharing
from spark_ordered_kafka.local.jars import kafka_jars
from spark_ordered_kafka.local.java import find_java
from spark_ordered_kafka.local.plan import Parameters, resize_controllers
from spark_ordered_kafka.local.ports import HOST
from spark_ordered_kafka.local.secrets import BROKER, CONTROLLER, MECHANISM
from spark_ordered_kafka.local.state import ClusterState, Server
from tests.integration.acls import Acls
from tests.kraft_quorum import state_with_quorum
from tests.nemesis.journal import Journal
from tests.nemesis.network import Network
from tests.nemesis.nodes import Node, always

SESSION = 4000
"""Milliseconds of a controller's session."""
START = 300.0
"""Seconds for all to start."""
_DISK = "1g"
"""Size of each broker's second log directory, a file system of its own."""


def plan_servers(kafka: str, *, secure: bool) -> ClusterState:
    """The servers, without addresses, of this version of Kafka. ``secure``: with TLS, logins and ACLs everywhere."""
    ports = itertools.count(20001)
    parameters = Parameters(
        brokers=3, kafka_version=kafka, zookeepers=3, racks=("a", "b", "c"), secure=secure
    )
    state = state_with_quorum(parameters, ports)
    resize_controllers(state, 3, ports)
    if secure:
        # Beside people's super user the brokers among themselves: the controllers have rights, as they do with users.
        state.broker_config["super.users"] = f"User:{BROKER};User:{secured.SUPER_USER}"
    state.broker_config |= {
        "default.replication.factor": "3",
        "min.insync.replicas": "2",
        # Below that of a replica that was away for a moment, so that the ISR shrinks and grows.
        "replica.lag.time.max.ms": "4000",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    }
    return state


def mount_disk(path: Path, size: str) -> None:
    """Make ``path`` a file system of its own, of ``size`` as ``mount`` reads it."""
    path.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "nemesis", str(path)], check=True)


class Replicas(NamedTuple):
    """Those of a partition: names of brokers."""

    leader: str
    followers: frozenset[str]
    in_sync: frozenset[str]


class Cluster:
    """Real servers. ``nodes`` has them by name, as in :class:`~spark_ordered_kafka.local.LocalCluster`.

    Of a secured one ``secrets`` has the passwords and certificates. The run itself is its only super user.
    """

    def __init__(self, directory: Path, network: Network, journal: Journal, state: ClusterState) -> None:
        self.directory = directory
        self.state = state
        self._network = network
        self._hosts = {port: server.name for server in state.servers for port in server.ports}
        self.secrets = servers.secrets_of(directory)
        if state.secure:
            directory.mkdir(parents=True, exist_ok=True)
            self.secrets.create(*(network.address(server.name) for server in state.servers))
        self._trusted: ssl.SSLContext | bool = (
            ssl.create_default_context(cafile=str(self.secrets.ca)) if state.secure else True
        )
        java = find_java()
        jars = kafka_jars(state.kafka_version, java=java, progress=lambda _: None)
        jvm = sharing(java, jars, state.kafka_version, progress=lambda _: None)
        self.nodes: dict[str, Node] = {}
        for server in state.servers:
            command = self._controller(server)
            if server.kind == "zookeeper":
                config = servers.write_zookeeper_config(directory, state, server)
                command = servers.zookeeper_command(java, self._placed(config, server), login=state.secure)
            elif server.kind != "controller":
                config = self._placed(servers.write_kafka_config(directory, state, server), server)
                command = servers.kafka_command(java, jars, config, jvm)
                self._mount(server)
                storage = servers.storage_tool_command(java, jars, config, state.cluster_id, jvm)
                subprocess.run(storage, check=True, capture_output=True)
            log = servers.server_log(directory, server)
            self.nodes[server.name] = Node(server.name, network, journal, log, always(command))

    @property
    def bootstrap_servers(self) -> str:
        """Kafka's ``bootstrap.servers``."""
        return self._translated(self.state.bootstrap_servers)

    def kafka(self, user: str = secured.SUPER_USER, mechanism: str = MECHANISM) -> dict[str, str]:
        """librdkafka's properties with which a user connects to the brokers."""
        if not self.state.secure:
            return {"bootstrap.servers": self.bootstrap_servers}
        return self.secrets.kafka(self.bootstrap_servers, user, mechanism)

    @property
    def command_config(self) -> Path | None:
        """For Kafka's own tools: the properties of the connection to a secured cluster."""
        return self.secrets.properties_file(secured.SUPER_USER, "client") if self.state.secure else None

    def admin(self, mechanism: str = MECHANISM) -> AdminClient:
        """A new client of the brokers, which logs nothing."""
        return AdminClient({**self.kafka(mechanism=mechanism), "log_level": 2})

    @property
    def zookeeper(self) -> dict[str, Any]:
        """Arguments of a client of ZooKeeper."""
        hosts = {"hosts": self._translated(self.state.zookeeper)}
        if not self.state.secure:
            return hosts
        login = {"username": CONTROLLER, "password": self.secrets.password(CONTROLLER)}
        return hosts | {
            "use_ssl": True,
            "ca": str(self.secrets.ca),
            "certfile": str(self.secrets.certificate(CONTROLLER)),
            "keyfile": str(self.secrets.key(CONTROLLER)),
            "sasl_options": {"mechanism": "DIGEST-MD5", **login},
        }

    def controller_options(self, user: str = secured.SUPER_USER) -> dict[str, str]:
        """Options with which a user connects to the controllers."""
        urls = ",".join(self.url(server.name) for server in self.state.of("controller"))
        if not self.state.secure:
            return {"controller.url": urls}
        return self.secrets.controller(urls, user)

    def controller(self, retry_for: float, timeout: float = 10.0) -> ControllerClient:
        """A client of the controllers."""
        return controller_client(self.controller_options(), retry_for, timeout)

    def url(self, controller: str) -> str:
        """URL of a controller."""
        (server,) = (one for one in self.state.servers if one.name == controller)
        return self._translated(server.url)

    def names(self, kind: str) -> tuple[str, ...]:
        """The nodes of a kind."""
        return tuple(server.name for server in self.state.servers if server.kind == kind)

    def start(self, rights: Sequence[AclBinding]) -> None:
        """Start all, and wait until a controller leads and every broker is there; a secured cluster has these ``rights``."""
        for server in self.state.servers:
            if server.kind != "controller":
                self.nodes[server.name].start()
        # The others have no passwords before they are in Kafka's metadata.
        admin = self.admin("PLAIN")
        self.wait_for(lambda: len(_brokers(admin)) == len(self.names("broker")), "three brokers")
        if self.state.secure:
            Acls(admin).add(*rights)
            create_users(self.secrets, self.bootstrap_servers, timeout=START)
            self.secrets.write_client_files(
                self.bootstrap_servers, self.controller_options()["controller.url"]
            )
        for name in self.names("controller"):
            self.nodes[name].start()
        self.wait_for(lambda: self.leader() is not None, "a controller that leads")

    def stop(self) -> None:
        """Kill all: nothing that they keep is needed any more."""
        for node in self.nodes.values():
            node.kill()

    def leader(self) -> str | None:
        """The controller that leads, if one says so."""
        for name in self.names("controller"):
            with suppress(httpx2.TransportError, ValueError):
                answer = httpx2.get(
                    f"{self.url(name)}/readyz", timeout=1.0, trust_env=False, verify=self._trusted
                )
                if answer.is_success and answer.json()["role"] == "leader":
                    return name
        return None

    def wait_for(self, condition: Callable[[], bool], what: str, seconds: float = START) -> None:
        """Wait; fails with the ends of all logs."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() >= deadline:
                logs = "\n".join(f"{node.name}: {node.tail(600)}" for node in self.nodes.values())
                raise AssertionError(f"not within {seconds:g} s: {what}\n{logs}")
            time.sleep(0.1)

    def await_in_sync(self, seconds: float) -> bool:
        """Wait until all replicas are in sync and every broker is there; whether that was so in time."""
        deadline = time.monotonic() + seconds
        while not self._in_sync():
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.5)
        return True

    def _in_sync(self) -> bool:
        try:
            metadata = self.admin().list_topics(timeout=3)
        except KafkaException:
            return False
        partitions = [one for topic in metadata.topics.values() for one in topic.partitions.values()]
        return len(metadata.brokers) == len(self.names("broker")) and all(
            one.leader >= 0 and len(one.isrs) == len(one.replicas) for one in partitions
        )

    def is_led(self, topic: str) -> bool:
        """Whether no partition of the topic is without a leader. Raises KafkaException when no broker answers."""
        found = self.admin().list_topics(topic, timeout=3).topics[topic]
        return all(one.leader >= 0 for one in found.partitions.values())

    def replicas(self, topic: str, partition: int) -> Replicas:
        """As a broker knows them. Raises KafkaException when none answers."""
        found = self.admin().list_topics(topic, timeout=3).topics[topic].partitions[partition]
        replicas, in_sync = (
            frozenset(f"broker-{one}" for one in some) for some in (found.replicas, found.isrs)
        )
        leader = f"broker-{found.leader}"
        return Replicas(leader, replicas - {leader}, in_sync)

    def dropped_markers(self) -> int:
        """How often Kafka has dropped the end of a transaction since a partition had no leader."""
        logs = (self.nodes[name].log.read_text(errors="replace") for name in self.names("broker"))
        return sum(text.count("Couldn't find leader endpoint for partitions") for text in logs)

    def expulsions(self, group: str) -> list[float]:
        """When coordinators have taken members of a group for dead, by their own logs; seconds since the epoch."""
        return self._times("broker", rf"Member \S+ in group {group} has failed, removing it")

    def unclean_elections(self, topic: str) -> list[float]:
        """When a replica out of sync was made the leader, by KRaft controllers' own logs; seconds since the epoch."""
        return self._times("kraft", rf"UNCLEAN partition change for {topic}-\d.*leader: .*")

    def _times(self, kind: str, said: str) -> list[float]:
        """When servers first logged each thing that they say so: one that starts may say again what happened before."""
        line = re.compile(rf"^\[(.{{23}})\] .*?({said})", re.MULTILINE)
        logs = (self.nodes[name].log.read_text(errors="replace") for name in self.names(kind))
        first: dict[str, str] = {}
        for found in sorted((found[1], found[2]) for text in logs for found in line.finditer(text)):
            first.setdefault(found[1], found[0])
        return [
            datetime.strptime(one, "%Y-%m-%d %H:%M:%S,%f").astimezone().timestamp() for one in first.values()
        ]

    # -- what goes wrong with disks and clocks --------------------------------------------------------------------

    def log_dir(self, broker: str, number: int) -> Path:
        """One of a broker's log directories: 1, or 2, which is a file system of its own."""
        (server,) = (one for one in self.state.servers if one.name == broker)
        return servers.log_dirs(self.directory, server)[number - 1]

    def set_clock(self, controller: str, seconds: float) -> None:
        """Let a controller's clock be so far ahead from its next start on."""
        self._clock(controller).write_text(str(seconds))

    def _clock(self, controller: str) -> Path:
        return self.directory / controller / "clock"

    def _mount(self, server: Server) -> None:
        if server.kind == "broker":
            mount_disk(servers.log_dirs(self.directory, server)[1], _DISK)

    # -- configuration ------------------------------------------------------------------------------------------------

    def _controller(self, server: Server) -> list[str]:
        if server.kind != "controller":
            return []
        home = servers.server_directory(self.directory, server)
        home.mkdir(parents=True, exist_ok=True)
        text = (
            secured.write_controller_config(self.secrets, self.state, server, home).read_text()
            if self.state.secure
            else (
                f'host = "{HOST}"\n'
                f"port = {server.port}\n"
                f'kafka.bootstrap.servers = "{self.state.bootstrap_servers}"\n'
                f'zookeeper.connect = "{self.state.zookeeper}"\n'
                "authentication.required = false\n"
            )
        )
        placed = self._translated(text).replace(f'"{HOST}"', f'"{self._network.address(server.name)}"')
        (home / "controller.toml").write_text(
            f'{placed}zookeeper.session.timeout.ms = {SESSION}\naudit.log.file = "{home / "audit.log"}"\n'
        )
        self.set_clock(server.name, 0)
        command = [sys.executable, "-m", "tests.nemesis.controller", str(self._clock(server.name))]
        return [*command, "controller", "run", "--config", str(home / "controller.toml")]

    def _placed(self, config: Path, server: Server) -> Path:
        """The configuration with each server's own address in the place of the loopback one."""
        properties = javaproperties.loads(config.read_text())
        placed = {name: self._translated(value) for name, value in properties.items()}
        for name in {"clientPortAddress", "secureClientPortAddress"} & placed.keys():
            placed[name] = self._network.address(server.name)
        config.write_text(javaproperties.dumps(placed, timestamp=False))
        return config

    def _translated(self, text: str) -> str:
        def placed(found: re.Match[str]) -> str:
            return f"{self._network.address(self._hosts[int(found[1])])}:{found[1]}"

        return re.sub(rf"{re.escape(HOST)}:(\d+)", placed, text)


def controller_client(
    options: Mapping[str, str], retry_for: float, timeout: float = 10.0
) -> ControllerClient:
    """A client of the controllers by its options (``controller.url`` and the like)."""
    urls = options["controller.url"]
    credentials = controller_credentials(options, urls)
    return ControllerClient(urls, timeout=timeout, retry_for=retry_for, credentials=credentials)


def _brokers(admin: AdminClient) -> set[int]:
    try:
        return set(admin.list_topics(timeout=2).brokers)
    except KafkaException:
        return set()
