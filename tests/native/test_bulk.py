"""Both ways to queue records: what is queued, in which order, and what is refused."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import confluent_kafka
import numpy as np
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.native.bulk import Bulk, LibrdkafkaBulk, PlainBulk, best_bulk
from tests.servers import TIMEOUT, create_topic, unique_name

PARTITIONS = 3
contents = st.none() | st.binary(max_size=5)
records = st.lists(st.tuples(st.integers(0, PARTITIONS - 1), contents, contents), max_size=30)

Record = tuple[int, bytes | None, bytes | None]


@pytest.fixture(scope="module", params=[LibrdkafkaBulk, PlainBulk])
def bulk(request: pytest.FixtureRequest) -> Bulk:
    made: Bulk = request.param()
    return made


class Written:
    """A topic, and what was written to it since the last look."""

    def __init__(self, servers: str) -> None:
        self.topic = create_topic(servers, unique_name("bulk"), PARTITIONS)
        self.producer = Producer({"bootstrap.servers": servers, "linger.ms": 0})
        self.producer.list_topics(self.topic, TIMEOUT)
        self._consumer = Consumer(
            {"bootstrap.servers": servers, "group.id": self.topic, "fetch.wait.max.ms": 10}
        )
        self._consumer.assign([TopicPartition(self.topic, partition, 0) for partition in range(PARTITIONS)])

    def next(self, count: int) -> list[Record]:
        """By partition and offset."""
        assert self.producer.flush(TIMEOUT) == 0
        found = self._consumer.consume(count, TIMEOUT)
        assert [message.error() for message in found] == [None] * count
        found.sort(key=lambda message: (message.partition(), message.offset()))
        return [(message.partition() or 0, message.key(), message.value()) for message in found]

    def close(self) -> None:
        self._consumer.close()


@pytest.fixture(scope="module")
def written(kafka_cluster: LocalCluster) -> Iterator[Written]:
    topic = Written(kafka_cluster.bootstrap_servers)
    yield topic
    topic.close()


def columns(rows: list[Record]) -> tuple[np.ndarray, list[bytes | None], list[bytes | None]]:
    partitions = np.array([partition for partition, _, _ in rows], dtype=np.int32)
    return partitions, [key for _, key, _ in rows], [value for _, _, value in rows]


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(records)
def test_what_is_queued_arrives_in_order(bulk: Bulk, written: Written, rows: list[Record]) -> None:
    bulk.produce(written.producer, written.topic, *columns(rows))
    if rows:
        assert written.next(len(rows)) == sorted(rows, key=lambda row: row[0])


def test_many_records(bulk: Bulk, written: Written) -> None:
    rows: list[Record] = [(n % PARTITIONS, b"key-%d" % n, b"x" * (n % 300)) for n in range(5_000)]
    for start in range(0, len(rows), 999):
        bulk.produce(written.producer, written.topic, *columns(rows[start : start + 999]))
    assert written.next(len(rows)) == sorted(rows, key=lambda row: row[0])


@pytest.mark.parametrize(
    ("configuration", "row", "code"),
    [
        ({"queue.buffering.max.messages": 5}, (0, b"k", b"v"), KafkaError._QUEUE_FULL),
        ({"message.max.bytes": 1_000}, (0, b"k", b"x" * 2_000), KafkaError.MSG_SIZE_TOO_LARGE),
        ({}, (PARTITIONS, b"k", b"v"), KafkaError._UNKNOWN_PARTITION),
    ],
    ids=["full", "large", "unknown partition"],
)
def test_a_refused_record_is_told(
    bulk: Bulk,
    written: Written,
    kafka_cluster: LocalCluster,
    configuration: dict[str, int],
    row: Record,
    code: int,
) -> None:
    producer = Producer(
        {"bootstrap.servers": kafka_cluster.bootstrap_servers, "linger.ms": 60_000, **configuration}
    )
    producer.list_topics(written.topic, TIMEOUT)
    with pytest.raises(KafkaException) as refused:
        bulk.produce(producer, written.topic, *columns([(0, b"k", b"v"), row, *[(0, b"k", b"v")] * 8]))
    assert refused.value.args[0].code() == code
    producer.purge()
    assert producer.flush(TIMEOUT) == 0, "a record that was refused still counts"


def test_no_transaction_is_open(bulk: Bulk, kafka_cluster: LocalCluster, written: Written) -> None:
    servers, name = kafka_cluster.bootstrap_servers, unique_name("transaction")
    producer = Producer({"bootstrap.servers": servers, "transactional.id": name})
    producer.init_transactions(TIMEOUT)
    with pytest.raises(KafkaException) as refused:
        bulk.produce(producer, written.topic, *columns([(0, b"k", b"v")]))
    assert refused.value.args[0].code() == KafkaError._STATE


def test_a_closed_producer(bulk: Bulk, kafka_cluster: LocalCluster) -> None:
    producer = Producer({"bootstrap.servers": kafka_cluster.bootstrap_servers})
    producer.close()
    with pytest.raises(RuntimeError, match="closed"):
        bulk.produce(producer, "any", *columns([(0, b"k", b"v")]))


def test_the_installed_version_is_known() -> None:
    assert isinstance(best_bulk(), LibrdkafkaBulk)


@pytest.mark.parametrize("version", ["2.15.9", "2.17.0rc1", "3.0.0"])
def test_another_version_is_not_trusted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, version: str
) -> None:
    monkeypatch.setattr(confluent_kafka, "version", lambda: version)
    best_bulk.cache_clear()
    try:
        with caplog.at_level(logging.INFO):
            assert [type(best_bulk()), type(best_bulk())] == [PlainBulk, PlainBulk]
    finally:
        best_bulk.cache_clear()
    assert [record.getMessage() for record in caplog.records if version in record.getMessage()] == [
        f"confluent-kafka {version} is given records one by one: its memory layout is known for 2.16 under CPython only"
    ]
