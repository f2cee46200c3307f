"""Producers that are not ordered writers, found by DescribeProducers before a change."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Producer

from spark_ordered_kafka.kafka.fence import Fencer
from spark_ordered_kafka.local import LocalCluster
from tests.integration.controllers import InProcess
from tests.servers import TIMEOUT, unique_name


def producer_of(cluster: LocalCluster, **config: Any) -> Producer:
    named = {name.replace("_", "."): value for name, value in config.items()}
    return Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0, **named})


def write(producer: Producer, topic: str, *partitions: int) -> None:
    for partition in partitions:
        producer.produce(topic, b"v", partition=partition)
    assert producer.flush(TIMEOUT) == 0


def write_transaction(cluster: LocalCluster, transactional_id: str, topic: str, *partitions: int) -> None:
    producer = producer_of(cluster, transactional_id=transactional_id)
    producer.init_transactions(TIMEOUT)
    producer.begin_transaction()
    write(producer, topic, *partitions)
    producer.commit_transaction(TIMEOUT)


def refused(controller: InProcess, topic: str, count: int, **fields: Any) -> str:
    result = controller.alter(topic, count, **fields)
    assert (result.error, result.error_code, result.change_id) == ("ACTIVE_FOREIGN_PRODUCERS", 1003, None)
    return str(result.error_message)


def test_idempotent_producer_refuses_the_change(controller: InProcess, kafka_cluster: LocalCluster) -> None:
    topic = controller.create(3)
    write(producer_of(kafka_cluster, enable_idempotence=True), topic, 0, 2)
    told = refused(controller, topic, 4, validate_only=True)
    assert "in partitions 0, 2, last write 20" in told
    assert " s ago)" in told
    assert "transactional id" not in told
    assert "producer.id.expiration.ms" in told
    assert "force" in told
    refused(controller, topic, 4)
    assert controller.change(topic).last_change is None
    assert controller.alter(topic, 4, force=True, validate_only=True).error == "NONE"
    assert controller.alter(topic, 4, force=True).error == "NONE"


def test_transactional_producer_is_named(controller: InProcess, kafka_cluster: LocalCluster) -> None:
    """That of an ordered writer of another topic, whose name begins alike, is as foreign as any."""
    topic = controller.create(2)
    for name in (unique_name("payments"), f"ordered:{topic}2:writer:0"):
        write_transaction(kafka_cluster, name, topic, 1)
        told = refused(controller, topic, 3)
        assert f"of transactional id '{name}' in partition 1," in told


def test_ordered_writers_are_not_foreign(controller: InProcess, kafka_cluster: LocalCluster) -> None:
    """Neither running, nor fenced, nor with a successor under the same id."""
    topic = controller.create(2)
    for count in (3, 4, 5):
        write_transaction(kafka_cluster, f"ordered:{topic}:writer:0", topic, 0, 1)
        write_transaction(kafka_cluster, f"ordered:{topic}:writer:{count}", topic, 0, 1)
        assert controller.alter(topic, count).error == "NONE"


def test_ordered_writer_that_starts_during_the_check_is_not_foreign(
    controller: InProcess, kafka_cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = controller.create(2)
    checks = []

    def late(fencer: Fencer, prefix: str, deadline: float) -> dict[int, str]:
        write_transaction(kafka_cluster, f"ordered:{topic}:late:0", topic, 0)
        checks.append(prefix)
        return listed(fencer, prefix, deadline)

    listed = Fencer.list_producers
    monkeypatch.setattr(Fencer, "list_producers", late)
    assert controller.alter(topic, 3).error == "NONE"
    assert controller.alter(topic, 4).error == "NONE"
    assert checks == [f"ordered:{topic}:"] * 2


def test_many_producers_are_counted(controller: InProcess, kafka_cluster: LocalCluster) -> None:
    topic = controller.create(8)
    for _ in range(7):
        write(producer_of(kafka_cluster, enable_idempotence=True), topic, *range(8))
    told = refused(controller, topic, 9)
    assert told.count("producer id ") == 5
    assert "; and 2 more." in told
    assert "in partitions 0, 1, 2, 3, 4 and 3 more, last write" in told


def test_topics_without_ordered_delivery_and_other_topics_do_not_care(
    controller: InProcess, kafka_cluster: LocalCluster
) -> None:
    topic, other = controller.create(2, ordered_delivery=False), controller.create(2)
    write(producer_of(kafka_cluster, enable_idempotence=True), topic, 0)
    assert controller.alter(topic, 3).error == "NONE"
    assert controller.alter(other, 3).error == "NONE"
