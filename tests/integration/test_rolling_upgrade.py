"""Kafka is upgraded under load: one server after another starts with the newer version, and then its features are switched on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from benchmarks.kafka_tools import kafka_tool
from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.local.state import load, save
from spark_ordered_kafka.updates import updated
from tests.integration.under_load import UnderLoad

OLD, NEW = "3.9.2", "4.3.1"


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path / "servers", brokers=3, controllers=2, kafka_version=OLD) as cluster:
        yield cluster


def use(cluster: LocalCluster, version: str) -> list[str]:
    """Start servers of Kafka with this version from now on; their names."""
    state = load(cluster.directory)
    assert state is not None
    save(cluster.directory, updated(state, kafka_version=version))
    return [server.name for server in state.of("kraft", "broker")]


@pytest.mark.long
@pytest.mark.timeout(900)
def test_writers_readers_and_changes_go_on_while_kafka_is_upgraded(
    servers: LocalCluster, spark: SparkSession, topic_name: str, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        work = UnderLoad(stack, servers, spark, topic_name, tmp_path / "checkpoint")
        work.change_all()
        for name in use(servers, NEW):
            work.await_whole()
            servers.stop(name)
            servers.start(name)
            work.change_all()
        done = kafka_tool(
            *("kafka-features", "--bootstrap-server", servers.bootstrap_servers, "upgrade"),
            *("--release-version", NEW.rpartition(".")[0]),
        )
        assert "transaction.version was upgraded to 2." in done.stdout, done.stdout + done.stderr
        for _ in range(3):
            work.change_all()
        work.finish()
