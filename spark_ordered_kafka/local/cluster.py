"""A local cluster: real ZooKeeper, real Apache Kafka and controllers, in one directory."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from spark_ordered_kafka.errors import ConfigError, LocalClusterError
from spark_ordered_kafka.extras import require
from spark_ordered_kafka.local import processes, secured
from spark_ordered_kafka.local.launcher import START_TIMEOUT, Launcher, stop_servers
from spark_ordered_kafka.local.plan import Parameters, check_agreement, new_state, resize_controllers
from spark_ordered_kafka.local.ports import free_ports, is_free
from spark_ordered_kafka.local.secrets import MECHANISM, Secrets
from spark_ordered_kafka.local.servers import log_dirs, secrets_of, server_directory, server_log
from spark_ordered_kafka.local.state import FILE_NAME, ClusterState, Kind, Server, load, save
from spark_ordered_kafka.locking import file_lock

# How often a cluster that was never up chooses its ports, which another one may take before its servers listen.
_PORT_CHOICES = 3


@dataclass(frozen=True)
class ServerStatus:
    """One server of a local cluster. ``status`` is ``running``, ``paused`` or ``stopped``; then ``pid`` is None."""

    name: str
    kind: Kind
    address: str
    pid: int | None
    status: str
    log: str


class LocalCluster:
    """Real servers for development and tests, all on 127.0.0.1, with everything they keep in one directory.

    Kafka runs in KRaft mode: a single broker is its own KRaft controller, several have a dedicated one (D-204). As a
    context manager it is up inside the block and down after it. Servers are named ``broker-1``, ``zookeeper-1``,
    ``controller-1``, ``kraft-3000``; ids count from 1.

    Args:
        directory: where configuration, data, logs and ``cluster.json`` are kept; made if needed. A second start in it
            uses the same ports and finds the data again.
        brokers: 1 to 9.
        kafka_version: one of :data:`~spark_ordered_kafka.local.jars.KAFKA_VERSIONS`.
        racks: ``broker.rack`` of each broker.
        controllers: controllers of this package, 0 to 9.
        zookeepers: servers of the ZooKeeper ensemble, 1 to 5.
        broker_config: further properties of every Kafka node, by Kafka's names; they override the defaults here.
        secure: whether everything is authenticated, authorized and encrypted (:mod:`~spark_ordered_kafka.local.secured`
            says how), with certificates and passwords made for this cluster and kept in ``directory``/security.
        progress: called with one line per step.

    An argument that is None takes the value stored in the directory, else the default: one of everything, the newest
    Kafka, no racks, no properties, not secured.

    Raises:
        ConfigError: a value is out of range.
    """

    def __init__(
        self,
        directory: str | Path,
        *,
        brokers: int | None = None,
        kafka_version: str | None = None,
        racks: Sequence[str] | None = None,
        controllers: int | None = None,
        zookeepers: int | None = None,
        broker_config: Mapping[str, str] | None = None,
        secure: bool | None = None,
        progress: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.directory = Path(directory).expanduser().resolve()
        if "," in str(self.directory):
            raise ConfigError("directory", str(self.directory), "Kafka's log.dirs cannot hold a comma")
        self._parameters = Parameters(
            brokers=brokers,
            kafka_version=kafka_version,
            racks=racks,
            controllers=controllers,
            zookeepers=zookeepers,
            broker_config=broker_config,
            secure=secure,
        )
        self._progress = progress

    def __enter__(self) -> LocalCluster:
        self.up()
        return self

    def __exit__(self, *_: object) -> None:
        self.down()

    def up(self) -> dict[str, Any]:
        """Start every server that does not run, and return :meth:`description` when all are ready.

        Raises:
            ConfigError: an argument differs from the directory's parameters.
            LocalClusterError: Java is missing or too old, Kafka cannot be downloaded, a port is taken, a server ends or
                    is not ready in time. Servers that this call started are stopped again.
        """
        with self._locked():
            for _ in range(_PORT_CHOICES - 1):
                try:
                    return self._up()
                except LocalClusterError:
                    if not self._has_lost_a_port():
                        raise
            return self._up()

    def _up(self) -> dict[str, Any]:
        state = self._loaded_or_discarded()
        ports = free_ports(set() if state is None else state.ports, random.Random())
        if state is None:
            state = new_state(self._parameters, ports)
        check_agreement(self._parameters, state, self.directory)
        if state.secure:
            require("zookeeper-sasl", "a secured local cluster")
        self._end_orphans(state)
        self._resize_controllers(state, ports)
        if state.secure:
            secrets_of(self.directory).create()
        with Launcher(self.directory, state, self._progress) as launcher:
            kafka = state.of("broker", "kraft")
            base = [*state.of("zookeeper"), *kafka]
            launcher.start(base)
            launcher.await_ready(base, members=state.of("broker"))
            if state.secure and not state.has_been_up:
                launcher.add_users()
            controllers = state.of("controller")
            launcher.start(controllers)
            launcher.await_ready(controllers)
            state.has_been_up = True
            save(self.directory, state)
        if state.secure:
            secrets_of(self.directory).write_client_files(state.bootstrap_servers, self.controller_url)
        return self._describe(state)

    def _has_lost_a_port(self) -> bool:
        """Whether another process has taken a port of a cluster that was never up: the next start chooses others."""
        state = load(self.directory)
        return state is not None and not state.has_been_up and not all(map(is_free, state.ports))

    def down(self) -> list[str]:
        """End every process of the cluster, including those that other processes started; the data stays.

        Returns:
            The names of the servers that ran.

        Raises:
            LocalClusterError: ``cluster.json`` cannot be read (marked processes are ended nevertheless), or a process cannot
                be ended.
        """
        if not self.exists():
            return self._end_orphans(None)
        with self._locked():
            try:
                state = self._state()
            except LocalClusterError:
                self._end_orphans(None)
                raise
            running = [server.name for server in state.servers if processes.find(server.process)]
            stop_servers(self.directory, state, state.servers)
            return running + self._end_orphans(None)

    def exists(self) -> bool:
        """Whether the directory holds a cluster, running or not."""
        return (self.directory / FILE_NAME).exists()

    def status(self) -> list[ServerStatus]:
        """The current status of every server.

        Raises:
            LocalClusterError: there is no cluster in the directory.
        """
        return [self._status(server) for server in self._state().servers]

    def description(self) -> dict[str, Any]:
        """The addresses and pids as plain data: the JSON object that ``ordered-kafka local up`` prints.

        ``controller`` is a comma-separated list of URLs; ``pid`` is None for what does not run. A secured
        cluster has ``security`` in addition: where the files of its users are, and where clients with a certificate of
        their own connect to.

        Raises:
            LocalClusterError: there is no cluster in the directory.
        """
        return self._describe(self._state())

    @property
    def bootstrap_servers(self) -> str:
        """Kafka's ``bootstrap.servers``."""
        return self._state().bootstrap_servers

    @property
    def zookeeper(self) -> str:
        """ZooKeeper's connect string, without a chroot."""
        return self._state().zookeeper

    @property
    def controller_url(self) -> str:
        """The controllers' URLs, separated by commas; empty without controllers."""
        return ",".join(server.url for server in self._state().of("controller"))

    @property
    def secure(self) -> bool:
        """Whether the cluster is secured."""
        return self._state().secure

    @property
    def secrets(self) -> Secrets:
        """Certificates and passwords of a secured cluster."""
        return secrets_of(self.directory)

    def kafka_properties(self, user: str = secured.SUPER_USER, mechanism: str = MECHANISM) -> dict[str, str]:
        """librdkafka's properties with which clients connect to Kafka; of a secured cluster, as ``user``."""
        if not self.secure:
            return {"bootstrap.servers": self.bootstrap_servers}
        return self.secrets.kafka(self.bootstrap_servers, user, mechanism)

    def controller_options(self, user: str = secured.SUPER_USER) -> dict[str, str]:
        """Options with which clients connect to the controllers; of a secured cluster, as ``user``."""
        if not self.secure:
            return {"controller.url": self.controller_url}
        return self.secrets.controller(self.controller_url, user)

    @property
    def kafka_version(self) -> str:
        """Version of the brokers."""
        return self._state().kafka_version

    def log(self, name: str) -> Path:
        """The log and output file of the server ``name``."""
        return server_log(self.directory, self._server(self._state(), name))

    def start(self, name: str, *, env: Mapping[str, str] | None = None, wait: bool = True) -> int:
        """Start the server ``name``; does nothing if it runs. Returns its pid.

        Args:
            name: for example ``broker-1``.
            env: environment variables for the process, in addition to this process's own.
            wait: return when it is ready, not before.

        Raises:
            LocalClusterError: as :meth:`up`.
        """
        with self._locked():
            state = self._state()
            server = self._server(state, name)
            with Launcher(self.directory, state, self._progress) as launcher:
                launcher.start([server], env)
                if wait:
                    launcher.await_ready([server])
            if server.process is None:
                raise LocalClusterError(f"{name} was not started")
            return server.process.pid

    def stop(self, name: str) -> None:
        """Stop the server ``name``: SIGTERM first. Does nothing if it does not run."""
        with self._locked():
            state = self._state()
            stop_servers(self.directory, state, [self._server(state, name)])

    def kill(self, name: str) -> None:
        """SIGKILL the server ``name`` and wait until it has ended. Does nothing if it does not run."""
        with self._locked():
            state = self._state()
            server = self._server(state, name)
            processes.kill(processes.running([server.process]))
            server.process = None
            save(self.directory, state)

    def pause(self, name: str) -> None:
        """SIGSTOP the server ``name`` and wait until it is stopped: it keeps its connections and answers nothing.

        Raises:
            LocalClusterError: it does not run, or does not stop.
        """
        processes.pause(self._running(name), name)

    def resume(self, name: str) -> None:
        """SIGCONT the server ``name``.

        Raises:
            LocalClusterError: it does not run.
        """
        self._running(name).resume()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        what = f"the cluster in {self.directory}"
        with file_lock(self.directory / ".lock", timeout=START_TIMEOUT, what=what, error=LocalClusterError):
            yield

    def _state(self) -> ClusterState:
        state = load(self.directory)
        if state is None:
            raise LocalClusterError(f"there is no local cluster in {self.directory}")
        return state

    def _server(self, state: ClusterState, name: str) -> Server:
        for server in state.servers:
            if server.name == name:
                return server
        known = ", ".join(server.name for server in state.servers)
        raise ConfigError("server", name, f"the cluster in {self.directory} has {known}")

    def _running(self, name: str) -> psutil.Process:
        process = processes.find(self._server(self._state(), name).process)
        if process is None:
            raise LocalClusterError(f"{name} of the cluster in {self.directory} does not run")
        return process

    def _loaded_or_discarded(self) -> ClusterState | None:
        """The stored state; None if there is none or the first start failed, whose remains are then removed."""
        state = load(self.directory)
        if state is None or state.has_been_up:
            return state
        stop_servers(self.directory, state, state.servers)
        self._end_orphans(None)
        for server in state.servers:
            shutil.rmtree(server_directory(self.directory, server), ignore_errors=True)
        shutil.rmtree(secrets_of(self.directory).directory, ignore_errors=True)
        (self.directory / FILE_NAME).unlink()
        return None

    def _end_orphans(self, state: ClusterState | None) -> list[str]:
        """End processes with the directory's mark that are not in ``state``: their starter died too early."""
        known = () if state is None else (server.process for server in state.servers)
        orphans = processes.marked(self.directory, besides=processes.running(known))
        processes.stop(orphans, grace=5)
        return [f"process {orphan.pid}" for orphan in orphans]

    def _resize_controllers(self, state: ClusterState, ports: Iterator[int]) -> None:
        count = self._parameters.controllers
        if count is None:
            # A new cluster gets one; an existing one keeps its setting.
            count = len(state.of("controller")) if self.exists() else 1
        stop_servers(self.directory, state, resize_controllers(state, count, ports))

    def _status(self, server: Server) -> ServerStatus:
        process = processes.find(server.process)
        status = "stopped" if process is None else "paused" if processes.is_paused(process) else "running"
        return ServerStatus(
            name=server.name,
            kind=server.kind,
            address=server.address,
            pid=None if process is None else process.pid,
            status=status,
            log=str(server_log(self.directory, server)),
        )

    def _describe(self, state: ClusterState) -> dict[str, Any]:
        def pid(server: Server) -> int | None:
            process = processes.find(server.process)
            return None if process is None else process.pid

        return {
            "bootstrap_servers": state.bootstrap_servers,
            "zookeeper": state.zookeeper,
            "controller": ",".join(server.url for server in state.of("controller")),
            "brokers": [
                {
                    "id": broker.id,
                    "listener": broker.address,
                    "log_dirs": [str(path) for path in log_dirs(self.directory, broker)],
                    "rack": broker.rack,
                    "pid": pid(broker),
                }
                for broker in state.of("broker")
            ],
            "controllers": [{"url": server.url, "pid": pid(server)} for server in state.of("controller")],
            "zookeeper_servers": [
                {"address": server.address, "pid": pid(server)} for server in state.of("zookeeper")
            ],
            **({"security": secured.description(secrets_of(self.directory), state)} if state.secure else {}),
        }
