"""A broker that coordinates groups and transactions of writers is killed, or freezes."""

from __future__ import annotations

import logging
from collections import Counter

import pytest
from confluent_kafka.admin import AdminClient

from spark_ordered_kafka import OrderedProducer
from spark_ordered_kafka.kafka.groups import OFFSETS_TOPIC
from spark_ordered_kafka.local import LocalCluster
from tests.integration.producing import Load, check_numbered
from tests.integration.test_broker_kills import await_whole, create_replicated
from tests.servers import TIMEOUT
from tests.streams import conf

_TOPICS = 16


def coordinator(cluster: LocalCluster) -> int:
    """The broker that coordinates most groups."""
    found = AdminClient({"bootstrap.servers": cluster.bootstrap_servers}).list_topics(OFFSETS_TOPIC, TIMEOUT)
    leaders = Counter(row.leader for row in found.topics[OFFSETS_TOPIC].partitions.values())
    return leaders.most_common(1)[0][0]


@pytest.mark.long
@pytest.mark.parametrize("fault", ["killed", "killed for a moment", "frozen"])
def test_no_writer_waits_for_a_broker_that_is_gone(
    three_brokers: LocalCluster, topic_name: str, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    """librdkafka 2.16 sleeps over requests that it is to repeat (D-493), and waits for brokers that it has given up (D-494).

    For the answer of one that is frozen it waits as long as if Kafka had no other one in its place (D-495).
    """
    topics = [f"{topic_name}-{number}" for number in range(_TOPICS)]
    for topic in topics:
        create_replicated(three_brokers, topic, 2)
        await_whole(three_brokers, topic)
    with (
        caplog.at_level(logging.INFO, "spark_ordered_kafka"),
        OrderedProducer(conf(three_brokers, commit_interval_ms=50)) as producer,
    ):
        with Load(producer, *topics, pause=0.05) as load:
            load.await_round()
            producer.flush()
            victim = f"broker-{coordinator(three_brokers)}"
            (three_brokers.pause if fault == "frozen" else three_brokers.kill)(victim)
            if fault == "killed for a moment":
                three_brokers.start(victim)
            load.await_round()
        try:
            producer.flush()
        finally:
            if fault == "frozen":
                three_brokers.resume(victim)
            elif fault == "killed":
                three_brokers.start(victim)
    for topic in topics:
        check_numbered(three_brokers, topic, load.produced)
    late = [record.getMessage() for record in caplog.records if "within 30 s" in record.getMessage()]
    assert late == []
