"""How far copying replicas has come, read from real brokers that are slowed down."""

from __future__ import annotations

import time

from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    ResourceType,
)

from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.moves import Moves, moves
from spark_ordered_kafka.kafka.reassignments import Reassignments
from spark_ordered_kafka.local import LocalCluster
from tests.integration.reassigning import Judge
from tests.servers import TIMEOUT, alter_configs, await_true, unique_name

# Several times what one fetch of a replica takes, which no throttle divides.
RECORDS, RECORD = 20, 200_000
BYTES = RECORDS * RECORD


def test_bytes_that_are_copied_and_that_are_to_be(three_brokers: LocalCluster, judge: Judge) -> None:
    servers, topic = three_brokers.bootstrap_servers, unique_name("moves")
    client, kafka = AdminClient({"bootstrap.servers": servers}), KafkaAdmin(servers)
    kafka.create_topic(topic, {0: [1], 1: [2]}, {})
    producer = Producer({"bootstrap.servers": servers, "compression.type": "none"})
    for partition in (0, 1):
        for _ in range(RECORDS):
            producer.produce(topic, b"x" * RECORD, partition=partition)
    assert producer.flush(TIMEOUT) == 0
    throttle = {"leader.replication.throttled.rate": "100"}
    try:
        # A leader that hears of the move before it hears of its throttle has given all before anyone looks: what a broker
        # knows of itself it has heard last.
        alter_configs(client, ResourceType.TOPIC, topic, {"leader.replication.throttled.replicas": "*"})
        for broker in ("1", "2"):
            alter_configs(client, ResourceType.BROKER, broker, dict(throttle))
        limited = {f"{broker} {name}": rate for broker in (1, 2) for name, rate in throttle.items()}
        await_true(lambda: limited.items() <= judge.throttles().items(), "the throttle on both leaders")
        reassignments = Reassignments(kafka.requests)
        reassignments.start(topic, {0: [1, 3], 1: [2, 3, 1]})
        assert set(reassignments.all_ongoing()) == {(topic, 0), (topic, 1)}
        assert set(reassignments.ongoing(topic, [1])) == {1}
        found = moves(kafka)
        assert found.partitions == 2
        # Partition 0 gets one replica, partition 1 gets two.
        assert 3 * BYTES < found.total_bytes < 3 * BYTES + 30_000
        assert 0 <= found.copied_bytes < found.total_bytes
    finally:
        for broker in ("1", "2"):
            alter_configs(client, ResourceType.BROKER, broker, dict.fromkeys(throttle))
        alter_configs(client, ResourceType.TOPIC, topic, {"leader.replication.throttled.replicas": None})
    deadline = time.monotonic() + TIMEOUT
    while (found := moves(kafka)) != Moves():
        assert time.monotonic() < deadline, found
        time.sleep(0.1)
    kafka.close()
