"""Transactions of the plain producer: abort, commits in doubt, and offsets that are committed with the records."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from spark_ordered_kafka import OrderedProducer
from spark_ordered_kafka.errors import FencedError, RebalancedError, RequestError
from spark_ordered_kafka.kafka.producer import TransactionalProducer
from spark_ordered_kafka.local import LocalCluster
from tests.integration.producing import Reports, check_numbered, manual, values
from tests.servers import TIMEOUT
from tests.streams import change, conf, create


def test_abort_drops_what_is_not_committed(cluster: LocalCluster, topic_name: str) -> None:
    create(cluster, topic_name, 2)
    reports = Reports()
    with manual(cluster) as producer:
        producer.abort()
        producer.produce(topic_name, "kept", "k")
        producer.commit()
        for number in range(7_000):
            producer.produce(topic_name, str(number), "k", on_delivery=reports)
        producer.abort()
        assert len(producer) == 0
        assert {error.code() for error in reports.errors if error is not None} == {KafkaError._PURGE_QUEUE}
        assert [int(message.value() or b"") for message in reports.messages] == list(range(7_000))
        producer.produce(topic_name, "kept, too", "k")
    assert values(cluster, topic_name) == [b"kept", b"kept, too"]


def test_an_exception_in_the_block_drops_what_is_not_committed(
    cluster: LocalCluster, topic_name: str
) -> None:
    create(cluster, topic_name, 1)
    reports = Reports()

    def work() -> None:
        with manual(cluster) as producer:
            producer.produce(topic_name, "kept")
            producer.flush()
            producer.produce(topic_name, "dropped", on_delivery=reports)
            raise LookupError("of the application")

    with pytest.raises(LookupError, match="of the application"):
        work()
    assert len(reports.errors) == 1
    assert values(cluster, topic_name) == [b"kept"]


@pytest.mark.parametrize("committed", [True, False], ids=["committed", "not committed"])
def test_a_commit_in_doubt_is_settled_by_the_ledger(
    cluster: LocalCluster, topic_name: str, monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    create(cluster, topic_name, 2)
    commit, doubts = TransactionalProducer.commit, iter([True])

    def lossy(self: TransactionalProducer, *arguments: Any) -> None:
        if not next(doubts, False):
            commit(self, *arguments)
            return
        if committed:
            commit(self, *arguments)
        self.in_doubt = True
        raise FencedError("the answer was lost")

    monkeypatch.setattr(TransactionalProducer, "commit", lossy)
    reports = Reports()
    with manual(cluster) as producer:
        for number in range(100):
            producer.produce(topic_name, str(number), "k", on_delivery=reports)
        producer.commit()
        producer.produce(topic_name, "100", "k", on_delivery=reports)
    assert reports.errors == [None] * 101
    check_numbered(cluster, topic_name, 101)


def reader(cluster: LocalCluster, group: str, *topics: str) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "session.timeout.ms": 30_000,
        }
    )
    if topics:
        consumer.subscribe(list(topics))
    return consumer


def read(consumer: Consumer, count: int) -> list[Message]:
    found: list[Message] = []
    deadline = time.monotonic() + TIMEOUT
    while len(found) < count:
        assert time.monotonic() < deadline, f"only {len(found)} of {count} records"
        found += [one for one in consumer.consume(count - len(found), 0.1) if one.error() is None]
    return found


def committed(cluster: LocalCluster, group: str, topic: str) -> int:
    consumer = reader(cluster, group)
    try:
        numbers = consumer.list_topics(topic, TIMEOUT).topics[topic].partitions
        partitions = [TopicPartition(topic, number) for number in numbers]
        return sum(max(one.offset, 0) for one in consumer.committed(partitions, TIMEOUT))
    finally:
        consumer.close()


def test_offsets_are_committed_with_the_records(cluster: LocalCluster, topic_name: str) -> None:
    source, target = (create(cluster, f"{topic_name}-{name}", 1) for name in ("in", "out"))
    other = create(cluster, f"{topic_name}-other", 1)
    with OrderedProducer(conf(cluster)) as producer:
        for number in range(30):
            producer.produce(source, str(number), "k")
    consumer = reader(cluster, topic_name, source)
    try:
        with manual(cluster) as producer:
            read(consumer, 1)
            producer.send_offsets(consumer)
            producer.commit()  # nothing was produced yet
            assert committed(cluster, topic_name, source) == 1
            for message in read(consumer, 9):
                producer.produce(target, message.value(), message.key())
            producer.send_offsets(consumer)
            assert committed(cluster, topic_name, source) == 1
            change(cluster, target, 2)  # fences the transaction: records and offsets are sent again
            producer.commit()
            assert committed(cluster, topic_name, source) > 9
            done = committed(cluster, topic_name, source)
            read(consumer, 5)
            producer.send_offsets(consumer)
            producer.commit()  # with a topic, without records
            assert committed(cluster, topic_name, source) == done + 5
            for topic in (target, other):
                producer.produce(topic, "x")
            with pytest.raises(RequestError, match="an atomic transaction spans one topic"):
                producer.send_offsets(consumer)
            producer.abort()
            producer.produce(target, "dropped")
            read(consumer, 5)
            producer.send_offsets(consumer)
            producer.abort()
        assert committed(cluster, topic_name, source) == done + 5
    finally:
        consumer.close()
    assert [int(value or b"") for value in values(cluster, target)] == list(range(1, 10))


def test_a_rebalance_drops_records_and_offsets(cluster: LocalCluster, topic_name: str) -> None:
    source, target = (create(cluster, f"{topic_name}-{name}", 2) for name in ("in", "out"))
    with OrderedProducer(conf(cluster)) as producer:
        for number in range(20):
            producer.produce(source, str(number), f"k{number}")
    reports = Reports()
    first, second = reader(cluster, topic_name, source), None
    try:
        with manual(cluster) as producer:
            for message in read(first, 10):
                producer.produce(target, message.value(), message.key(), on_delivery=reports)
            producer.send_offsets(first)
            second = reader(cluster, topic_name, source)
            deadline = time.monotonic() + TIMEOUT
            # The second may have its partition before the first has heard that it keeps but one.
            while [len(one.assignment()) for one in (first, second)] != [1, 1]:
                assert time.monotonic() < deadline, "the consumers do not get a partition each"
                second.poll(0.05)
                first.poll(0.05)
            with pytest.raises(RebalancedError):
                producer.commit()
            assert len(producer) == 0
            assert len(reports.errors) == 10
            assert all(error is not None for error in reports.errors)
            assert committed(cluster, topic_name, source) == 0
            producer.produce(target, "after", "k")
            producer.send_offsets(first)
            producer.commit()
    finally:
        first.close()
        if second is not None:
            second.close()
    assert values(cluster, target) == [b"after"]
