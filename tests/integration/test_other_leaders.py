"""Partitions get other leaders while a consumer does not ask, or while no controller answers it."""

from __future__ import annotations

import sys
from contextlib import ExitStack, closing

from confluent_kafka import TopicPartition

from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.reassignments import Reassignments
from spark_ordered_kafka.local import LocalCluster
from tests.integration.gateway import gateway_to
from tests.integration.members import Room, all_of, at, exact
from tests.servers import TIMEOUT, await_true
from tests.streams import NumberedWriter, create


def move(cluster: LocalCluster, topic: str) -> None:
    """Partition 0 moves to another broker, which leads it then."""
    with closing(KafkaAdmin(cluster.bootstrap_servers, timeout=TIMEOUT)) as admin:

        def leader() -> int:
            return admin.describe_topics([topic])[topic].partitions[0].leader

        target = leader() % 3 + 1
        assert Reassignments(admin.requests, timeout=TIMEOUT).alter({(topic, 0): [target]}) == {}
        await_true(lambda: leader() == target, f"broker {target} leads")


def test_what_waits_in_kafka_comes_from_the_new_leader(three_brokers: LocalCluster, topic_name: str) -> None:
    """The old one answers the last question for records with an error, and that has no log end (D-497)."""
    create(three_brokers, topic_name, 1)
    writer = NumberedWriter(three_brokers, topic_name, step=20)
    with gateway_to(three_brokers) as gateway, ExitStack() as stack:
        gateway.left = sys.maxsize
        # The question waits at the old leader, until that leads no more.
        waits = {"fetch_wait_max_ms": 10_000, "controller_url": gateway.url}
        member = Room(three_brokers, stack).member(topic_name, **waits)
        writer.write()
        all_of(member, writer.written)
        gateway.left = 0
        writer.write()

        def is_dropped() -> bool:
            assert member.read() == []
            delivery = member.consumer._assignment.delivery
            return delivery.counts.blocks[topic_name] > 0 and delivery.held == 0

        await_true(is_dropped, "the records wait in Kafka")
        move(three_brokers, topic_name)

        def knows_no_end() -> bool:
            assert member.read() == []
            found = member.consumer.get_watermark_offsets(TopicPartition(topic_name, 0), cached=True)
            return found is None or found[1] < 0

        await_true(knows_no_end, "the old leader has answered")
        gateway.left = sys.maxsize
        all_of(member, writer.written)
    exact(member.messages, writer.written)


def test_a_consumer_that_has_not_seen_an_election_can_seek(
    three_brokers: LocalCluster, topic_name: str
) -> None:
    create(three_brokers, topic_name, 1)
    writer = NumberedWriter(three_brokers, topic_name, step=20)
    with ExitStack() as stack:
        member = Room(three_brokers, stack).member(topic_name)
        writer.write()
        all_of(member, writer.written)
        # What is paused is not fetched.
        member.consumer.pause(member.consumer.assignment())
        move(three_brokers, topic_name)
        first = member.messages[0].offset() or 0
        member.consumer.seek(at(topic_name, 0, first))
        member.consumer.resume(member.consumer.assignment())
        all_of(member, 2 * writer.written)
    exact(member.messages[writer.written :], writer.written)
