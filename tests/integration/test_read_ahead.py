"""Small segments of a task are under way before their turn: they still come whole, and in their order."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import ClusterMetadata
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema

from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.kafka import reader
from spark_ordered_kafka.kafka.clients import refresh_metadata
from spark_ordered_kafka.kafka.idle import IdlePool
from spark_ordered_kafka.kafka.reader import ReadSettings, read_segments
from spark_ordered_kafka.kafka.segments import Segment
from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.spark.schema import source_schema
from tests.servers import TIMEOUT

PARTITIONS = 5
RECORDS = 40
SCHEMA = to_arrow_schema(source_schema(False), timezone="UTC")
ranges = st.tuples(st.integers(0, PARTITIONS - 1), st.integers(0, RECORDS), st.integers(0, RECORDS))


@pytest.fixture
def topic(
    kafka_cluster: LocalCluster, make_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> str:
    # The pool of the process has what other tests left.
    monkeypatch.setattr(reader, "_CLIENTS", IdlePool(reader._Client.close))
    name = make_topic(PARTITIONS, prefix="ahead")
    producer = Producer({"bootstrap.servers": kafka_cluster.bootstrap_servers})
    for number in range(RECORDS):
        for partition in range(PARTITIONS):
            producer.produce(name, str(number), partition=partition)
    assert producer.flush(TIMEOUT) == 0
    return name


# The topic is only read.
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(some=st.lists(ranges, max_size=9), ahead=st.integers(1, 100), taken=st.none() | st.integers(0, 3))
def test_segments_come_in_their_order(
    kafka_cluster: LocalCluster,
    topic: str,
    some: list[tuple[int, int, int]],
    ahead: int,
    taken: int | None,
) -> None:
    """Whatever fits ahead, and whether or not the task takes all batches."""
    segments = [
        Segment(topic, partition, 0, min(low, high), max(low, high), None) for partition, low, high in some
    ]
    connection = Connection({"bootstrap.servers": kafka_cluster.bootstrap_servers}, "http://nobody:1")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "_AHEAD_RECORDS", ahead)
        batches = read_segments(ReadSettings(connection, False, True), segments, SCHEMA)
        read: list[pa.RecordBatch] = []
        for batch in batches:
            read.append(batch)
            if len(read) == taken:
                break
        batches.close()  # type: ignore[attr-defined]
    found = [
        (row["partition"], row["offset"], row["value"])
        for batch in read
        for row in batch.select(["partition", "offset", "value"]).to_pylist()
    ]
    expected = [
        (one.partition, offset, str(offset).encode())
        for one in segments
        for offset in range(one.start, one.end)
    ]
    assert found == (expected if taken is None or len(read) < taken else expected[: len(found)])
    assert len(reader._CLIENTS) <= reader._AHEAD


@pytest.mark.parametrize("wait", ["300000", "5"])
def test_a_long_poll_of_the_last_task_delays_no_later_one(
    kafka_cluster: LocalCluster, topic: str, wait: str
) -> None:
    servers = {"bootstrap.servers": kafka_cluster.bootstrap_servers, "fetch.wait.max.ms": wait}
    settings = ReadSettings(Connection(servers, "http://nobody:1"), False, True, "ignore", TIMEOUT)
    for partition in range(PARTITIONS):
        segments = [Segment(topic, partition, 0, 0, RECORDS, None)]
        assert sum(batch.num_rows for batch in read_segments(settings, segments, SCHEMA)) == RECORDS


def test_the_leaders_of_another_topic_are_asked_for_before_it_is_read(
    kafka_cluster: LocalCluster, topic: str, make_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise librdkafka asks up to a second later: a task for each of a hundred topics would take minutes (D-472)."""
    asked: list[str] = []

    def asking(consumer: Consumer, topic: str, timeout: float) -> ClusterMetadata:
        asked.append(topic)
        return refresh_metadata(consumer, topic, timeout)

    monkeypatch.setattr(reader, "refresh_metadata", asking)
    others = [make_topic(1, prefix="other") for _ in range(3)]
    producer = Producer({"bootstrap.servers": kafka_cluster.bootstrap_servers})
    for other in others:
        producer.produce(other, "x", partition=0)
    assert producer.flush(TIMEOUT) == 0
    servers = {"bootstrap.servers": kafka_cluster.bootstrap_servers}
    settings = ReadSettings(Connection(servers, "http://nobody:1"), False, True, "ignore", TIMEOUT)
    for _ in range(2):
        for name in (topic, *others):
            segments = [Segment(name, 0, 0, 0, 1, None)]
            assert sum(batch.num_rows for batch in read_segments(settings, segments, SCHEMA)) == 1
    assert asked == others
