"""Compacted topics through changes of the partition count, on brokers whose log cleaner really runs."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ResourceType
from pyspark.sql import SparkSession

from spark_ordered_kafka.errors import ErrorCode, RequestError
from spark_ordered_kafka.kafka import configs as kafka_configs
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.buffer import Memory
from spark_ordered_kafka.kafka.configs import TopicConfigs
from spark_ordered_kafka.kafka.task import TaskTransaction
from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.native.loading import kernel
from spark_ordered_kafka.ordering import bucket, key_hash
from tests.integration.compacting import (
    COMPACT,
    Cleaning,
    _batch,
    check_all,
    names,
    table,
    tombstones_by_epoch,
)
from tests.integration.crash_control import CrashingController
from tests.seeds import fresh_seeds
from tests.servers import TIMEOUT, alter_configs
from tests.streams import create, writer_context


@pytest.fixture(scope="module")
def cleaning(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    cluster = Cleaning(tmp_path_factory.mktemp("cleaning"))
    with cluster:
        # None dies here, so its session may last through whatever takes the processors.
        cluster.controller = CrashingController(cluster, cluster.directory, drain=0.3, session_timeout=10.0)
        with cluster.controller.running():
            yield cluster


@pytest.mark.long
def test_no_old_value_is_left_after_growing_and_shrinking(
    cleaning: LocalCluster, spark: SparkSession, topic_name: str
) -> None:
    rows = table(cleaning, topic_name)
    rows.put(names(0, 100))
    assert not tombstones_by_epoch(rows)
    rows.resize(5)
    # What an aborted transaction sent counts for nothing.
    given_up = rows.begin()
    given_up.write(_batch([(key, b"given up") for key in names(0, 80)], headers=False))
    given_up.abort()
    rows.put(names(0, 80))
    rows.put(names(0, 60), headers=True)
    rows.put(names(50, 60), delete=True)
    rows.resize(3)
    rows.put(names(0, 40), headers=True)
    rows.put(names(30, 45), delete=True)
    rows.put(names(0, 20))
    assert {instance.epoch for instance in rows.instances.values()} == {1, 2}
    assert tombstones_by_epoch(rows) == rows.owed()
    assert set(rows.state) == {*names(0, 30), *names(45, 50), *names(60, 100)}
    check_all(rows, spark)


@pytest.mark.long
@pytest.mark.skipif(kernel() is None, reason="without the kernel no producer is used again")
def test_once_per_key_and_producer(cleaning: LocalCluster, topic_name: str) -> None:
    rows = table(cleaning, topic_name, 1)
    rows.put(names(0, 20))
    rows.resize(2)
    deadline = time.monotonic() + TIMEOUT
    # An instance with a request that was retried is not used again, and its successor sends its own.
    while not any(instance.transactions > 2 for instance in rows.instances.values()):
        assert time.monotonic() < deadline, "no producer was used again"
        rows.put(names(0, 20))
    assert tombstones_by_epoch(rows) == rows.owed()


@pytest.mark.long
def test_partitions_without_a_record_owe_nothing(cleaning: LocalCluster, topic_name: str) -> None:
    rows = table(cleaning, topic_name, 1)
    rows.put(names(0, 20))
    rows.resize(4)
    by_place: dict[int, list[bytes]] = {}
    for key in names(0, 20):
        by_place.setdefault(bucket(key_hash("murmur3", key), 1, 4), []).append(key)
    assert len(by_place) == 4
    rows.put(by_place[3])
    rows.resize(2)
    # Partition 2 has stayed empty, and partition 3 has not.
    rows.put(names(0, 20))
    of_partition_3 = {(2, 3, key): 1 for key in by_place[3]}
    moved = {(2, 0, key): 1 for key in by_place[1] + by_place[3]}
    first = {(1, 0, key): 1 for key in by_place[3]}
    assert tombstones_by_epoch(rows) == {**first, **moved, **of_partition_3}
    assert tombstones_by_epoch(rows) == rows.owed()


@pytest.mark.long
def test_a_change_within_a_transaction(cleaning: LocalCluster, topic_name: str) -> None:
    rows = table(cleaning, topic_name, 1)
    rows.put(names(0, 20))
    task = rows.begin("other")
    rows.add(task, names(0, 10))
    rows.resize(2)
    rows.add(task, names(5, 20))
    rows.commit(task, "other")
    assert rows.replays == 1
    assert len(rows.instances) == 1
    rows.put(names(0, 20))
    assert len(rows.instances) == 2, "each writer sends its own"
    assert tombstones_by_epoch(rows) == rows.owed()


def test_a_replay_of_rows_that_came_with_tombstones_is_skipped(
    cleaning: LocalCluster, topic_name: str
) -> None:
    rows = table(cleaning, topic_name, 1)
    rows.put(names(0, 20))
    rows.resize(3)
    rows.put(names(0, 20), "again")
    replay = TaskTransaction(
        writer_context(cleaning), topic_name, f"ordered:{topic_name}:again:0", 0, Memory(1_000_000)
    )
    replay.write(_batch([(key, rows.state[key]) for key in names(0, 20)], headers=False))
    assert not replay.commit(), "the ledger counts the rows, not the tombstones"
    assert tombstones_by_epoch(rows) == rows.owed()


def test_log_starts_behind_the_old_records_save_the_tombstones(
    cleaning: LocalCluster, topic_name: str
) -> None:
    rows = table(cleaning, topic_name, 1)
    rows.put(names(0, 20))
    rows.resize(2)
    admin = AdminClient({"bootstrap.servers": cleaning.bootstrap_servers})
    # Allowed only under a policy that deletes as well.
    alter_configs(admin, ResourceType.TOPIC, topic_name, {"cleanup.policy": "compact,delete"})
    partition = TopicPartition(topic_name, 0, -1)
    deadline = time.monotonic() + TIMEOUT
    while True:  # the broker may not have heard of the policy yet
        try:
            admin.delete_records([partition])[partition].result(TIMEOUT)
            break
        except KafkaException:
            assert time.monotonic() < deadline, "the new policy does not reach the broker"
    rows.put(names(0, 20))
    assert not tombstones_by_epoch(rows)


@pytest.mark.long
@pytest.mark.parametrize("seed", [*fresh_seeds(__name__), pytest.param(877148918, marks=pytest.mark.long)])
def test_random_history(cleaning: LocalCluster, spark: SparkSession, topic_name: str, seed: int) -> None:
    print(f"seed {seed}")  # noqa: T201 - shown when the test fails
    choose = random.Random(seed)
    initial = choose.randint(1, 3)
    rows = table(cleaning, topic_name, initial)
    everyone, count = names(0, 40), initial
    rows.put(everyone)
    for _ in range(5):
        for _ in range(choose.randint(0, 3)):
            writer = choose.choice(["a", "b"])
            if choose.random() < 0.2:
                rows.restart(writer)
            rows.put(
                choose.sample(everyone, choose.randint(1, 30)),
                writer,
                delete=choose.random() < 0.3,
                headers=choose.random() < 0.3,
            )
        task = rows.begin("c")
        rows.add(task, choose.sample(everyone, 5))
        count = choose.choice([other for other in range(initial, initial + 6) if other != count])
        rows.resize(count)
        rows.add(task, choose.sample(everyone, 5))
        rows.commit(task, "c")
    assert tombstones_by_epoch(rows) == rows.owed()
    check_all(rows, spark)


def test_topic_configs(cleaning: LocalCluster, topic_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    create(cleaning, topic_name, 1, **COMPACT)
    admin = KafkaAdmin(cleaning.bootstrap_servers, timeout=TIMEOUT)
    try:
        configs = TopicConfigs(admin.requests, TIMEOUT)
        found = configs.describe(topic_name)
        assert found.items() >= COMPACT.items()
        assert found["retention.ms"] == "604800000", "defaults are told, too"
        # The first answer counts, whenever it comes.
        monkeypatch.setattr(kafka_configs, "PROPAGATION", 0.0)
        with pytest.raises(RequestError, match="no-such-topic") as refused:
            configs.describe("no-such-topic")
        assert refused.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    finally:
        admin.close()
