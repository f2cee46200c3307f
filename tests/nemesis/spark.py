"""Spark's standalone cluster of a run: a master and two workers, each on a host of its own, and the application's settings."""

from __future__ import annotations

from enum import Enum
from pathlib import Path

from spark_ordered_kafka.local.java import SMALL_JVM
from tests.integration.standalone import SPARK_HOME, daemon_variables, master_command, worker_command
from tests.nemesis.cluster import mount_disk
from tests.nemesis.journal import Journal
from tests.nemesis.network import ROOT, Network
from tests.nemesis.nodes import Node, always

MASTER = "master-1"
WORKERS = ("worker-1", "worker-2")
_PORT = 7077
_DISK = "256m"
"""Size of the file system for checkpoints."""


class Way(Enum):
    """How the query writes: as a stream, or in foreachBatch after a shuffle."""

    STREAM = "stream"
    BATCHES = "batches"


class SparkCluster:
    """``nodes`` has master and workers by name. A worker's node has its executors, too, and their Python processes.

    ``checkpoints``: a directory for them, which is a file system of its own.
    """

    def __init__(self, directory: Path, network: Network, journal: Journal) -> None:
        self._directory = directory
        self._network = network
        self.checkpoints = directory / "checkpoints"
        mount_disk(self.checkpoints, _DISK)
        self._url = f"spark://{network.address(MASTER)}:{_PORT}"
        commands = {MASTER: master_command(network.address(MASTER), _PORT)} | {
            name: worker_command(network.address(name), directory / name / "work", self._url)
            for name in WORKERS
        }
        self.nodes = {
            name: Node(name, network, journal, directory / name / "log", always(command), self._env(name))
            for name, command in commands.items()
        }

    def settings(self, driver: str) -> dict[str, str]:
        """Configuration of an application whose driver runs on the host ``driver``.

        An executor that is silent for longer than a fault of middle length counts as lost, and its tasks run again
        elsewhere while it may still be at work on them.
        """
        address = self._network.address(driver)
        return {
            "spark.master": self._url,
            "spark.driver.host": address,
            "spark.driver.bindAddress": address,
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": " ".join(SMALL_JVM),
            "spark.executorEnv.PYTHONPATH": str(ROOT),
            "spark.executor.heartbeatInterval": "1s",
            "spark.network.timeout": "6s",
            "spark.network.timeoutInterval": "2s",
            # Of two tasks at work on the same rows the slower one is stopped, or comes too late.
            "spark.speculation": "true",
            "spark.speculation.interval": "200ms",
            "spark.speculation.quantile": "0.5",
            "spark.speculation.minTaskRuntime": "1s",
        }

    def _env(self, name: str) -> dict[str, str]:
        recovery = (
            "-Dspark.deploy.recoveryMode=FILESYSTEM",
            f"-Dspark.deploy.recoveryDirectory={self._directory / 'recovery'}",
        )
        # However many executors are killed, the application gets new ones.
        patient = ("-Dspark.deploy.maxExecutorRetries=-1", "-Dspark.worker.timeout=10")
        return daemon_variables(self._directory / name) | {
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": self._network.address(name),
            "SPARK_DAEMON_JAVA_OPTS": " ".join((*SMALL_JVM, *recovery, *patient)),
        }
