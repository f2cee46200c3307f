"""Starting, cancelling and finishing reassignments, and electing leaders, on three brokers."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from benchmarks.kafka_tools import kafka_tool
from spark_ordered_kafka.errors import ErrorCode, RequestError
from spark_ordered_kafka.kafka import rows
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.configs import BrokerConfigs, TopicConfigs
from spark_ordered_kafka.kafka.elections import elect_preferred
from spark_ordered_kafka.kafka.reassignments import Reassignments
from spark_ordered_kafka.local import LocalCluster
from tests.servers import TIMEOUT, await_true

RECORD = 200_000
RATE = "leader.replication.throttled.rate"
THROTTLED = "leader.replication.throttled.replicas"


@pytest.fixture
def admin(three_brokers: LocalCluster) -> Iterator[KafkaAdmin]:
    admin = KafkaAdmin(three_brokers.bootstrap_servers, timeout=TIMEOUT)
    yield admin
    admin.close()


@pytest.fixture
def slow(three_brokers: LocalCluster, admin: KafkaAdmin, topic_name: str) -> Iterator[str]:
    """A topic with data on broker 1, which hardly sends any of it.

    Kafka lets 1 MB of each partition pass, and again once its window of eleven seconds has: 10 MB take a minute and a half.
    """
    admin.create_topic(topic_name, {0: [1], 1: [1], 2: [1]}, {THROTTLED: "*"})
    producer = Producer({"bootstrap.servers": three_brokers.bootstrap_servers, "compression.type": "none"})
    for number in range(100):
        producer.produce(topic_name, b"x" * RECORD, partition=number % 2)
    assert producer.flush(TIMEOUT) == 0
    configs = BrokerConfigs(admin.requests, TIMEOUT)
    assert configs.alter({1: {RATE: "100"}}) == {}
    await_true(lambda: configs.describe_own([1])[1] == {RATE: "100"}, "the throttle is there")
    yield topic_name
    assert configs.alter({1: {RATE: None}}) == {}
    await_true(lambda: configs.describe_own([1])[1] == {}, "the throttle is gone")
    assert TopicConfigs(admin.requests, TIMEOUT).alter_many({topic_name: {THROTTLED: None}}) == {}


def replicas(admin: KafkaAdmin, topic: str) -> dict[int, tuple[int, ...]]:
    """By partition; empty as long as the broker that was asked has not heard of the topic."""
    found = admin.describe_topics([topic]).get(topic)
    return {} if found is None else {row.partition: row.replicas for row in found.partitions}


def test_partitions_of_several_topics_and_what_is_wrong_with_some(
    admin: KafkaAdmin, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = f"{topic_name}-1", f"{topic_name}-2"
    for topic in (first, second):
        admin.create_topic(topic, {0: [1, 2], 1: [2, 3], 2: [3, 1]}, {})
    reassignments = Reassignments(admin.requests, timeout=TIMEOUT)
    monkeypatch.setattr(rows, "CHUNK", 2)  # five requests
    good = {(first, 0): [3, 2], (second, 1): [1], (second, 2): [1, 2, 3], (first, 2): [1, 3]}
    refused = reassignments.alter(
        {
            **good,
            (first, 1): [2, 2],
            (second, 0): [],
            (first, 9): [1],
            ("no-such-topic", 0): [1],
            (first, 8): [7],
        }
    )
    assert {place: error.code for place, error in refused.items()} == {
        (first, 1): ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        (second, 0): ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        (first, 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("no-such-topic", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        (first, 8): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert all(f"{topic}-{p}: " in str(error) for (topic, p), error in refused.items())
    expected = {
        first: {0: (3, 2), 1: (2, 3), 2: (1, 3)},
        second: {0: (1, 2), 1: (1,), 2: (1, 2, 3)},
    }
    await_true(lambda: {t: replicas(admin, t) for t in expected} == expected, "all replicas are as asked")
    await_true(lambda: not any(reassignments.ongoing(t, range(3)) for t in expected), "nothing of them moves")
    # What is reached already is asked for without harm.
    assert reassignments.alter(good) == {}
    assert reassignments.alter({}) == {}
    with pytest.raises(RequestError, match=f"INVALID_REPLICA_ASSIGNMENT: .*{first}-1: .*broker 7"):
        reassignments.start(first, {0: [3, 2], 1: [7]})


@pytest.mark.long
def test_cancelled_ones_stay_where_they_were(
    three_brokers: LocalCluster, admin: KafkaAdmin, slow: str
) -> None:
    reassignments = Reassignments(admin.requests, timeout=TIMEOUT)
    assert reassignments.alter({(slow, 0): [2], (slow, 1): [3, 1]}) == {}
    ongoing = reassignments.ongoing(slow, [0, 1, 2])
    assert {p: (r.replicas, r.adding, r.removing) for p, r in ongoing.items()} == {
        0: ((2, 1), (2,), (1,)),
        1: ((3, 1), (3,), ()),
    }
    done = kafka_tool(
        "kafka-reassign-partitions", "--bootstrap-server", three_brokers.bootstrap_servers, "--list"
    )
    assert done.returncode == 0, done.stderr
    assert f"{slow}-0: replicas: 2,1. adding: 2. removing: 1." in done.stdout
    assert f"{slow}-1: replicas: 3,1. adding: 3." in done.stdout
    # The preferred leader is not in sync.
    refused = elect_preferred(admin.requests, [(slow, 0), (slow, 2)], TIMEOUT)
    assert list(refused) == [(slow, 0)]
    assert "PREFERRED_LEADER_NOT_AVAILABLE" in str(refused[slow, 0])
    # The new replica of one is another one than before.
    assert reassignments.alter({(slow, 0): [3]}) == {}
    assert reassignments.ongoing(slow, [0])[0].adding == (3,)
    refused = reassignments.alter({(slow, 0): None, (slow, 1): None, (slow, 2): None})
    assert {place: error.code for place, error in refused.items()} == {
        (slow, 2): ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    }
    assert reassignments.ongoing(slow, [0, 1, 2]) == {}
    # Kafka takes what the replaced one had added for a replica of before.
    await_true(lambda: replicas(admin, slow) == {0: (1, 2), 1: (1,), 2: (1,)}, "all is as it was")


def test_preferred_leaders_lead(admin: KafkaAdmin, topic_name: str) -> None:
    admin.create_topic(topic_name, {0: [1, 2], 1: [1, 2]}, {})

    def leads() -> tuple[int, ...]:
        found = admin.describe_topics([topic_name]).get(topic_name)
        return () if found is None else tuple(row.leader for row in found.partitions)

    await_true(lambda: replicas(admin, topic_name) == {0: (1, 2), 1: (1, 2)}, "the topic is known")
    assert Reassignments(admin.requests, timeout=TIMEOUT).alter({(topic_name, 0): [2, 1]}) == {}
    await_true(lambda: replicas(admin, topic_name)[0] == (2, 1), "broker 2 is preferred")

    def elect() -> dict[tuple[str, int], RequestError]:
        places = [(topic_name, 0), (topic_name, 1), (topic_name, 9), ("no-such-topic", 0)]
        return elect_preferred(admin.requests, places, TIMEOUT)

    # A new replica comes into sync a moment later.
    await_true(lambda: (topic_name, 0) not in elect(), "broker 2 is in sync")
    await_true(lambda: leads() == (2, 1), "both preferred leaders lead")
    # Those that lead already are no failures.
    assert {place: error.code for place, error in elect().items()} == {
        (topic_name, 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("no-such-topic", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert elect_preferred(admin.requests, [], TIMEOUT) == {}


@pytest.mark.long
def test_what_is_asked_while_kafka_has_no_controller_is_done_when_it_has_one(
    three_brokers: LocalCluster, admin: KafkaAdmin, topic_name: str
) -> None:
    admin.create_topic(topic_name, {0: [1, 2], 1: [2, 1]}, {})
    await_true(lambda: len(replicas(admin, topic_name)) == 2, "the topic is known")
    reassignments = Reassignments(admin.requests, timeout=3 * TIMEOUT)
    configs = TopicConfigs(admin.requests, 3 * TIMEOUT)
    failures: list[dict[tuple[str, int], RequestError]] = []
    refused: list[dict[str, RequestError]] = []
    asking = [
        threading.Thread(
            target=lambda: failures.append(
                reassignments.alter({(topic_name, 0): [2, 1], (topic_name, 9): [1]})
            )
        ),
        threading.Thread(
            target=lambda: refused.append(configs.alter_many({topic_name: {"retention.ms": "5000"}}))
        ),
    ]
    three_brokers.kill("kraft-3000")
    try:
        for thread in asking:
            thread.start()
    finally:
        three_brokers.start("kraft-3000")
    for thread in asking:
        thread.join(3 * TIMEOUT)
    assert [list(found) for found in failures] == [[(topic_name, 9)]]
    assert refused == [{}]
    await_true(lambda: replicas(admin, topic_name) == {0: (2, 1), 1: (2, 1)}, "it was done")
    await_true(lambda: len(admin.brokers()) == 3, "all brokers are there")
