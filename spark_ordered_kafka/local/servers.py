"""Configuration files and command lines of the servers: Kafka nodes, ZooKeeper, controllers."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import javaproperties

from spark_ordered_kafka.local import secured
from spark_ordered_kafka.local.java import SMALL_JVM, classpath, pyspark_jars
from spark_ordered_kafka.local.ports import HOST
from spark_ordered_kafka.local.secrets import Secrets, write_private
from spark_ordered_kafka.local.state import ClusterState, Server

OWNED_BROKER_PROPERTIES = frozenset(
    {
        "process.roles",
        "node.id",
        "broker.id",
        "broker.rack",
        "controller.quorum.voters",
        "controller.quorum.bootstrap.servers",
        "listeners",
        "advertised.listeners",
        "log.dir",
        "log.dirs",
        "metadata.log.dir",
    }
)
"""Broker properties that the local cluster sets itself."""

_LOG4J2 = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = [%d] %p %m (%c)%n%throwable
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
"""

_ZOOKEEPER_JARS = (
    "zookeeper-*.jar",
    "netty-*.jar",
    "metrics-core-*.jar",
    "snappy-java-*.jar",
    "commons-io-*.jar",
    "slf4j-api-*.jar",
    "log4j-*.jar",
)

_BROKER_JVM = ("-Xmx512m", "-XX:+ExitOnOutOfMemoryError")


def server_directory(directory: Path, server: Server) -> Path:
    """Directory of a server's configuration, data and log."""
    return directory / server.name


def secrets_of(directory: Path) -> Secrets:
    """Certificates and passwords of a secured cluster."""
    return Secrets(directory / "security")


def server_log(directory: Path, server: Server) -> Path:
    """The server's log and output file."""
    return server_directory(directory, server) / "server.log"


def log_dirs(directory: Path, broker: Server) -> list[Path]:
    """The two directories in which a broker keeps partitions (Kafka's ``log.dirs``)."""
    return [server_directory(directory, broker) / f"data-{number}" for number in (1, 2)]


def metadata_directory(directory: Path, node: Server) -> Path:
    """A Kafka node's ``metadata.log.dir``: apart from the log dirs, so that one of those may fail on its own."""
    return server_directory(directory, node) / "metadata"


def is_formatted(directory: Path, node: Server) -> bool:
    """Whether Kafka's storage tool has finished with the node's directories (it writes ``meta.properties`` last)."""
    dirs = [
        metadata_directory(directory, node),
        *(log_dirs(directory, node) if node.kind == "broker" else []),
    ]
    return all((path / "meta.properties").is_file() for path in dirs)


def write_kafka_config(directory: Path, state: ClusterState, node: Server) -> Path:
    """Write a Kafka node's ``server.properties`` and return its path."""
    return _write_config(directory, node, "server.properties", kafka_properties(directory, state, node))


def write_zookeeper_config(directory: Path, state: ClusterState, server: Server) -> Path:
    """Write a ZooKeeper server's ``zoo.cfg`` (and what goes with it) and return its path."""
    home = server_directory(directory, server)
    data = home / "data"
    data.mkdir(parents=True, exist_ok=True)
    (data / "myid").write_text(f"{server.id}\n")
    properties = zookeeper_properties(data, state, server)
    if state.secure:
        secrets = secrets_of(directory)
        properties |= secured.zookeeper_properties(secrets, state, server)
        secured.write_zookeeper_login(secrets, home)
    return _write_config(directory, server, "zoo.cfg", properties)


def kafka_properties(directory: Path, state: ClusterState, node: Server) -> dict[str, str]:
    """Properties of a Kafka node in KRaft mode, by the names of Kafka's documentation.

    The quorum is the nodes that have a controller listener: the only broker, or a dedicated node with several
    brokers, so that any broker can be killed or paused without the quorum noticing.
    """
    voters = [voter for voter in state.of("broker", "kraft") if voter.internal_ports]
    brokers = len(state.of("broker"))
    replicas = min(brokers, 3)
    min_isr = max(1, replicas - 1)
    listeners = [f"PLAINTEXT://{node.address}"] if node.kind == "broker" else []
    listeners += [f"CONTROLLER://{HOST}:{port}" for port in node.internal_ports]
    roles = ["broker"] if node.kind == "broker" else []
    roles += ["controller"] if node.internal_ports else []
    metadata = metadata_directory(directory, node)
    properties = {
        "process.roles": ",".join(roles),
        "node.id": str(node.id),
        "controller.quorum.voters": ",".join(f"{v.id}@{HOST}:{v.internal_ports[0]}" for v in voters),
        "controller.listener.names": "CONTROLLER",
        "listeners": ",".join(listeners),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "metadata.log.dir": str(metadata),
        "log.dirs": str(metadata),
        "auto.create.topics.enable": "false",
        "default.replication.factor": str(replicas),
        "group.initial.rebalance.delay.ms": "0",
        # No record twice a second that says nothing: idle brokers take a third less of the processor (KIP-835).
        "metadata.max.idle.interval.ms": "0",
        # Detect a failed or stopping broker, and admit a started one, within a second or two.
        "broker.heartbeat.interval.ms": "500",
        "broker.session.timeout.ms": "4000",
        "controlled.shutdown.retry.backoff.ms": "200",
        # What a killed client leaves behind is looked for soon; when it is given up, the client's own settings say.
        "group.min.session.timeout.ms": "1000",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
        # Retention and deletion fast enough to watch, for people and tests.
        "log.initial.task.delay.ms": "1000",
        "log.retention.check.interval.ms": "1000",
        "log.segment.delete.delay.ms": "1000",
        # By default 128 MB, a quarter of the heap.
        "log.cleaner.dedupe.buffer.size": str(16 * 1024 * 1024),
    }
    for topic in ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic"):
        properties[f"{topic}.num.partitions"] = "5"
        properties[f"{topic}.replication.factor"] = str(replicas)
    for topic in ("transaction.state.log", "share.coordinator.state.topic"):
        properties[f"{topic}.min.isr"] = str(min_isr)
    if node.kind == "broker":
        properties["inter.broker.listener.name"] = "PLAINTEXT"
        properties["log.dirs"] = ",".join(map(str, log_dirs(directory, node)))
    if node.rack is not None:
        properties["broker.rack"] = node.rack
    if state.secure:
        properties |= secured.kafka_properties(secrets_of(directory), node)
    return properties | state.broker_config


