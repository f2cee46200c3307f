"""Starting the servers of a local cluster and waiting until they are ready."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path

import psutil

from spark_ordered_kafka.errors import LocalClusterError
from spark_ordered_kafka.local import accounts, processes, readiness, secured, servers
from spark_ordered_kafka.local.class_archive import sharing
from spark_ordered_kafka.local.jars import kafka_jars
from spark_ordered_kafka.local.java import find_java
from spark_ordered_kafka.local.ports import HOST, is_free
from spark_ordered_kafka.local.state import ClusterState, Server, save

START_TIMEOUT = 300.0
"""Seconds one start may take, without a download. A server that ends is seen at once; this is for slow machines."""

STOP_GRACE = 15.0
"""Seconds between SIGTERM and SIGKILL; a broker's controlled shutdown takes one or two."""

_LOG_LINES = 15


class Launcher:
    """Starts servers of one cluster; stops them again when the block ends with an error.

    ``state`` is changed in place and saved after every process that starts, so that at any moment the directory knows
    nearly all of them; the others have the mark of :data:`processes.MARKER`.
    """

    def __init__(self, directory: Path, state: ClusterState, progress: Callable[[str], None]) -> None:
        self._directory = directory
        self._state = state
        self._progress = progress
        self._java = find_java()
        self._jars = kafka_jars(state.kafka_version, java=self._java, progress=progress)
        self._jvm = sharing(self._java, self._jars, state.kafka_version, progress=progress)
        self._deadline = time.monotonic() + START_TIMEOUT
        self._log_starts: dict[str, int] = {}
        self._started: list[Server] = []
        self._formatting: list[psutil.Process] = []

    def __enter__(self) -> Launcher:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            # Also on ctrl-C: stop what was started here.
            processes.stop(self._formatting, grace=0)
            stop_servers(self._directory, self._state, self._started)

    def start(self, chosen: Sequence[Server], env: Mapping[str, str] | None = None) -> None:
        """Start the stopped servers of ``chosen`` at the same time, and resume paused ones.

        Args:
            chosen: servers of the state.
            env: environment variables for the started processes, in addition to this process's own.

        Raises:
            LocalClusterError: a port is taken, or a program cannot be executed or formatted.
        """
        stopped = []
        for server in chosen:
            process = processes.find(server.process)
            if process is None:
                stopped.append(server)
            elif processes.is_paused(process):
                process.resume()
        self._check_ports(stopped)
        if stopped:
            self._progress(f"Starting {', '.join(server.name for server in stopped)}")
        nodes = [server for server in stopped if server.kind in ("broker", "kraft")]
        for server in stopped:
            if server not in nodes:
                self._spawn(server, env or {})
        self._format(nodes)
        for node in nodes:
            self._spawn(node, env or {})

    def await_ready(self, chosen: Sequence[Server], *, members: Iterable[Server] = ()) -> None:
        """Wait until the servers serve.

        Args:
            chosen: running servers of the state.
            members: brokers that each chosen broker must have as registered.

        Raises:
            LocalClusterError: a server ended, with the end of its log, or the time limit has passed.
        """
        ids = {broker.id for broker in members}
        self._await(
            {server.name: self._condition(server, ids) for server in chosen if server.kind != "kraft"}, chosen
        )

    def add_users(self) -> None:
        """Create the users of a secured cluster, and wait until each running broker has them.

        Raises:
            LocalClusterError: as :meth:`await_ready`.
        """
        secrets, brokers = servers.secrets_of(self._directory), self._state.of("broker")
        accounts.create_users(
            secrets, self._state.bootstrap_servers, timeout=self._deadline - time.monotonic()
        )
        conditions = {}
        for broker in brokers:
            kafka = secrets.kafka(broker.address, secured.SUPER_USER)
            conditions[broker.name] = readiness.broker_serves(kafka, {broker.id})
        self._await(conditions, brokers)

    def _await(
        self, conditions: Mapping[str, AbstractContextManager[readiness.Condition]], chosen: Sequence[Server]
    ) -> None:
        """Wait for conditions of servers, by name, while those ``chosen`` run."""
        with ExitStack() as stack:
            # Entered first and awaited after: the clients connect while others are waited for.
            entered = [
                (server, stack.enter_context(conditions[server.name]))
                for server in chosen
                if server.name in conditions
            ]
            for server, condition in entered:
                readiness.wait_until(
                    condition,
                    timeout=self._deadline - time.monotonic(),
                    otherwise=partial(self._not_ready, server),
                    check=lambda: self._check_running(chosen),
                )

    def _condition(self, server: Server, members: set[int]) -> AbstractContextManager[readiness.Condition]:
        secrets = servers.secrets_of(self._directory) if self._state.secure else None
        if server.kind == "zookeeper":
            return readiness.zookeeper_serves(server.address, secrets)
        if server.kind == "broker":
            kafka = {"bootstrap.servers": server.address}
            if secrets is not None:
                # The broker's configuration has these users; those of SCRAM are in the metadata, once they were made.
                kafka = secrets.kafka(server.address, secured.SUPER_USER, "PLAIN")
            return readiness.broker_serves(kafka, members | {server.id})
        return readiness.http_ready(f"{server.url}/readyz", None if secrets is None else secrets.ca)

    def _spawn(self, server: Server, env: Mapping[str, str]) -> None:
        log = self._log(server)
        self._log_starts[server.name] = log.stat().st_size if log.exists() else 0
        server.process = processes.spawn(self._command(server), directory=self._directory, log=log, env=env)
        self._started.append(server)
        save(self._directory, self._state)

    def _command(self, server: Server) -> list[str]:
        if server.kind == "controller":
            return servers.controller_command(self._directory, self._state, server)
        if server.kind == "zookeeper":
            config = servers.write_zookeeper_config(self._directory, self._state, server)
            return servers.zookeeper_command(self._java, config, login=self._state.secure)
        config = servers.write_kafka_config(self._directory, self._state, server)
        return servers.kafka_command(self._java, self._jars, config, self._jvm)

    def _format(self, nodes: Sequence[Server]) -> None:
        new = [node for node in nodes if not servers.is_formatted(self._directory, node)]
        for node in new:
            config = servers.write_kafka_config(self._directory, self._state, node)
            log = self._log(node)
            self._log_starts[node.name] = log.stat().st_size if log.exists() else 0
            command = servers.storage_tool_command(
                self._java, self._jars, config, self._state.cluster_id, self._jvm
            )
            tool = processes.spawn(command, directory=self._directory, log=log, env={})
            self._formatting += processes.running([tool])
        psutil.wait_procs(self._formatting, timeout=max(0, self._deadline - time.monotonic()))
        for node in new:
            if not servers.is_formatted(self._directory, node):
                raise LocalClusterError(f"{node.name} could not be formatted:\n{self._log_tail(node)}")
        self._formatting.clear()

    def _check_ports(self, chosen: Sequence[Server]) -> None:
        for server in chosen:
            for port in sorted(server.ports):
                if not is_free(port):
                    raise LocalClusterError(
                        f"port {port} of {server.name} on {HOST} is in use by another process: "
                        f"end that one, or use another directory than {self._directory}"
                    )

    def _not_ready(self, server: Server) -> str:
        return (
            f"{server.name} at {server.address} is not ready {START_TIMEOUT:g} s after the start began; "
            f"the end of {self._log(server)}:\n{self._log_tail(server)}"
        )

    def _check_running(self, chosen: Sequence[Server]) -> None:
        for server in chosen:
            if processes.find(server.process) is None:
                raise LocalClusterError(
                    f"{server.name} ended while it was starting; the end of {self._log(server)}:\n"
                    f"{self._log_tail(server)}"
                )

    def _log(self, server: Server) -> Path:
        return servers.server_log(self._directory, server)

    def _log_tail(self, server: Server) -> str:
        with self._log(server).open("rb") as file:
            file.seek(self._log_starts.get(server.name, 0))
            lines = file.read().decode("utf-8", errors="replace").splitlines()
        # The error lines show the cause; the lines after them are the shutdown.
        causes = [line for line in lines if " ERROR " in line or "Exception" in line or "Error:" in line]
        return "\n".join([*causes[:3], *(["..."] if causes else []), *lines[-_LOG_LINES:]])


def stop_servers(directory: Path, state: ClusterState, chosen: Sequence[Server]) -> None:
    """End the processes of the servers and note it: first what depends on others, then those others."""
    for kinds in (("controller",), ("broker",), ("kraft", "zookeeper")):
        group = [server for server in chosen if server.kind in kinds]
        processes.stop(processes.running(server.process for server in group), grace=STOP_GRACE)
        for server in group:
            server.process = None
    save(directory, state)
