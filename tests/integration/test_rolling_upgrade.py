"""Kafka is upgraded under load: one server after another starts with the newer version, and then its features are switched on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from benchmarks.kafka_tools import kafka_tool
from spark_ordered_kafka import OrderedProducer
from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.local.state import load, save
from spark_ordered_kafka.updates import updated
from tests.integration.producing import Load, check_numbered
from tests.integration.test_broker_kills import await_whole, create_replicated
from tests.integration.test_ordered_pipeline import Copier
from tests.queries import await_stable, everything
from tests.streams import FORMAT, change, conf, options

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
    source, copy, queried = (f"{topic_name}-{name}" for name in ("source", "copy", "queried"))
    for topic in (source, copy, queried):
        create_replicated(servers, topic, 2)
    query = (
        spark.readStream.format(FORMAT)
        .options(**everything(servers, source))
        .load()
        .select("key", "value")
        .writeStream.format(FORMAT)
        .options(**options(servers, topic=queried))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    counts = iter([4, 3, 6, 2, 5, 8, 3, 4, 7, 2])
    with ExitStack() as stack:
        stack.callback(query.stop)
        copier = stack.enter_context(Copier(servers, source, copy))
        with (
            OrderedProducer(conf(servers, commit_interval_ms=50)) as producer,
            Load(producer, source, pause=0.02) as load,
        ):

            def go_on() -> None:
                count = next(counts)
                for topic in (source, copy, queried):
                    change(servers, topic, count)
                copier.await_more()
                load.await_round()
                assert query.exception() is None

            go_on()
            for name in use(servers, NEW):
                for topic in (source, copy, queried):
                    await_whole(servers, topic)
                servers.stop(name)
                servers.start(name)
                go_on()
            done = kafka_tool(
                *("kafka-features", "--bootstrap-server", servers.bootstrap_servers, "upgrade"),
                *("--release-version", NEW.rpartition(".")[0]),
            )
            assert "transaction.version was upgraded to 2." in done.stdout, done.stdout + done.stderr
            for _ in range(3):
                go_on()
        copier.await_copied(load.produced)
        await_stable(servers, source)
        query.processAllAvailable()
    for topic in (source, copy, queried):
        check_numbered(servers, topic, load.produced)
