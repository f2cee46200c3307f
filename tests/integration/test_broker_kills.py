"""Brokers are killed under a running query, which goes on."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.schemas import CreateTopicRequest
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.local import LocalCluster
from tests.queries import Query, Rows, await_stable, everything, verdict
from tests.servers import TIMEOUT, await_true
from tests.streams import FORMAT, Collector, NumberedWriter

IDLE_PROGRESS = "spark.sql.streaming.noDataProgressEventInterval"


def create_replicated(cluster: LocalCluster, topic: str, partitions: int) -> None:
    with ControllerClient(cluster.controller_url) as controller:
        controller.create_topic(CreateTopicRequest(topic=topic, partitions=partitions, replication_factor=3))


def lead(cluster: LocalCluster, topic: str) -> list[int]:
    with ControllerClient(cluster.controller_url) as controller:
        return [partition.leader for partition in controller.topic(topic).partitions]


def await_whole(cluster: LocalCluster, topic: str) -> None:
    """Wait until all replicas of the topic, and of Kafka's own, are in sync: the next to be killed may be any broker.

    One that was just started is not in sync yet, and without it the others may have no leader, or too few replicas.
    """
    admin = KafkaAdmin(cluster.bootstrap_servers, timeout=TIMEOUT)

    def is_whole() -> bool:
        found = admin.describe_topics()
        return topic in found and all(
            set(row.isr) == set(row.replicas)
            for name, one in found.items()
            if name == topic or one.internal
            for row in one.partitions
        )

    try:
        await_true(is_whole, "all replicas are in sync", 4 * TIMEOUT)
    finally:
        admin.close()


def is_deposed(cluster: LocalCluster, topic: str, broker: int) -> bool:
    """Every partition has another leader."""
    return not {-1, broker} & set(lead(cluster, topic))


@pytest.mark.long
def test_a_broker_dies_between_two_micro_batches_and_within_one(
    three_brokers: LocalCluster, topic_name: str
) -> None:
    """No step of the reader raises: each waits, or makes no progress, until there is a leader again."""
    create_replicated(three_brokers, topic_name, 6)
    writer = NumberedWriter(three_brokers, topic_name, keys=30)
    writer.write(3)
    await_stable(three_brokers, topic_name)
    with Query(everything(three_brokers, topic_name)) as query:
        rows: Rows = query.all_rows()
        later = NumberedWriter(three_brokers, topic_name, keys=30, first=1000)
        later.write(2)
        await_stable(three_brokers, topic_name)
        end = query.plan()
        await_whole(three_brokers, topic_name)
        victim = lead(three_brokers, topic_name)[0]
        # Micro-batches are planned while the broker dies, too: without any pause, as Spark does it.
        stop = threading.Event()
        with Query(everything(three_brokers, topic_name)) as planner:
            planned: list[str | BaseException] = [planner.plan()]

            def plan() -> None:
                try:
                    while not stop.is_set():
                        planned[0] = planner.plan()
                except BaseException as error:  # noqa: BLE001 - raised in the test's own thread below
                    planned[0] = error

            thread = threading.Thread(target=plan)
            thread.start()
            try:
                three_brokers.kill(f"broker-{victim}")
                rows += query.read(end)
                await_true(partial(is_deposed, three_brokers, topic_name, victim), "other leaders")
            finally:
                three_brokers.start(f"broker-{victim}")
                stop.set()
                thread.join(2 * TIMEOUT)
            assert not thread.is_alive()
            if isinstance(planned[0], BaseException):
                raise planned[0]
    report = verdict(rows)
    assert (report.out_of_order, report.duplicated) == (0, 0)
    assert report.records == writer.written + later.written


@contextmanager
def running(
    spark: SparkSession, cluster: LocalCluster, topic: str, directory: Path
) -> Iterator[tuple[StreamingQuery, Collector]]:
    """A query of all records from the first one on, and what it has found."""
    found = Collector()
    query = (
        spark.readStream.format(FORMAT)
        .options(**everything(cluster, topic))
        .load()
        .writeStream.foreachBatch(found.add)
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(processingTime="0 seconds")
        .start()
    )
    try:
        yield query, found
    finally:
        query.stop()


def await_all(query: StreamingQuery, found: Collector, written: int) -> None:
    await_true(lambda: not query.isActive or sum(map(len, found.keys)) >= written, "all records", 120.0)
    assert query.exception() is None
    report = found.report(written)
    assert report.violations == 0, report


@pytest.mark.long
@pytest.mark.parametrize("kills", [1, 10])
def test_a_running_query_survives_kills_of_brokers(
    spark: SparkSession, three_brokers: LocalCluster, topic_name: str, tmp_path: Path, kills: int
) -> None:
    create_replicated(three_brokers, topic_name, 6)
    random.seed(12)
    writer = NumberedWriter(three_brokers, topic_name, keys=30)
    with running(spark, three_brokers, topic_name, tmp_path) as (query, found):
        writer.write()
        for _ in range(kills):
            await_whole(three_brokers, topic_name)
            victim = random.choice(lead(three_brokers, topic_name))
            three_brokers.kill(f"broker-{victim}")
            try:
                await_true(partial(is_deposed, three_brokers, topic_name, victim), "other leaders")
                assert query.isActive, query.exception()
                writer.write()
            finally:
                three_brokers.start(f"broker-{victim}")
        await_stable(three_brokers, topic_name)
        await_all(query, found, writer.written)


def triggered_at(query: StreamingQuery) -> str | None:
    """When the trigger began that ended last; Spark forgets all but the newest hundred, so they cannot be counted."""
    progress = query.lastProgress
    return None if progress is None else str(progress["timestamp"])


@pytest.mark.long
def test_a_running_query_survives_a_kill_of_the_controller(
    spark: SparkSession, cluster: LocalCluster, topic_name: str, tmp_path: Path
) -> None:
    with ControllerClient(cluster.controller_url) as controller:
        controller.create_topic(CreateTopicRequest(topic=topic_name, partitions=3))
    writer = NumberedWriter(cluster, topic_name, keys=30)
    spark.conf.set(IDLE_PROGRESS, "100ms")
    with running(spark, cluster, topic_name, tmp_path) as (query, found):
        spark.conf.unset(IDLE_PROGRESS)
        writer.write()
        await_all(query, found, writer.written)
        cluster.kill("controller-1")
        try:
            # Planned without the controller: the second to end from now on has begun without it.
            ended = {triggered_at(query)}

            def has_gone_on() -> bool:
                ended.add(triggered_at(query))
                return len(ended) > 2 or not query.isActive

            await_true(has_gone_on, "further triggers")
        finally:
            cluster.start("controller-1")
        writer.write()
        await_all(query, found, writer.written)
