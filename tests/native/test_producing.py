"""Both ways to queue records: what is queued, in which order, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from hypothesis import given, settings

from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.native.contents import Contents, Records, objects
from spark_ordered_kafka.native.producing import Headroom, Queued, produce
from spark_ordered_kafka.ordering.routing import Routing
from tests.native.columns import both_ways, headers_type, row_columns
from tests.servers import TIMEOUT, create_topic, unique_name

pytestmark = pytest.mark.usefixtures("native")

PARTITIONS = 3
ROUTING = Routing("murmur3", 2, PARTITIONS)
ROOM = Headroom(10_000, 1 << 20)

Record = tuple[int, bytes | None, bytes | None, Any]


class Written:
    """A topic, and what was written to it since the last look."""

    def __init__(self, servers: str) -> None:
        self.topic = create_topic(servers, unique_name("producing"), PARTITIONS)
        self.producer = Producer({"bootstrap.servers": servers, "linger.ms": 0})
        self.producer.list_topics(self.topic, TIMEOUT)
        self._consumer = Consumer(
            {"bootstrap.servers": servers, "group.id": self.topic, "fetch.wait.max.ms": 10}
        )
        self._consumer.assign([TopicPartition(self.topic, partition, 0) for partition in range(PARTITIONS)])

    def next(self, count: int) -> list[Record]:
        """By partition and offset."""
        assert self.producer.flush(TIMEOUT) == 0
        found = self._consumer.consume(count, TIMEOUT) if count else []
        assert [message.error() for message in found] == [None] * count
        found.sort(key=lambda message: (message.partition(), message.offset()))
        return [(m.partition() or 0, m.key(), m.value(), m.headers() or []) for m in found]

    def close(self) -> None:
        self._consumer.close()


@pytest.fixture(scope="module")
def written(kafka_cluster: LocalCluster) -> Iterator[Written]:
    topic = Written(kafka_cluster.bootstrap_servers)
    yield topic
    topic.close()


def queue(
    producer: Producer, topic: str, records: Records, headroom: Headroom = ROOM, turn: int = 0
) -> list[Queued]:
    """Call after call until all is queued."""
    calls: list[Queued] = []
    done = 0
    while done < len(records):
        calls.append(produce(producer, topic, ROUTING, turn, records, done, headroom))
        done, turn = done + calls[-1].rows, calls[-1].turn
    return calls


def placed(records: Records, turn: int = 0) -> list[Record]:
    """What is to be found, by partition and in the order within each."""
    keys, values = objects(records.keys), objects(records.values)
    partitions = ROUTING.partitions(keys).tolist()
    for row, key in enumerate(keys):
        if key is None:
            partitions[row] = turn % PARTITIONS
            turn += 1
    of_rows = [None] * len(keys) if records.headers is None else objects(records.headers)
    headers = [[(header["key"], header["value"]) for header in of_row or ()] for of_row in of_rows]
    return sorted(zip(partitions, keys, values, headers, strict=True), key=lambda record: record[0])


@settings(both_ways, max_examples=40)
@given(row_columns())
def test_what_is_queued_arrives_in_order(
    written: Written, rows: tuple[Contents, Contents, pa.Array | None]
) -> None:
    records = Records(*rows)
    queue(written.producer, written.topic, records, turn=2)
    assert written.next(len(records)) == placed(records, turn=2)


def test_many_records(written: Written) -> None:
    count = 9_000
    records = Records(
        pa.array([None if n % 7 == 0 else b"key-%d" % n for n in range(count)], pa.binary()),
        pa.array([b"x" * (n % 300) for n in range(count)]),
    )
    queue(written.producer, written.topic, records)
    assert written.next(count) == placed(records)


def test_no_more_is_queued_than_there_is_room_for(written: Written) -> None:
    headers = pa.array([[{"key": "\u00e9", "value": b"12"}]] * 6 + [None] * 4, headers_type())
    records = Records([b"k"] * 10, [b"12345"] * 9 + [None], headers)

    def rows(headroom: Headroom) -> list[int]:
        return [call.rows for call in queue(written.producer, written.topic, records, headroom)]

    assert rows(Headroom(4, 1000)) == [4, 4, 2]
    assert rows(Headroom(-1, -1)) == [1] * 10, "the first is taken in any case"
    assert rows(Headroom(100, 30)) == [3, 3, 4], "10 bytes each, and then 6 and 1"
    (call,) = queue(written.producer, written.topic, records, Headroom(10, 79))
    assert call == Queued(10, 79, 10, 0)
    assert len(written.next(40)) == 40


@pytest.mark.parametrize(
    ("configuration", "key", "value", "code"),
    [
        ({"queue.buffering.max.messages": 5}, b"k", b"v", KafkaError._QUEUE_FULL),
        ({"message.max.bytes": 1_000}, b"k", b"x" * 2_000, KafkaError.MSG_SIZE_TOO_LARGE),
        ({}, b"elsewhere", b"v", KafkaError._UNKNOWN_PARTITION),
    ],
    ids=["full", "large", "unknown partition"],
)
@pytest.mark.parametrize("with_headers", [False, True], ids=["plain", "headers"])
def test_a_refused_record_is_told(
    written: Written,
    kafka_cluster: LocalCluster,
    configuration: dict[str, int],
    key: bytes,
    value: bytes,
    code: int,
    with_headers: bool,
) -> None:
    producer = Producer(
        {"bootstrap.servers": kafka_cluster.bootstrap_servers, "linger.ms": 60_000, **configuration}
    )
    producer.list_topics(written.topic, TIMEOUT)
    headers = pa.array([[{"key": "h", "value": b"1"}]] * 10, headers_type()) if with_headers else None
    records = Records([b"k", key, *[b"k"] * 8], [b"v", value, *[b"v"] * 8], headers)
    # Of the records' keys only one goes beyond the partitions that there are.
    routing = Routing("crc32", 1, 2**20) if key == b"elsewhere" else ROUTING
    with pytest.raises(KafkaException) as refused:
        produce(producer, written.topic, routing, 0, records, 0, ROOM)
    assert refused.value.args[0].code() == code
    producer.purge()
    assert producer.flush(TIMEOUT) == 0, "a record that was refused still counts"


def test_no_transaction_is_open(kafka_cluster: LocalCluster, written: Written) -> None:
    servers, name = kafka_cluster.bootstrap_servers, unique_name("transaction")
    producer = Producer({"bootstrap.servers": servers, "transactional.id": name})
    producer.init_transactions(TIMEOUT)
    with pytest.raises(KafkaException) as refused:
        produce(producer, written.topic, ROUTING, 0, Records([b"k"], [b"v"]), 0, ROOM)
    assert refused.value.args[0].code() == KafkaError._STATE


def test_a_closed_producer(kafka_cluster: LocalCluster) -> None:
    producer = Producer({"bootstrap.servers": kafka_cluster.bootstrap_servers})
    producer.close()
    with pytest.raises(RuntimeError, match="closed"):
        produce(producer, "any", ROUTING, 0, Records([b"k"], [b"v"]), 0, ROOM)
