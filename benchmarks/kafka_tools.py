"""Apache Kafka's own command-line tools, from Maven Central: what this package is judged by and measured against."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from spark_ordered_kafka.errors import ConfigError, LocalClusterError
from spark_ordered_kafka.local.jars import KAFKA_VERSIONS, SLF4J_BINDING, Download, Jar, cached_jars
from spark_ordered_kafka.local.java import SMALL_JVM, classpath, find_java

_CLASSES = {
    "kafka-console-share-consumer": "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
}


def kafka_tool(
    tool: str,
    *args: str,
    version: str = KAFKA_VERSIONS[0],
    command_config: Path | None = None,
    timeout: float = 120.0,
    progress: Callable[[str], None] = lambda _: None,
) -> subprocess.CompletedProcess[str]:
    """Run a tool of Apache Kafka to its end; its exit code, standard output and standard error.

    Args:
        tool: name of its script without ``.sh``, one of those above.
        args: its arguments, as ``--bootstrap-server``, ``127.0.0.1:9092``.
        version: one of :data:`~spark_ordered_kafka.local.jars.KAFKA_VERSIONS`; that of the brokers may be another.
        command_config: file with the properties of the connection to a secured cluster:
            ``Secrets.properties_file(user, "client")``.
        timeout: seconds, without the download the first time (about 45 MB).
        progress: is told when a download begins and when it is tried again.

    Raises:
        ConfigError: an unknown tool or version.
        LocalClusterError: there is no Java, the download failed, or the tool did not end in time.
    """
    if tool not in _CLASSES:
        raise ConfigError("tool", tool, f"give one of {', '.join(_CLASSES)}")
    if version not in KAFKA_VERSIONS:
        raise ConfigError("version", version, f"give one of {', '.join(KAFKA_VERSIONS)}")
    java = find_java()
    wanted = Download(
        f"Apache Kafka {version} tools",
        f"kafka-tools-{version}",
        (Jar("org.apache.kafka", "kafka-tools", version), SLF4J_BINDING),
    )
    jars = cached_jars(wanted, java=java, progress=progress)
    # Without a configuration log4j prints errors alone, to standard error.
    command = [java, *SMALL_JVM, "-cp", classpath(jars), _CLASSES[tool], *args]
    if command_config is not None:
        command += ["--command-config", str(command_config)]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        raise LocalClusterError(f"{tool} {' '.join(args)} did not end within {timeout:g} s") from None
