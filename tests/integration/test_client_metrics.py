"""Metrics of the plain clients, of real work."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Message, TopicPartition
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from spark_ordered_kafka import ClientMetrics, OrderedProducer
from tests.integration import members
from tests.integration.members import Room, read_until
from tests.streams import NumberedWriter, change, conf, create


def metrics(*clients: Any) -> dict[str, dict[tuple[str, ...], float]]:
    """By name what a scrape has, by labels; the topic's name is left out."""
    registry = CollectorRegistry()
    registry.register(ClientMetrics(*clients))
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            labels = tuple(
                value for name, value in sorted(sample.labels.items()) if name not in ("topic", "group")
            )
            found.setdefault(sample.name.removeprefix("ordered_kafka_"), {})[labels] = sample.value
    return found


def test_metrics_of_real_work(room: Room, topic_name: str) -> None:
    create(room.cluster, topic_name, 1)
    producer = OrderedProducer(conf(room.cluster, commit_interval_ms=0))
    member = room.member(topic_name, enable_auto_commit=False)
    consumer = member.consumer
    assert metrics(producer, consumer)["consumer_rebalances_total"] == {(): 0}
    for number in range(10):
        producer.produce(topic_name, str(number), str(number))
    assert metrics(producer)["producer_pending_records"] == {(): 10}
    producer.commit()
    producer.produce(topic_name, "dropped", "k")
    producer.abort()
    read_until([member], lambda: len(member.messages) >= 10, "records")
    for number in range(10):
        producer.produce(topic_name, str(number), str(number))
    change(room.cluster, topic_name, 2)
    producer.commit()
    figures = metrics(producer, consumer)
    assert figures["producer_records_total"] == {(): 20}
    assert figures["producer_dropped_records_total"] == {(): 1}
    assert figures["producer_transactions_total"] == {("committed",): 2, ("aborted",): 1}
    assert figures["consumer_records_total"] == {(): 10}
    assert figures["consumer_assigned_partitions"] == {(): 1}
    read_until([member], lambda: len(member.messages) >= 20, "records")
    members.settle([member], 2)
    read_until(
        [member], lambda: set(metrics(consumer).get("consumer_lag_records", {}).values()) == {0}, "lag"
    )
    figures = metrics(producer, consumer)
    assert figures["consumer_records_total"][()] >= 20
    assert figures["consumer_rebalances_total"][()] >= 2
    assert figures["consumer_blocked_partitions"] == {(): 0}
    consumer.close()
    producer.close()
    after = metrics(producer, consumer)
    assert after["producer_records_total"] == {(): 20}
    assert after["consumer_records_total"] == figures["consumer_records_total"]
    assert "consumer_lag_records" not in after


def test_metrics_of_a_blocked_partition_and_of_a_fenced_transaction(room: Room, topic_name: str) -> None:
    create(room.cluster, topic_name, 1)
    writer = NumberedWriter(room.cluster, topic_name)
    writer.write()
    with OrderedProducer(conf(room.cluster, commit_interval_ms=0)) as producer:
        # Enough to be sent before the commit, so that the change finds a transaction open.
        for number in range(5_001):
            producer.produce(topic_name, f"k{number}:0", f"k{number}")
        change(room.cluster, topic_name, 2)
        producer.commit()
        assert metrics(producer)["producer_layout_changes_total"] == {(): 1}
        assert metrics(producer)["producer_transactions_total"] == {("committed",): 1, ("aborted",): 0}
    member = room.member()
    first = [TopicPartition(topic_name, 0)]
    member.consumer.subscribe([topic_name], on_assign=lambda consumer, _: consumer.pause(first))

    def is_blocked() -> bool:
        return metrics(member.consumer).get("consumer_blocked_partitions") == {(): 1}

    read_until([member], is_blocked, "no partition is blocked")
    assert metrics(member.consumer)["consumer_blocks_total"][()] >= 1
    member.consumer.resume(first)
    read_until([member], lambda: len(member.messages) == 5_101, "all records")
    found: list[Message] = member.messages
    assert len({(one.partition(), one.offset()) for one in found}) == 5_101
