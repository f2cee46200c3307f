"""Brokers that hang in the middle of a fetch, and tasks that end there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.errors import UnavailableError
from spark_ordered_kafka.kafka.reader import ReadSettings, read_segments
from spark_ordered_kafka.kafka.segments import Segment
from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.native.draining import schema_of
from tests.chaos.servers import hanging
from tests.servers import TIMEOUT, await_true, create_topic
from tests.streams import FORMAT, create, options

LONG = 4 * TIMEOUT
"""Seconds for what a hanging broker or a new Spark job delays."""
# Several batches.
RECORDS = 200_000
# What is fetched ahead is a fraction of the topic.
LITTLE_AHEAD = {"fetch.message.max.bytes": "100000", "queued.max.messages.kbytes": "500"}


def fill(servers: str, topic: str) -> None:
    producer = Producer(
        {"bootstrap.servers": servers, "linger.ms": 5, "queue.buffering.max.messages": 2 * RECORDS}
    )
    for number in range(RECORDS):
        producer.produce(topic, os.urandom(100), key=b"%d" % number, partition=0)
        producer.poll(0)
    assert producer.flush(TIMEOUT) == 0


def patient(cluster: LocalCluster) -> ReadSettings:
    """A broker that has hung may have to register again."""
    connection = Connection({"bootstrap.servers": cluster.bootstrap_servers, **LITTLE_AHEAD}, "http://unused")
    return ReadSettings(connection, False, True, "ignore", LONG)


def batches(settings: ReadSettings, topic: str) -> Iterator[pa.RecordBatch]:
    return read_segments(settings, [Segment(topic, 0, 0, 0, RECORDS, None)], schema_of(headers=False))


def ends(reading: Future[Any], timeout: float) -> bool:
    try:
        reading.result(timeout)
    except FutureTimeoutError:
        return False
    return True


@pytest.mark.long
def test_a_broker_that_hangs_in_mid_fetch_is_waited_for(kafka_cluster: LocalCluster, topic_name: str) -> None:
    fill(kafka_cluster.bootstrap_servers, create_topic(kafka_cluster.bootstrap_servers, topic_name, 1))
    reading = batches(patient(kafka_cluster), topic_name)
    offsets = next(reading).column("offset").to_pylist()
    with ThreadPoolExecutor(1) as pool:
        with hanging(kafka_cluster):
            rest = pool.submit(list, reading)
            assert not ends(rest, 1.0)
        for batch in rest.result(LONG):
            offsets += batch.column("offset").to_pylist()
    assert offsets == list(range(RECORDS))


@pytest.mark.long
def test_a_broker_that_hangs_for_too_long_ends_the_task_with_the_reason(
    kafka_cluster: LocalCluster, topic_name: str
) -> None:
    fill(kafka_cluster.bootstrap_servers, create_topic(kafka_cluster.bootstrap_servers, topic_name, 1))
    settings = patient(kafka_cluster)
    reading = batches(settings, topic_name)
    next(reading)
    # From now on: the first batch may take its time.
    object.__setattr__(settings, "stall_timeout", 3.0)
    reason = rf"no progress for 3 s at offset \d+ of {topic_name}-0, which should be read to {RECORDS}"
    with hanging(kafka_cluster), pytest.raises(UnavailableError, match=reason):
        list(reading)
    # The next attempt of the task, in the same process.
    again = batches(patient(kafka_cluster), topic_name)
    assert sum(batch.num_rows for batch in again) == RECORDS


@pytest.mark.long
def test_spark_kills_a_task_in_mid_fetch(
    cluster: LocalCluster, spark: SparkSession, topic_name: str, tmp_path: Path
) -> None:
    create(cluster, topic_name, 1)
    fill(cluster.bootstrap_servers, topic_name)
    ahead = {f"kafka.{name}": value for name, value in LITTLE_AHEAD.items()}
    frame = spark.read.format(FORMAT).options(**options(cluster, subscribe=topic_name), **ahead).load()
    begun, hangs = tmp_path / "begun", tmp_path / "hangs"

    def hold(found: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Take the first batch, and the others when the broker hangs: by then no more was fetched than fits on the way."""
        for batch in found:
            begun.touch()
            await_true(hangs.exists, "the broker hangs")
            yield batch

    def run() -> None:
        spark.sparkContext.setJobGroup(topic_name, "killed", interruptOnCancel=True)
        frame.mapInArrow(hold, frame.schema).write.format("noop").mode("overwrite").save()

    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(run)
        await_true(lambda: begun.exists() or job.done(), "the first batch", LONG)
        with hanging(cluster):
            hangs.touch()
            assert not ends(job, 1.0)
            spark.sparkContext.cancelJobGroup(topic_name)
            with pytest.raises(Exception, match=r"(?i)cancel"):
                job.result(LONG)
    assert frame.count() == RECORDS
