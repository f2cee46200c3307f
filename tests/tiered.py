"""Brokers that move segments to remote storage (KIP-405): a directory of this machine, by Kafka's own class for tests."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.local.jars import KAFKA_VERSIONS, kafka_jars
from spark_ordered_kafka.local.java import classpath, file_names, find_java, pyspark_jars

TOPIC = {"remote.storage.enable": "true", "local.retention.ms": "100", "segment.ms": "200"}
"""Of a topic whose records leave the brokers' disks within a second, but for those of the newest segment."""

_MANAGER = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
_MODULES = ("kafka-storage", "kafka-clients")
# Ivy reads Maven's files, too, in which a classifier needs no namespace.
_POM = """\
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>spark-ordered-kafka</groupId>
  <artifactId>tiered</artifactId>
  <version>1</version>
  <dependencies>{}</dependencies>
</project>
"""
_DEPENDENCY = """
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>{}</artifactId>
      <version>{}</version>
      <classifier>test</classifier>
      <exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>
    </dependency>"""


@contextmanager
def tiered_cluster(home: Path, monkeypatch: pytest.MonkeyPatch, brokers: int) -> Iterator[LocalCluster]:
    """Brokers and a controller; what the brokers have moved lies in ``home / "remote"``."""
    version = KAFKA_VERSIONS[0]
    java = find_java()
    jars = home / "cache" / f"kafka-{version}"
    jars.mkdir(parents=True)
    for jar in kafka_jars(version, java=java, progress=lambda _: None):
        (jars / jar.name).symlink_to(jar)
    _download(java, version, jars, home)
    monkeypatch.setenv("ORDERED_KAFKA_CACHE", str(home / "cache"))
    (home / "remote").mkdir()
    config = {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": _MANAGER,
        "remote.log.storage.manager.impl.prefix": "rsm.config.",
        "rsm.config.dir": str(home / "remote"),
        "remote.log.metadata.manager.impl.prefix": "rlmm.config.",
        "remote.log.metadata.manager.listener.name": "PLAINTEXT",
        "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
        "rlmm.config.remote.log.metadata.topic.num.partitions": "3",
        "remote.log.manager.task.interval.ms": "200",
        "log.retention.check.interval.ms": "200",
        "log.initial.task.delay.ms": "500",
        "log.segment.delete.delay.ms": "100",
    }
    with LocalCluster(home / "cluster", brokers=brokers, controllers=1, broker_config=config) as cluster:
        yield cluster


def first_local_offsets(cluster: LocalCluster, topic: str) -> dict[int, int]:
    """By partition, where what some broker still has on its disks begins."""
    found: dict[int, int] = {}
    for log in cluster.directory.glob(f"broker-*/data-*/{topic}-*/*.log"):
        partition = int(log.parent.name.rpartition("-")[2])
        found[partition] = min(found.get(partition, int(log.stem)), int(log.stem))
    return found


def _download(java: str, version: str, target: Path, scratch: Path) -> None:
    pom = scratch / "tiered.pom"
    pom.write_text(_POM.format("".join(_DEPENDENCY.format(name, version) for name in _MODULES)))
    ivy = [java, "-cp", classpath(pyspark_jars("ivy-*.jar", "commons-cli-*.jar")), "org.apache.ivy.Main"]
    subprocess.run(
        [
            *(*ivy, "-warn", "-ivy", str(pom), "-cache", str(scratch / "ivy"), "-confs", "compile"),
            *("-retrieve", f"{target}/[artifact]-[revision](-[classifier]).[ext]"),
        ],
        env=os.environ | file_names(),
        check=True,
        timeout=600,
    )
    missing = [name for name in _MODULES if not (target / f"{name}-{version}-test.jar").exists()]
    assert missing == []
