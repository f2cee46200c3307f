"""Clients that run on after all brokers of their ``bootstrap.servers`` have gone for good."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_ordered_kafka import OrderedConsumer, OrderedProducer
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.schemas import CreateTopicRequest
from spark_ordered_kafka.local import LocalCluster
from tests import streams
from tests.integration.members import Member, conf, read_until
from tests.servers import TIMEOUT


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path, brokers=4, controllers=1) as cluster:
        yield cluster


@pytest.mark.long
@pytest.mark.parametrize("outdated", ["producer", "consumer", "both"])
def test_they_find_their_cluster_by_the_brokers_that_they_have_met(
    brokers: LocalCluster, topic_name: str, outdated: str
) -> None:
    """Of a change they learn by clients of librdkafka that they make then."""
    with ControllerClient(brokers.controller_url) as controller:
        controller.create_topic(CreateTopicRequest(topic=topic_name, assignments={0: [2, 3], 1: [3, 4]}))
    first = {"bootstrap.servers": brokers.bootstrap_servers.split(",")[0]}
    of_producer = streams.conf(brokers) | ({} if outdated == "consumer" else first)
    of_consumer = conf(brokers, topic_name) | ({} if outdated == "producer" else first)
    written = 0

    def write() -> None:
        nonlocal written
        for number in range(written, written + 50):
            for key in "abcd":
                producer.produce(topic_name, f"{key}:{number}", key)
        written += 50
        assert producer.flush(4 * TIMEOUT) == 0

    with OrderedProducer(of_producer) as producer, OrderedConsumer(of_consumer) as consumer:
        consumer.subscribe([topic_name])
        member = Member(consumer)

        def read() -> None:
            read_until([member], lambda: len(member.messages) >= 4 * written, "all are delivered")

        write()
        read()
        brokers.kill("broker-1")
        for count in (4, 2, 5):
            streams.change(brokers, topic_name, count)
            write()
            read()
    report = streams.judged(member.messages, 4 * written)
    assert report.violations == 0, report
