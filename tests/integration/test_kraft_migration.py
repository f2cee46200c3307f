"""Kafka's metadata moves from ZooKeeper to KRaft under load, step by step as Kafka's documentation says (KIP-866)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, closing
from enum import Enum
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from pyspark.sql import SparkSession

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.configs import TopicConfigs
from spark_ordered_kafka.local import LocalCluster, cluster, servers
from spark_ordered_kafka.local.launcher import Launcher
from spark_ordered_kafka.local.plan import Parameters, new_state
from spark_ordered_kafka.local.state import ClusterState, Server, load, save
from spark_ordered_kafka.updates import updated
from tests.integration.keepers import started
from tests.integration.under_load import UnderLoad
from tests.other_kafka import CHROOT, LAST_WITH_ZOOKEEPER, with_kraft, with_zookeeper
from tests.servers import TIMEOUT, await_true
from tests.streams import change

BROKERS = 1, 2, 3
_MIGRATED = "Completed migration of metadata from ZooKeeper to KRaft"


class Stage(Enum):
    """What a server of Kafka is configured for."""

    ZOOKEEPER = 1
    MIGRATION = 2
    KRAFT = 3


class Migration:
    """Three brokers whose metadata is in ZooKeeper, and the node of KRaft that is to take it.

    Clusters begin in that way while ``patch`` lasts.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.quorum: Server
        self._stages: dict[str, Stage] = {}
        to_format = Launcher._format

        def format_quorum(launcher: Launcher, nodes: list[Server]) -> None:
            # A broker keeps its directories, of which the first takes the metadata.
            to_format(launcher, [node for node in nodes if node.kind == "kraft"])

        patch.setattr(cluster, "new_state", self._new_state)
        patch.setattr(servers, "kafka_properties", self._properties)
        patch.setattr(Launcher, "_format", format_quorum)

    def _new_state(self, parameters: Parameters, ports: Iterator[int]) -> ClusterState:
        state = new_state(parameters, ports)
        (self.quorum,) = state.of("kraft")
        state.servers.remove(self.quorum)
        return state

    def _properties(self, directory: Path, state: ClusterState, node: Server) -> dict[str, str]:
        stage = self._stages.get(node.name, Stage.ZOOKEEPER)
        new = with_kraft(directory, state, node)
        if node.kind == "broker":
            new["metadata.log.dir"] = str(servers.log_dirs(directory, node)[0])
        if stage is Stage.KRAFT:
            return new
        migrating = {"zookeeper.metadata.migration.enable": "true"}
        if node.kind == "kraft":
            return new | migrating | {"zookeeper.connect": f"{state.zookeeper}{CHROOT}"}
        old = with_zookeeper(directory, state, node)
        if stage is Stage.ZOOKEEPER:
            return old
        named = "controller.quorum.voters", "controller.listener.names", "listener.security.protocol.map"
        version = {"inter.broker.protocol.version": LAST_WITH_ZOOKEEPER.rpartition(".")[0]}
        return old | migrating | version | {name: new[name] for name in named}

    def begin(self, local: LocalCluster) -> None:
        """Start the node of KRaft, with the cluster's id."""
        state = load(local.directory)
        assert state is not None
        with started(KazooClient(hosts=state.zookeeper)) as client:
            cluster_id = json.loads(client.get(f"{CHROOT}/cluster/id")[0])["id"]
        save(
            local.directory,
            updated(state, cluster_id=cluster_id, servers=[*state.servers, self.quorum]),
        )
        self._stages[self.quorum.name] = Stage.MIGRATION
        local.start(self.quorum.name)

    def restart(self, local: LocalCluster, name: str, stage: Stage) -> None:
        """Start a server again, configured for this stage."""
        self._stages[name] = stage
        local.stop(name)
        local.start(name)

    def is_done(self, local: LocalCluster) -> bool:
        """Whether all metadata is in KRaft; ZooKeeper has a copy until the node of KRaft has the last stage."""
        return _MIGRATED in servers.server_log(local.directory, self.quorum).read_text()


def operate(local: LocalCluster, topic: str, moved: str) -> None:
    """A topic comes, grows, is moved with a throttle, and goes. Partition 0 of ``moved`` gets its brokers in reverse order."""
    with ControllerClient(local.controller_url) as controller:
        configs = {"retention.ms": "7"}
        controller.create_topic(
            schemas.CreateTopicRequest(topic=topic, partitions=1, replication_factor=2, configs=configs)
        )
        change(local, topic, 2)
        here, there = (controller.topic(name).partitions[0].replicas for name in (topic, moved))
        (other,) = set(BROKERS) - set(here)
        rows = [
            schemas.PartitionReassignment(topic=topic, partition=0, replicas=[other, here[0]]),
            schemas.PartitionReassignment(topic=moved, partition=0, replicas=there[::-1]),
        ]
        begun = controller.reassign(schemas.ReassignmentRequest(partitions=rows, throttle=50_000_000))
        request = begun.request_id
        assert request is not None, begun
        await_true(
            lambda: controller.reassignment(request).state != "running",
            "the reassignment is over",
            4 * TIMEOUT,
        )
        assert controller.reassignment(request).state == "done", controller.reassignment(request)
        for row in rows:
            assert controller.topic(row.topic).partitions[0].replicas == row.replicas
        with closing(KafkaAdmin(local.bootstrap_servers, timeout=TIMEOUT)) as admin:
            assert TopicConfigs(admin.requests, TIMEOUT).describe(topic, defaults=False) == configs
        assert controller.delete_topic(topic).error == "NONE"


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_writers_readers_changes_and_reassignments_go_on_while_metadata_moves_to_kraft(
    spark: SparkSession, topic_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    migration = Migration(monkeypatch)
    with ExitStack() as stack:
        local = stack.enter_context(
            LocalCluster(tmp_path / "servers", brokers=3, controllers=2, kafka_version=LAST_WITH_ZOOKEEPER)
        )
        work = UnderLoad(stack, local, spark, topic_name, tmp_path / "checkpoint")

        def go_on(step: str) -> None:
            work.change_all()
            operate(local, f"{topic_name}-{step}", work.copy)

        def restart_brokers(stage: Stage) -> None:
            for number in BROKERS:
                work.await_whole()
                migration.restart(local, f"broker-{number}", stage)
                go_on(f"{stage.name}-{number}")

        go_on("before")
        migration.begin(local)
        go_on("begun")
        restart_brokers(Stage.MIGRATION)
        await_true(lambda: migration.is_done(local), "the metadata is in KRaft", 4 * TIMEOUT)
        go_on("twice")
        restart_brokers(Stage.KRAFT)
        migration.restart(local, migration.quorum.name, Stage.KRAFT)
        go_on("after")
        work.finish()
