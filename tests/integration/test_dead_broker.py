"""A broker that is down for good holds removed partitions without anything that is still needed: nobody waits for it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from spark_ordered_kafka import OrderedConsumer, OrderedProducer
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.schemas import (
    CreateTopicRequest,
    PartitionCountsRequest,
    TopicPartitionCount,
)
from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.errors import UnavailableError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.ranges import LogQuestion, LogRanges
from spark_ordered_kafka.local import LocalCluster
from tests.consumers import consumer_of, taken
from tests.queries import Query, Rows, await_stable, batch_rows, everything, verdict
from tests.servers import TIMEOUT, await_true, unique_name
from tests.streams import CHANGE_TIMEOUT, NumberedWriter, change, options

DEAD = 3


@dataclass
class Shrunk:
    """A topic that went 1 -> 2 -> 1; its removed partition lies on the broker that will be dead, and nowhere else."""

    cluster: LocalCluster
    name: str
    configs: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        with ControllerClient(self.cluster.controller_url) as controller:
            controller.create_topic(
                CreateTopicRequest(topic=self.name, assignments={0: [1]}, configs=self.configs)
            )
            grown = TopicPartitionCount(topic=self.name, partition_count=2, assignments={1: [DEAD]})
            (result,) = controller.alter_partition_counts(
                PartitionCountsRequest(topics=[grown]), wait=CHANGE_TIMEOUT
            ).topics
            assert result.error == "NONE", result
        self.written = self.write(0)
        change(self.cluster, self.name, 1)
        self.written += self.write(100)

    def write(self, first: int) -> int:
        writer = NumberedWriter(self.cluster, self.name, keys=5, first=first)
        writer.write()
        await_stable(self.cluster, self.name)
        return writer.written

    def delete(self) -> int:
        """Empty the removed partition and let the controller see it; the records that it had."""
        end = AdminClient({"bootstrap.servers": self.cluster.bootstrap_servers})
        # What writers of a compacted topic put into the removed partition is a task of its own, without rows.
        rows = [row for task in batch_rows(everything(self.cluster, self.name)) for row in task]
        held = len([row for row in rows if row["partition"] == 1])
        assert 0 < held < len(rows)
        end.delete_records([TopicPartition(self.name, 1, -1)])[TopicPartition(self.name, 1)].result(TIMEOUT)
        with ControllerClient(self.cluster.controller_url) as controller:
            await_true(
                lambda: controller.topic(self.name).partitions[1].status == "deleted", "deleted partition"
            )
        return held


@contextmanager
def dead(cluster: LocalCluster, *topics: Shrunk) -> Iterator[None]:
    """The broker is down, and the cluster knows it."""
    admin = KafkaAdmin(cluster.bootstrap_servers, timeout=TIMEOUT)

    def leaders() -> list[int]:
        described = admin.describe_topics([topic.name for topic in topics])
        return [topic.partitions[1].leader for topic in described.values()]

    cluster.kill(f"broker-{DEAD}")
    try:
        await_true(lambda: max(leaders()) < 0, "partitions without a leader")
        yield
    finally:
        cluster.start(f"broker-{DEAD}")
        # The others may hear of it later than it serves.
        await_true(lambda: min(leaders()) >= 0, "leaders of all partitions")
        admin.close()


def await_begun(consumer: OrderedConsumer, topic: str) -> None:
    """Until its group has the offsets that it begins with: those of partition 0 are committed with all others."""

    def has_begun() -> bool:
        assert consumer.consume(1, 0.1) == []
        (found,) = consumer.committed([TopicPartition(topic, 0)])
        return found.offset >= 0

    await_true(has_begun, f"the first offsets of {topic}", 2 * TIMEOUT)


def judged(rows: Rows) -> None:
    report = verdict(rows)
    assert (report.out_of_order, report.duplicated) == (0, 0), report


def test_a_broker_that_died_keeps_no_other_ones_from_being_asked(three_brokers: LocalCluster) -> None:
    name = unique_name("asked")
    with ControllerClient(three_brokers.controller_url) as controller:
        controller.create_topic(CreateTopicRequest(topic=name, assignments={0: [1]}))
    connection = Connection(
        {"bootstrap.servers": three_brokers.bootstrap_servers}, three_brokers.controller_url
    )
    # Each takes another broker for the one to ask for descriptions.
    asking = [LogRanges(connection) for _ in range(12)]
    assert [one.log(name, LogQuestion([0])).ends for one in asking] == [{0: 0}] * 12
    three_brokers.kill(f"broker-{DEAD}")
    try:
        with ThreadPoolExecutor(len(asking)) as pool:
            assert list(pool.map(lambda one: one.log(name, LogQuestion([0])).ends, asking)) == [{0: 0}] * 12
    finally:
        three_brokers.start(f"broker-{DEAD}")


@pytest.mark.long
def test_nobody_needs_a_dead_broker_with_removed_partitions(three_brokers: LocalCluster) -> None:
    empty = Shrunk(three_brokers, unique_name("empty"))
    compacted = Shrunk(three_brokers, unique_name("compacted"), {"cleanup.policy": "compact,delete"})
    unread = Shrunk(three_brokers, unique_name("unread"))
    gone = empty.delete()
    compacted.delete()
    everywhere = ",".join(topic.name for topic in (empty, unread))
    begun = time.time() * 1000
    with Query(options(three_brokers, subscribe=everywhere, startingOffsets="earliest")) as query:
        assert len(query.all_rows()) == empty.written - gone + unread.written
        with dead(three_brokers, empty, compacted, unread):
            more = {topic.name: topic.write(200) for topic in (empty, unread)}
            # A running stream, which has read the tail of the other topic, too.
            rows = query.all_rows()
            for name, written in more.items():
                own = [row for row in rows if row["topic"] == name]
                judged(own)
                assert len(own) == written

            # New streams, wherever they start, and batch reads.
            left = empty.written - gone + more[empty.name]
            with Query(everything(three_brokers, empty.name)) as new:
                judged(rows := new.all_rows())
                assert len(rows) == left
            with Query(options(three_brokers, subscribe=everywhere)) as new:
                assert new.next_rows() + new.all_rows() == []
            since = {"startingTimestamp": int(begun), "startingOffsetsByTimestampStrategy": "error"}
            with Query(options(three_brokers, subscribe=empty.name, **since)) as new:
                # The first micro-batch fixes the start.
                assert len(new.next_rows() + new.all_rows()) == more[empty.name]
            with Query(everything(three_brokers, empty.name)) as new:
                new.reader.prepareForTriggerAvailableNow()
                assert len(new.next_rows()) == left
            for ordering in ("key", "none"):
                found = batch_rows(everything(three_brokers, empty.name, ordering=ordering))
                assert sum(map(len, found)) == left

            # New groups of consumers.
            for reset, count in (("earliest", left), ("latest", 0)):
                with consumer_of(three_brokers, empty.name, unique_name("group"), reset) as consumer:
                    if reset == "latest":
                        await_begun(consumer, empty.name)
                        count = empty.write(300)
                    judged(rows := taken(consumer, count))
                    assert len(rows) == count

            # Writers, also where old values lay in the partition.
            servers = {
                "bootstrap.servers": three_brokers.bootstrap_servers,
                "controller.url": three_brokers.controller_url,
            }
            with OrderedProducer(servers) as producer:
                producer.produce(compacted.name, key=b"k0", value=b"k0:300")
                producer.commit()

            # What is there and not read is waited for, by name.
            with pytest.raises(UnavailableError, match=rf"{unread.name}-1 has no leader.*not read"):
                Query(everything(three_brokers, unread.name)).plan()
        assert query.all_rows() != [], "what the group was given; nothing is lost when the broker is back"
        with Query(everything(three_brokers, unread.name)) as new:
            judged(rows := new.all_rows())
            assert len(rows) == unread.written + more[unread.name]
