"""Spark's standalone cluster of a run: a master and two workers, each on a host of its own, and the application's settings."""

from __future__ import annotations

import sys
from pathlib import Path

import pyspark

from spark_ordered_kafka.local.java import SMALL_JVM
from tests.nemesis.cluster import mount_disk
from tests.nemesis.journal import Journal
from tests.nemesis.network import ROOT, Network
from tests.nemesis.nodes import Node, always

MASTER = "master-1"
WORKERS = ("worker-1", "worker-2")
_PORT = 7077
_DISK = "256m"
"""Size of the file system for checkpoints."""
_HOME = Path(pyspark.__file__).parent
_DAEMON = "org.apache.spark.deploy"


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
        commands = {MASTER: self._master(), **{name: self._worker(name) for name in WORKERS}}
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
        }

    def _env(self, name: str) -> dict[str, str]:
        daemon = (
            "-Dspark.deploy.recoveryMode=FILESYSTEM",
            f"-Dspark.deploy.recoveryDirectory={self._directory}/recovery",
        )
        # However many executors are killed, the application gets new ones.
        patient = ("-Dspark.deploy.maxExecutorRetries=-1", "-Dspark.worker.timeout=10")
        return {
            "SPARK_HOME": str(_HOME),
            "SPARK_LOCAL_IP": self._network.address(name),
            "SPARK_LOCAL_DIRS": str(self._directory / name / "local"),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": " ".join((*SMALL_JVM, *daemon, *patient)),
            "PYSPARK_PYTHON": sys.executable,
        }

    def _master(self) -> list[str]:
        return self._daemon(MASTER, "master.Master", ["--port", str(_PORT)])

    def _worker(self, name: str) -> list[str]:
        work = ["--cores", "1", "--memory", "700m", "--work-dir", str(self._directory / name / "work")]
        return self._daemon(name, "worker.Worker", [*work, self._url])

    def _daemon(self, name: str, main: str, options: list[str]) -> list[str]:
        own = ["--host", self._network.address(name), "--webui-port", "0"]
        return [str(_HOME / "bin" / "spark-class"), f"{_DAEMON}.{main}", *own, *options]
