"""Readers that fetch from the replica of their own rack, a follower as a rule (KIP-392)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.schemas import CreateTopicRequest
from spark_ordered_kafka.local import LocalCluster
from tests.integration.members import Member, Room, distinct, exact, idle, read_until
from tests.servers import await_true
from tests.streams import FORMAT, Collector, NumberedWriter, change, delete_records, options

RACKS = ("a", "b", "c")
COUNTS = (4, 2, 5, 3, 6)

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def racks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    config = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}
    directory = tmp_path_factory.mktemp("racks")
    with LocalCluster(directory, brokers=len(RACKS), racks=RACKS, broker_config=config) as cluster:
        yield cluster


def writer_of(cluster: LocalCluster, topic: str, partitions: int) -> NumberedWriter:
    request = CreateTopicRequest(
        topic=topic, partitions=partitions, replication_factor=3, configs={"min.insync.replicas": "2"}
    )
    with ControllerClient(cluster.controller_url) as controller:
        controller.create_topic(request)
    return NumberedWriter(cluster, topic)


class Fetching:
    """Which brokers a client fetches a topic from that do not lead, by its statistics."""

    def __init__(self, topic: str) -> None:
        self.followers: set[int] = set()
        self._topic = topic

    def __call__(self, statistics: str) -> None:
        shown = json.loads(statistics)["topics"].get(self._topic, {"partitions": {}})
        for one in shown["partitions"].values():
            if one["broker"] not in (-1, one["leader"]):
                self.followers.add(one["broker"])


def has_read(members: Sequence[Member], records: int) -> bool:
    return distinct(members) >= records


def has_taken(found: Collector, batches: int) -> bool:
    return found.batches >= batches


def test_members_read_from_followers_while_counts_change_and_a_broker_dies(
    racks: LocalCluster, topic_name: str
) -> None:
    writer = writer_of(racks, topic_name, 2)
    with ExitStack() as stack:
        room = Room(racks, stack)
        fetching = {rack: Fetching(topic_name) for rack in RACKS[1:]}
        members = [
            room.member(topic_name, client_rack=rack, stats_cb=seen, statistics_interval_ms=100)
            for rack, seen in fetching.items()
        ]
        with writer.under_load():
            for count in COUNTS:
                change(racks, topic_name, count)
                if count == COUNTS[1]:
                    racks.kill("broker-2")
                if count == COUNTS[3]:
                    racks.start("broker-2")
                read_until(members, partial(has_read, members, distinct(members) + 200), "200 more records")
        read_until(members, partial(has_read, members, writer.written), "all records")
        assert [more for member in members for more in idle(member)] == []
    assert {rack: seen.followers - {1} for rack, seen in fetching.items()} == {"b": {2}, "c": {3}}
    exact([message for member in members for message in member.messages], writer.written)


def test_records_are_deleted_before_a_member_that_reads_from_a_follower(
    racks: LocalCluster, topic_name: str
) -> None:
    writer = writer_of(racks, topic_name, 1)
    writer.write(4)
    with ExitStack() as stack:
        room = Room(racks, stack)
        # It has read a part only, and fetches little at a time.
        (member,) = (
            room.member(topic_name, client_rack="b", fetch_message_max_bytes=1000, queued_min_messages=1),
        )
        read_until([member], lambda: len(member.messages) >= 100, "the first records")
        delete_records(racks, topic_name, {0: 300})
        writer.write(2)
        last = writer.written // writer.keys - 1
        read_until([member], lambda: member.messages[-1].value() == b"k19:%d" % last, "the last record")
        offsets = [message.offset() or 0 for message in member.messages]
    assert offsets == sorted(set(offsets))
    assert {offset for offset in offsets if offset >= 300} == set(range(300, offsets[-1] + 1)) - {
        # Markers of transactions, one after each hundred records.
        *range(100, offsets[-1], 101)
    }


def test_a_query_reads_from_followers_while_counts_change(
    racks: LocalCluster, spark: SparkSession, tmp_path: Path, topic_name: str
) -> None:
    writer = writer_of(racks, topic_name, 2)
    found = Collector()
    source = options(racks, subscribe=topic_name, startingOffsets="earliest", **{"kafka.client.rack": "b"})
    rows = spark.readStream.format(FORMAT).options(**source).load()
    query = (
        rows.writeStream.foreachBatch(found.add)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(processingTime="200 milliseconds")
        .start()
    )
    try:
        with writer.under_load():
            for count in COUNTS:
                change(racks, topic_name, count)
                await_true(partial(has_taken, found, found.batches + 3), "three more micro-batches")
        query.processAllAvailable()
    finally:
        query.stop()
    assert found.report(writer.written).violations == 0, found.report(writer.written)
    batch = spark.read.format(FORMAT).options(**source).load()
    assert batch.count() == writer.written
