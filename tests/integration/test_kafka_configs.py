"""Configuration of many topics at once, and of single brokers, on three brokers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError
from spark_ordered_kafka.kafka import rows
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.configs import BrokerConfigs, TopicConfigs
from spark_ordered_kafka.local import LocalCluster
from tests.servers import TIMEOUT, await_true

LEADER, FOLLOWER = "leader.replication.throttled.rate", "follower.replication.throttled.rate"
REPLICAS = "leader.replication.throttled.replicas"


@pytest.fixture
def admin(three_brokers: LocalCluster) -> Iterator[KafkaAdmin]:
    admin = KafkaAdmin(three_brokers.bootstrap_servers, timeout=TIMEOUT)
    yield admin
    admin.close()


def test_topics_have_what_is_set_for_them_alone(
    admin: KafkaAdmin, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = [f"{topic_name}-{n}" for n in range(5)]
    for n, topic in enumerate(topics):
        admin.create_topic(topic, {0: [1 + n % 3]}, {"retention.ms": str(1000 + n)} if n else {})
    configs = TopicConfigs(admin.requests, TIMEOUT)
    monkeypatch.setattr(rows, "CHUNK", 2)  # three requests
    # Each broker learns of a new topic when it does: none is left out.
    assert configs.describe_many([*topics, "no-such-topic"]) == {
        topic: {"retention.ms": str(1000 + n)} if n else {} for n, topic in enumerate(topics)
    }
    changes: dict[str, dict[str, str | None]] = {
        topic: {REPLICAS: "0:1", "retention.ms": None} for topic in topics
    }
    assert configs.alter_many(changes) == {}
    assert configs.alter_many(changes) == {}
    await_true(
        lambda: configs.describe_many(topics) == {topic: {REPLICAS: "0:1"} for topic in topics},
        "all brokers know the new values",
    )
    # Each call is answered by any of the brokers, one of which may not have heard of it yet.
    await_true(lambda: configs.describe(topics[0], defaults=False) == {REPLICAS: "0:1"}, "its own value")
    await_true(lambda: configs.describe(topics[0])["retention.ms"] == "604800000", "the default")
    assert configs.describe_many([]) == {}
    assert configs.alter_many({}) == {}


def test_what_is_wrong_for_one_topic_is_done_for_the_others(admin: KafkaAdmin, topic_name: str) -> None:
    good, bad = f"{topic_name}-good", f"{topic_name}-bad"
    for topic in (good, bad):
        admin.create_topic(topic, {0: [1]}, {})
    configs = TopicConfigs(admin.requests, TIMEOUT)
    refused = configs.alter_many(
        {
            good: {"retention.ms": "5000"},
            bad: {"retention.ms": "soon", "cleanup.policy": "compact"},
            "no-such-topic": {"retention.ms": "5000"},
        }
    )
    assert {topic: error.code for topic, error in refused.items()} == {
        bad: ErrorCode.INVALID_CONFIG,
        "no-such-topic": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert f"{bad}: Invalid value soon" in str(refused[bad])
    await_true(
        lambda: configs.describe_many([good, bad]) == {good: {"retention.ms": "5000"}, bad: {}},
        "one is altered, the other not at all",
    )


def test_brokers_have_values_of_their_own(admin: KafkaAdmin) -> None:
    configs = BrokerConfigs(admin.requests, TIMEOUT)
    before: dict[int, object] = {1: {}, 2: {}}
    await_true(lambda: configs.describe_own([1, 2]) == before, "nothing is left of the tests before")
    try:
        refused = configs.alter(
            {
                1: {LEADER: "1000", FOLLOWER: "2000"},
                2: {LEADER: "1000", FOLLOWER: "quick"},
                9: {LEADER: "1000"},
            }
        )
        assert {broker: error.code for broker, error in refused.items()} == {
            2: ErrorCode.INVALID_REQUEST,
            9: ErrorCode.BROKER_NOT_AVAILABLE,
        }
        assert "broker 2: Invalid value quick" in str(refused[2])
        own = {1: {LEADER: "1000", FOLLOWER: "2000"}, 2: {}, 3: {}}
        await_true(
            lambda: configs.describe_own([1, 2, 3]) == own, "broker 1 shows its values, the others none"
        )
        away = configs.describe_own([9])[9]
        assert isinstance(away, OrderedKafkaError)
        assert away.code == ErrorCode.BROKER_NOT_AVAILABLE
    finally:
        assert configs.alter({1: {LEADER: None, FOLLOWER: None}}) == {}
        assert configs.alter({1: {LEADER: None, FOLLOWER: None}}) == {}
    await_true(lambda: configs.describe_own([1, 2]) == before, "nothing is left of it")
