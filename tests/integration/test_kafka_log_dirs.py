"""The brokers' log directories and moves between them, on three brokers with two directories each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Producer

from benchmarks.kafka_tools import kafka_tool
from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError, RequestError, UnavailableError
from spark_ordered_kafka.kafka import rows
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.configs import BrokerConfigs
from spark_ordered_kafka.kafka.log_dir_requests import LogDirs
from spark_ordered_kafka.kafka.values import DirReplica, LogDir
from spark_ordered_kafka.local import LocalCluster
from tests.servers import TIMEOUT, await_true

RECORD = 100_000
THROTTLE = "replica.alter.log.dirs.io.max.bytes.per.second"


@pytest.fixture
def admin(three_brokers: LocalCluster) -> Iterator[KafkaAdmin]:
    admin = KafkaAdmin(three_brokers.bootstrap_servers, timeout=TIMEOUT)
    yield admin
    admin.close()


def write(three_brokers: LocalCluster, topic: str, partition: int, records: int) -> None:
    producer = Producer({"bootstrap.servers": three_brokers.bootstrap_servers, "compression.type": "none"})
    for _ in range(records):
        producer.produce(topic, b"x" * RECORD, partition=partition)
    assert producer.flush(TIMEOUT) == 0


def answered(answer: list[LogDir] | OrderedKafkaError) -> list[LogDir]:
    assert isinstance(answer, list), answer
    return answer


def where(log_dirs: LogDirs, topic: str, broker: int) -> dict[int, dict[str, DirReplica]]:
    """Partition -> path -> replica."""
    found: dict[int, dict[str, DirReplica]] = {}
    for directory in answered(log_dirs.describe([broker], {topic: range(10)})[broker]):
        for replica in directory.replicas:
            found.setdefault(replica.partition, {})[directory.path] = replica
    return found


def test_what_the_directories_hold(
    three_brokers: LocalCluster, admin: KafkaAdmin, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin.create_topic(topic_name, {0: [1, 2], 1: [2, 3], 2: [3, 1], 3: [1, 3], 4: [2, 1]}, {})
    write(three_brokers, topic_name, 0, 10)
    log_dirs = LogDirs(admin.requests, timeout=TIMEOUT)
    # A description comes in three requests then.
    monkeypatch.setattr(rows, "CHUNK", 2)
    hosted = {1: {0, 2, 3, 4}, 2: {0, 1, 4}, 3: {1, 2, 3}}
    await_true(
        lambda: all(set(where(log_dirs, topic_name, b)) == p for b, p in hosted.items()), "all logs are made"
    )
    found = log_dirs.describe([1, 2, 3, 9], {topic_name: range(5), "no-such-topic": [0]})
    assert list(found) == [1, 2, 3, 9]
    away = found.pop(9)
    assert isinstance(away, RequestError)
    assert (away.code, "broker 9 is not alive" in str(away)) == (ErrorCode.BROKER_NOT_AVAILABLE, True)
    for broker, answer in found.items():
        directories = answered(answer)
        home = three_brokers.directory / f"broker-{broker}"
        assert [d.path for d in directories] == [str(home / "data-1"), str(home / "data-2")]
        for directory in directories:
            assert directory.error_code == 0
            assert directory.total_bytes is not None
            assert directory.usable_bytes is not None
            assert 0 < directory.usable_bytes <= directory.total_bytes
        replicas = [replica for directory in directories for replica in directory.replicas]
        assert {r.partition for r in replicas} == hosted[broker]
        assert all((r.topic, r.offset_lag, r.is_future) == (topic_name, 0, False) for r in replicas)
    sizes = {0: 10 * RECORD, 1: 0, 2: 0, 3: 0, 4: 0}
    leaders = {0: 1, 1: 2, 2: 3, 3: 1, 4: 2}
    measured = log_dirs.sizes((topic_name, p, broker) for p, broker in leaders.items())
    assert measured.keys() == {(topic_name, p, broker) for p, broker in leaders.items()}
    assert all(size <= measured[topic_name, p, leaders[p]] <= size * 1.01 for p, size in sizes.items())
    # All topics, and none.
    assert {r.topic for d in answered(log_dirs.describe([1])[1]) for r in d.replicas} >= {topic_name}
    assert [d.replicas for d in answered(log_dirs.describe([1], {})[1])] == [(), ()]


@pytest.mark.long
def test_kafkas_own_tool_says_the_same(
    three_brokers: LocalCluster, admin: KafkaAdmin, topic_name: str
) -> None:
    admin.create_topic(topic_name, {0: [1, 2, 3], 1: [3, 2, 1]}, {})
    write(three_brokers, topic_name, 0, 3)
    log_dirs = LogDirs(admin.requests, timeout=TIMEOUT)
    await_true(
        lambda: all(
            {p: r.offset_lag for p, d in where(log_dirs, topic_name, b).items() for r in d.values()}
            == {0: 0, 1: 0}
            for b in (1, 2, 3)
        ),
        "the replicas are in sync",
    )
    server = ("--bootstrap-server", three_brokers.bootstrap_servers)
    done = kafka_tool("kafka-log-dirs", *server, "--describe", "--topic-list", topic_name)
    assert done.returncode == 0, done.stderr
    told = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))
    expected = {
        (row["broker"], directory["logDir"], replica["partition"]): (replica["size"], replica["offsetLag"])
        for row in told["brokers"]
        for directory in row["logDirs"]
        for replica in directory["partitions"]
    }
    assert len(expected) == 6
    assert {
        (broker, directory.path, f"{r.topic}-{r.partition}"): (r.size, r.offset_lag)
        for broker, answer in log_dirs.describe([1, 2, 3], {topic_name: [0, 1]}).items()
        for directory in answered(answer)
        for r in directory.replicas
    } == expected


def test_replicas_move_to_another_directory_and_back(
    three_brokers: LocalCluster, admin: KafkaAdmin, topic_name: str
) -> None:
    admin.create_topic(topic_name, {0: [1], 1: [2]}, {})
    write(three_brokers, topic_name, 0, 50)
    log_dirs, configs = LogDirs(admin.requests, timeout=TIMEOUT), BrokerConfigs(admin.requests, TIMEOUT)
    paths = {b: {d.path for d in answered(log_dirs.describe([b], {})[b])} for b in (1, 2)}
    await_true(
        lambda: 0 in where(log_dirs, topic_name, 1) and 1 in where(log_dirs, topic_name, 2), "both logs"
    )
    home = {b: next(iter(where(log_dirs, topic_name, b)[p])) for p, b in ((0, 1), (1, 2))}
    other = {b: next(iter(paths[b] - {home[b]})) for b in (1, 2)}
    assert configs.alter({1: {THROTTLE: "100"}}) == {}
    try:
        await_true(lambda: configs.describe_own([1])[1] == {THROTTLE: "100"}, "the throttle is there")
        assert log_dirs.alter({(topic_name, 0, 1): other[1]}) == {}
        await_true(lambda: len(where(log_dirs, topic_name, 1)[0]) == 2, "a temporary replica is there")
        there = where(log_dirs, topic_name, 1)[0]
        assert (there[home[1]].is_future, there[other[1]].is_future) == (False, True)
        assert there[home[1]].size > there[other[1]].size
        assert there[other[1]].offset_lag > 0
        # The size of the partition is that of the current one.
        replica = (topic_name, 0, 1)
        assert log_dirs.sizes([replica]) == {replica: there[home[1]].size}
        # Back to where it is: that ends the copying.
        assert log_dirs.alter({(topic_name, 0, 1): home[1]}) == {}
        await_true(lambda: list(where(log_dirs, topic_name, 1)[0]) == [home[1]], "the temporary one is gone")
    finally:
        assert configs.alter({1: {THROTTLE: None}}) == {}
    await_true(lambda: configs.describe_own([1])[1] == {}, "the throttle is gone")
    moved = {(topic_name, 0, 1): other[1], (topic_name, 1, 2): other[2]}
    assert log_dirs.alter(moved) == {}
    assert log_dirs.alter(moved) == {}
    await_true(lambda: list(where(log_dirs, topic_name, 1)[0]) == [other[1]], "partition 0 has moved")
    await_true(lambda: list(where(log_dirs, topic_name, 2)[1]) == [other[2]], "partition 1 has moved")


def test_moves_that_are_refused(three_brokers: LocalCluster, admin: KafkaAdmin, topic_name: str) -> None:
    admin.create_topic(topic_name, {0: [1], 1: [2], 2: [3]}, {})
    log_dirs = LogDirs(admin.requests, timeout=TIMEOUT)
    # A broker that has not heard of the topic says that there is none.
    await_true(
        lambda: 0 in where(log_dirs, topic_name, 1) and 2 in where(log_dirs, topic_name, 3), "logs are made"
    )
    (home,) = where(log_dirs, topic_name, 1)[0]
    on_3 = str(three_brokers.directory / "broker-3" / "data-2")
    refused = log_dirs.alter(
        {
            (topic_name, 0, 1): home,
            (topic_name, 1, 1): str(Path(home).parent / "data-3"),
            (topic_name, 0, 3): on_3,
            ("no-such-topic", 0, 1): home,
            (topic_name, 0, 9): "/data",
            (topic_name, 1, 9): "/data",
        }
    )
    assert {place: error.code for place, error in refused.items()} == {
        (topic_name, 1, 1): ErrorCode.LOG_DIR_NOT_FOUND,
        (topic_name, 0, 3): ErrorCode.REPLICA_NOT_AVAILABLE,
        ("no-such-topic", 0, 1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        (topic_name, 0, 9): ErrorCode.BROKER_NOT_AVAILABLE,
        (topic_name, 1, 9): ErrorCode.BROKER_NOT_AVAILABLE,
    }
    assert f"move the replica of {topic_name}-1 on broker 1" in str(refused[topic_name, 1, 1])
    assert log_dirs.alter({}) == {}


@pytest.mark.long
def test_a_broker_that_hangs_keeps_its_answer_alone(three_brokers: LocalCluster, topic_name: str) -> None:
    admin = KafkaAdmin(three_brokers.bootstrap_servers, timeout=TIMEOUT)
    log_dirs = LogDirs(admin.requests, timeout=3.0)
    asked_of_all = log_dirs.describe([1, 2, 3], {}, timeout=TIMEOUT)
    assert all(isinstance(answer, list) for answer in asked_of_all.values())
    three_brokers.pause("broker-2")
    try:
        with ThreadPoolExecutor(8) as threads:
            # Several at once go to several brokers, so that the one that hangs gets some of them.
            asked = [threads.submit(admin.brokers) for _ in range(8)]
            found = log_dirs.describe([1, 2, 3], {}, timeout=8.0)
            assert all(future.result() for future in asked)
        assert isinstance(found[1], list)
        assert isinstance(found[3], list)
        assert isinstance(found[2], OrderedKafkaError)
        assert found[2].code in (UnavailableError.code, ErrorCode.BROKER_NOT_AVAILABLE)

        def code() -> ErrorCode | None:
            refused = log_dirs.alter({(topic_name, 0, 2): "/data"})
            return refused[topic_name, 0, 2].code

        await_true(lambda: code() == ErrorCode.BROKER_NOT_AVAILABLE, "the cluster takes broker 2 for dead")
    finally:
        three_brokers.resume("broker-2")
    await_true(lambda: isinstance(log_dirs.describe([2], {})[2], list), "broker 2 answers again")
    await_true(lambda: len(admin.brokers()) == 3, "the cluster has broker 2 again")
    admin.close()