def zookeeper_properties(data: Path, state: ClusterState, server: Server) -> dict[str, str]:
    """Properties of a ZooKeeper server, by the names of ZooKeeper's documentation."""
    ensemble = state.of("zookeeper")
    properties = {
        # Sessions may be as short as 2 ticks; elections and takeovers in tests then need no long waits.
        "tickTime": "500",
        "maxSessionTimeout": "40000",
        "initLimit": "20",
        "syncLimit": "10",
        "dataDir": str(data),
        "maxClientCnxns": "0",
        "admin.enableServer": "false",
        "4lw.commands.whitelist": "ruok,srvr,mntr",
        "autopurge.purgeInterval": "1",
    }
    if not state.secure:
        properties |= {"clientPort": str(server.port), "clientPortAddress": HOST}
    if len(ensemble) > 1:
        for member in ensemble:
            properties[f"server.{member.id}"] = ":".join([HOST, *map(str, member.internal_ports)])
    return properties


def storage_tool_command(
    java: str, jars: Sequence[Path], config: Path, cluster_id: str, jvm: Sequence[str] = ()
) -> list[str]:
    """Command that formats a Kafka node's directories; directories that are formatted already stay as they are.

    ``jvm``: further options of Java.
    """
    tool = [java, *SMALL_JVM, *jvm, "-cp", classpath(list(jars)), "kafka.tools.StorageTool"]
    # An id may begin with a dash.
    return [*tool, "format", f"--cluster-id={cluster_id}", "--config", str(config), "--ignore-formatted"]


def kafka_command(java: str, jars: Sequence[Path], config: Path, jvm: Sequence[str] = ()) -> list[str]:
    """Command that runs a Kafka node.

    ``jvm``: further options of Java. ``$KAFKA_JVM_PERFORMANCE_OPTS`` stands, as with Kafka's own scripts, in the place of those
    that suit a broker with little to do.
    """
    performance = os.environ.get("KAFKA_JVM_PERFORMANCE_OPTS")
    chosen = SMALL_JVM if performance is None else shlex.split(performance)
    options = [*_BROKER_JVM, *chosen, *jvm, _logging(config)]
    return [java, *options, "-cp", classpath(list(jars)), "kafka.Kafka", str(config)]


def zookeeper_command(java: str, config: Path, *, login: bool) -> list[str]:
    """Command that runs a ZooKeeper server (``QuorumPeerMain`` serves alone when the ensemble is one server).

    ``login``: whether there is a ``jaas.conf`` in the directory of ``config``.
    """
    main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
    jvm = ["-Xmx256m", *SMALL_JVM, "-Dzookeeper.admin.enableServer=false", _logging(config)]
    if login:
        jvm.append(f"-Djava.security.auth.login.config={config.parent / 'jaas.conf'}")
    return [java, *jvm, "-cp", classpath(pyspark_jars(*_ZOOKEEPER_JARS)), main, str(config)]


def controller_command(directory: Path, state: ClusterState, server: Server) -> list[str]:
    """Command that runs a controller of this package in this Python; also writes a secured cluster's configuration."""
    command = [sys.executable, "-m", "spark_ordered_kafka.cli", "controller", "run"]
    if state.secure:
        home = server_directory(directory, server)
        return [
            *command,
            "--config",
            str(secured.write_controller_config(secrets_of(directory), state, server, home)),
        ]
    command += ["--bootstrap-server", state.bootstrap_servers, "--zookeeper", state.zookeeper]
    return [*command, "--host", HOST, "--port", str(server.port)]


def _logging(config: Path) -> str:
    # The URI form also works with spaces in the path.
    return f"-Dlog4j2.configurationFile={(config.parent / 'log4j2.properties').as_uri()}"


def _write_config(directory: Path, server: Server, name: str, properties: Mapping[str, str]) -> Path:
    home = server_directory(directory, server)
    home.mkdir(parents=True, exist_ok=True)
    (home / "log4j2.properties").write_text(_LOG4J2)
    path = home / name
    write_private(path, javaproperties.dumps(properties, timestamp=False))
    return path
