"""Topics whose older segments have left the brokers' disks (KIP-405)."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.local import LocalCluster
from tests.integration.members import Room, exact, read_until
from tests.servers import TIMEOUT, await_true
from tests.streams import FORMAT, Collector, NumberedWriter, change, delivered, options
from tests.tiered import TOPIC, first_local_offsets, tiered_cluster


@pytest.mark.long
def test_a_tiered_topic_changes_is_read_moves_and_expires(
    spark: SparkSession, tmp_path: Path, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tiered_cluster(tmp_path, monkeypatch, brokers=3) as cluster, ExitStack() as stack:
        controller = stack.enter_context(ControllerClient(cluster.controller_url))
        controller.create_topic(
            schemas.CreateTopicRequest(topic=topic_name, partitions=2, replication_factor=2, configs=TOPIC)
        )
        writer = NumberedWriter(cluster, topic_name)
        for count in (4, 3, 6):
            write_and_move(cluster, writer, count=2)
            change(cluster, topic_name, count)
        write_and_move(cluster, writer, count=6)
        assert_read(cluster, spark, writer, tmp_path)

        # Another leader has fetched no more than what was on disks, and knows older leader epochs from remote storage.
        moved = [
            schemas.PartitionReassignment(
                topic=topic_name, partition=p, replicas=[(p + 1) % 3 + 1, p % 3 + 1]
            )
            for p in range(6)
        ]
        controller.reassign(schemas.ReassignmentRequest(partitions=moved, throttle=1_000_000))
        await_true(lambda: controller.reassignment().state == "done", "the replicas are moved")
        cluster.kill("broker-2")
        writer.write()
        cluster.start("broker-2")
        change(cluster, topic_name, 2)
        write_and_move(cluster, writer, count=2)
        assert_read(cluster, spark, writer, tmp_path)

        expired = schemas.AlterTopicRequest(configs={"retention.ms": "1000"})
        assert controller.alter_topic(topic_name, expired).error == "NONE"
        await_true(
            lambda: [one.status for one in controller.topic(topic_name).partitions[2:]] == ["deleted"] * 4,
            "removed partitions are empty once remote storage is",
            timeout=2 * TIMEOUT,
        )


def write_and_move(cluster: LocalCluster, writer: NumberedWriter, count: int) -> None:
    """Write until all brokers have moved the older part of the first ``count`` partitions, and more than before."""
    before = first_local_offsets(cluster, writer.topic)

    def is_moved() -> bool:
        # A segment is closed by a record that comes later.
        writer.write()
        now = first_local_offsets(cluster, writer.topic)
        return all(now.get(partition, 0) > before.get(partition, 0) for partition in range(count))

    await_true(is_moved, f"brokers have no more on their disks what lies behind {before}")


def assert_read(cluster: LocalCluster, spark: SparkSession, writer: NumberedWriter, directory: Path) -> None:
    """A member, a batch and a stream deliver every record, once and in order."""
    with ExitStack() as stack:
        member = Room(cluster, stack).member(writer.topic)
        read_until([member], lambda: len(member.messages) >= writer.written, "a member reads all")
        exact(member.messages, writer.written)
    source = options(cluster, subscribe=writer.topic, startingOffsets="earliest")
    batch = Collector()
    batch.add(spark.read.format(FORMAT).options(**source).load())
    stream = delivered(spark, source, str(directory / f"checkpoint-{writer.written}"))
    for found in (batch, stream):
        assert found.report(writer.written).violations == 0
