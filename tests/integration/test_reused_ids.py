"""One-off writers use transactional ids of others before them, and never take what those have written for their own."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_ordered_kafka import OrderedProducer
from spark_ordered_kafka.client import producer as producer_module
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.writer_names import LeasedName, lease_name
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.fence import Fencer
from spark_ordered_kafka.local import LocalCluster
from tests.client.playing import NOBODY
from tests.queries import await_stable
from tests.servers import TIMEOUT
from tests.streams import FORMAT, change, conf, create, options, raw_records

ROWS = 20
PARTITIONS = 3


@pytest.fixture(scope="module")
def fencer(kafka_cluster: LocalCluster) -> Iterator[Fencer]:
    admin = KafkaAdmin(kafka_cluster.bootstrap_servers, timeout=TIMEOUT)
    yield Fencer(admin)
    admin.close()


def ids(fencer: Fencer, topic: str) -> set[str]:
    """Transactional ids of the topic's writers that Kafka knows."""
    return set(fencer.list_writers(f"ordered:{topic}:", time.monotonic() + TIMEOUT))


def new_producer(cluster: LocalCluster, **more: Any) -> OrderedProducer:
    return OrderedProducer(conf(cluster) | more)


def produce(producer: OrderedProducer, topic: str, values: range) -> None:
    for number in values:
        producer.produce(topic, b"%d" % number, b"key")


def values(cluster: LocalCluster, topic: str) -> list[int]:
    """What the topic holds, sorted, once readers see all that is committed."""
    await_stable(cluster, topic)
    return sorted(int(record.value() or b"") for record in raw_records(cluster, topic, PARTITIONS))


@pytest.mark.long
def test_batch_writes_one_after_another_use_the_same_ids(
    cluster: LocalCluster, spark: SparkSession, topic_name: str, fencer: Fencer
) -> None:
    """Different numbers of tasks, an empty write, and a failed one whose name nobody uses again."""
    create(cluster, topic_name, 2)

    def write(rows: DataFrame) -> None:
        rows.write.format(FORMAT).options(**options(cluster, topic=topic_name)).mode("append").save()

    rows = spark.range(ROWS).selectExpr("CAST(id AS STRING) AS key", "CAST(id AS STRING) AS value")
    write(rows.coalesce(2))
    first = ids(fencer, topic_name)
    assert len(first) == 2
    write(rows.coalesce(2))
    write(rows.limit(0))
    change(cluster, topic_name, PARTITIONS)
    write(rows.coalesce(1))
    assert ids(fencer, topic_name) == first
    assert values(cluster, topic_name) == sorted([*range(ROWS)] * 3)

    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        write(rows.coalesce(1).selectExpr("key", "CAST(1 / (CAST(key AS INT) - 19) AS STRING) AS value"))
    write(rows.coalesce(1))
    # The failed write may have tasks that go on for a while.
    assert len(ids(fencer, topic_name)) in (3, 4)
    assert values(cluster, topic_name) == sorted([*range(ROWS)] * 4)


def test_producers_one_after_another_use_the_same_ids(
    cluster: LocalCluster, topic_name: str, fencer: Fencer
) -> None:
    other = create(cluster, f"{topic_name}-other", PARTITIONS)
    create(cluster, topic_name, PARTITIONS)
    for number in range(4):
        with new_producer(cluster) as producer:
            produce(producer, topic_name, range(number * ROWS, (number + 1) * ROWS))
            producer.commit(TIMEOUT)
            produce(producer, other, range(1))
    assert values(cluster, topic_name) == [*range(4 * ROWS)]
    assert values(cluster, other) == [0] * 4
    assert len(ids(fencer, topic_name)) <= 2
    assert len(ids(fencer, other)) <= 2

    # Two at once have ids of their own, and so has what comes after one that was never closed.
    with new_producer(cluster) as one, new_producer(cluster) as two:
        for producer in (one, two):
            produce(producer, topic_name, range(1))
            producer.commit(TIMEOUT)
        writers = {name.rsplit(":", 1)[0] for name in ids(fencer, topic_name)}
        assert len(writers) == 2


def test_writers_that_share_a_name_by_accident_lose_and_double_nothing(
    cluster: LocalCluster, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(cluster, topic_name, PARTITIONS)
    shared = iter(range(2))

    def lease(controller: ControllerClient, topic: str | None) -> LeasedName:
        return LeasedName(topic, "shared", None, f"ledger-{topic_name}-{next(shared)}")

    monkeypatch.setattr(producer_module, "lease_name", lease)
    with new_producer(cluster, **{"commit.interval.ms": 0}) as one, new_producer(cluster) as two:
        for number in range(0, 4 * ROWS, ROWS):
            produce(one, topic_name, range(number, number + ROWS))
            produce(two, topic_name, range(1000 + number, 1000 + number + ROWS))
            one.commit(TIMEOUT)
            two.commit(TIMEOUT)
    assert values(cluster, topic_name) == [*range(4 * ROWS), *range(1000, 1000 + 4 * ROWS)]


def test_a_writer_needs_no_name_of_the_controllers(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "spark_ordered_kafka.client.writer_names")
    with ControllerClient(NOBODY, timeout=1.0) as nobody:
        first, second = lease_name(nobody, "topic"), lease_name(nobody, None)
    assert first.writer != second.writer
    assert first.nonce is None
    assert "since the controller gave none" in caplog.text
