"""KafkaAdmin against a real broker."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from confluent_kafka import Producer, TopicCollection
from confluent_kafka.admin import AdminClient

from spark_ordered_kafka.errors import ErrorCode, RequestError, UnavailableError
from spark_ordered_kafka.kafka import admin as admin_module
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.values import LogEnd
from spark_ordered_kafka.local import LocalCluster
from tests import servers
from tests.servers import hosted_replicas


@pytest.fixture(scope="module")
def admin(kafka_cluster: LocalCluster) -> Iterator[KafkaAdmin]:
    admin = KafkaAdmin(kafka_cluster.bootstrap_servers, timeout=servers.TIMEOUT)
    yield admin
    admin.close()


def write(bootstrap_servers: str, topic: str, partition: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers, "acks": "all"})
    for number in range(count):
        producer.produce(topic, value=str(number).encode(), partition=partition)
    assert producer.flush(servers.TIMEOUT) == 0


def test_cluster(admin: KafkaAdmin, kafka_cluster: LocalCluster) -> None:
    (broker,) = admin.brokers()
    assert f"{broker.host}:{broker.port}" == kafka_cluster.bootstrap_servers
    assert broker.id == 1
    assert broker.rack is None
    client = AdminClient({"bootstrap.servers": kafka_cluster.bootstrap_servers})
    theirs = client.describe_cluster(request_timeout=servers.TIMEOUT).result(servers.TIMEOUT)
    assert admin.cluster_id == theirs.cluster_id


def test_reads_end_at_an_earlier_deadline(admin: KafkaAdmin, topic_name: str) -> None:
    admin.create_topic(topic_name, {0: [1]}, {})
    later = time.monotonic() + servers.TIMEOUT
    assert admin.log_ends(topic_name, range(1), deadline=later) == {0: LogEnd(0, 0)}
    assert list(admin.describe_topics([topic_name], deadline=later)) == [topic_name]
    with pytest.raises(UnavailableError):
        admin.log_ends(topic_name, range(1), deadline=time.monotonic())
    with pytest.raises(UnavailableError):
        admin.describe_topics([topic_name], deadline=time.monotonic())


def test_life_of_a_topic(admin: KafkaAdmin, kafka_cluster: LocalCluster, topic_name: str) -> None:
    admin.create_topic(topic_name, {0: [1], 1: [1]}, {"cleanup.policy": "compact"}, validate_only=True)
    assert admin.describe_topics([topic_name]) == {}

    admin.create_topic(topic_name, {1: [1], 0: [1]}, {"cleanup.policy": "compact"})
    admin.create_partitions(topic_name, 5, [[1], [1], [1]], validate_only=True)
    admin.create_partitions(topic_name, 3, [[1]])

    def is_shown() -> bool:
        found = admin.describe_topics([topic_name]).get(topic_name)
        return found is not None and len(found.partitions) == 3

    servers.await_true(is_shown, "the new partition shows")
    described = admin.describe_topics([topic_name, "there-is-no-such-topic"])
    assert list(described) == [topic_name]
    topic = described[topic_name]
    assert [row.partition for row in topic.partitions] == [0, 1, 2]
    assert not topic.internal
    for row in topic.partitions:
        assert (row.leader, row.leader_epoch, row.replicas, row.isr) == (1, 0, (1,), (1,))
    client = AdminClient({"bootstrap.servers": kafka_cluster.bootstrap_servers})
    theirs = client.describe_topics(TopicCollection([topic_name]))[topic_name].result(30)
    # librdkafka prints plain base64, Kafka's own tools print the url-safe one.
    assert topic.topic_id == str(theirs.topic_id).translate(str.maketrans("+/", "-_"))
    assert admin.describe_topics()[topic_name] == topic
    assert admin.describe_topics([]) == {}

    def is_counted() -> bool:
        """Topics of tests before may vanish only now."""
        before, hosted, after = others(), hosted_replicas(admin)[1], others()
        assert before != after or hosted == before + 3, (before, hosted)
        return before == after

    def others() -> int:
        found = admin.describe_topics()
        assert found.pop(topic_name) == topic
        return sum(1 in row.replicas for one in found.values() for row in one.partitions)

    servers.await_true(is_counted, "no other topic comes or goes")


@pytest.mark.parametrize(
    ("topic", "assignments", "configs", "code"),
    [
        ("bad name", {0: [1]}, {}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("t", {}, {}, ErrorCode.INVALID_PARTITIONS),
        ("t", {0: [99]}, {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", {1: [1]}, {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", {0: [1]}, {"no.such.config": "1"}, ErrorCode.INVALID_CONFIG),
        ("t", {0: [1]}, {"retention.ms": "long"}, ErrorCode.INVALID_CONFIG),
    ],
)
def test_topics_kafka_refuses(
    admin: KafkaAdmin, topic: str, assignments: dict[int, list[int]], configs: dict[str, str], code: ErrorCode
) -> None:
    with pytest.raises(RequestError, match=f"create topic '{topic}'") as caught:
        admin.create_topic(topic, assignments, configs, validate_only=True)
    assert caught.value.code is code


def test_a_topic_is_not_created_twice(admin: KafkaAdmin, make_topic: Callable[..., str]) -> None:
    topic = make_topic()
    with pytest.raises(RequestError) as caught:
        admin.create_topic(topic, {0: [1]}, {})
    assert caught.value.code is ErrorCode.TOPIC_ALREADY_EXISTS


@pytest.mark.long
@pytest.mark.parametrize(
    ("total", "assignments", "code"),
    [
        (2, [], ErrorCode.INVALID_PARTITIONS),
        pytest.param(4, [[1]], ErrorCode.INVALID_REPLICA_ASSIGNMENT, marks=pytest.mark.long),
        (3, [[99]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_partitions_kafka_refuses(
    admin: KafkaAdmin,
    make_topic: Callable[..., str],
    total: int,
    assignments: list[list[int]],
    code: ErrorCode,
) -> None:
    topic = make_topic(2)
    with pytest.raises(RequestError) as caught:
        admin.create_partitions(topic, total, assignments)
    assert caught.value.code is code
    assert len(admin.describe_topics([topic])[topic].partitions) == 2


def test_log_offsets(admin: KafkaAdmin, kafka_cluster: LocalCluster, make_topic: Callable[..., str]) -> None:
    topic = make_topic(3)
    write(kafka_cluster.bootstrap_servers, topic, 1, 7)
    assert admin.log_ends(topic, [0, 1, 2]) == {0: LogEnd(0, 0), 1: LogEnd(7, 0), 2: LogEnd(0, 0)}
    assert admin.log_ends(topic, [1]) == {1: LogEnd(7, 0)}
    assert admin.log_ends(topic, []) == {}
    assert admin.log_starts(topic, [0, 1]) == {0: 0, 1: 0}


def test_many_partitions_right_after_they_were_created(
    admin: KafkaAdmin, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several requests' worth, while the broker is still making the logs."""
    monkeypatch.setattr(admin_module, "_OFFSETS_CHUNK", 7)
    count = 60
    admin.create_topic(topic_name, {partition: [1] for partition in range(count)}, {})
    assert admin.log_ends(topic_name, range(count)) == dict.fromkeys(range(count), LogEnd(0, 0))
    assert admin.log_starts(topic_name, range(count)) == dict.fromkeys(range(count), 0)


@pytest.mark.long
@pytest.mark.parametrize("topic_exists", [True, pytest.param(False, marks=pytest.mark.long)])
def test_offsets_of_what_does_not_exist(
    admin: KafkaAdmin, make_topic: Callable[..., str], topic_exists: bool
) -> None:
    topic = make_topic(1) if topic_exists else servers.unique_name("nothing")
    with pytest.raises(RequestError, match=topic) as caught:
        admin.log_ends(topic, [4])
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_threads_share_one_admin(admin: KafkaAdmin, make_topic: Callable[..., str]) -> None:
    topic = make_topic(2)
    with ThreadPoolExecutor(16) as threads:
        found = list(threads.map(lambda _: (admin.log_ends(topic, [0, 1]), admin.brokers()), range(200)))
    assert len(found) == 200
    assert all(row == found[0] for row in found)


def impatient(cluster: LocalCluster) -> KafkaAdmin:
    """One that waits a second for each answer, and on a busy machine may get none when it connects."""
    found: list[KafkaAdmin] = []

    def has_connected() -> bool:
        with suppress(UnavailableError):
            found.append(KafkaAdmin(cluster.bootstrap_servers, timeout=1.0))
        return bool(found)

    servers.await_true(has_connected, "a broker answers")
    return found[0]


@pytest.mark.long
def test_a_hung_broker_is_told_after_the_timeout(kafka_cluster: LocalCluster) -> None:
    admin = impatient(kafka_cluster)
    kafka_cluster.pause("broker-1")
    try:
        with pytest.raises(UnavailableError, match=kafka_cluster.bootstrap_servers):
            admin.brokers()
        with pytest.raises(UnavailableError, match="create topic 't'"):
            admin.create_topic("t", {0: [1]}, {})
        with pytest.raises(UnavailableError, match=kafka_cluster.bootstrap_servers):
            KafkaAdmin(kafka_cluster.bootstrap_servers, timeout=1.0)
    finally:
        kafka_cluster.resume("broker-1")
        admin.close()
    # It may be fenced for a moment, and refuse what the next test asks of it.
    again = KafkaAdmin(kafka_cluster.bootstrap_servers, timeout=servers.TIMEOUT)

    def takes_replicas() -> bool:
        try:
            again.create_topic(servers.unique_name("again"), {0: [1]}, {})
        except RequestError as error:
            if error.code != ErrorCode.INVALID_REPLICA_ASSIGNMENT:
                raise
            return False
        return True

    try:
        again.brokers()
        servers.await_true(takes_replicas, "the broker is not fenced")
    finally:
        again.close()


@pytest.mark.long
def test_a_restarted_broker_is_found_again_with_a_new_leader_epoch(
    kafka_cluster: LocalCluster, admin: KafkaAdmin, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(1)
    write(kafka_cluster.bootstrap_servers, topic, 0, 3)
    kafka_cluster.stop("broker-1")
    kafka_cluster.start("broker-1")
    ends = admin.log_ends(topic, [0])
    (partition,) = admin.describe_topics([topic])[topic].partitions
    assert partition.leader_epoch > 0
    assert ends == {0: LogEnd(3, partition.leader_epoch)}


def test_closed(kafka_cluster: LocalCluster) -> None:
    admin = KafkaAdmin(kafka_cluster.bootstrap_servers, timeout=servers.TIMEOUT)
    admin.close()
    admin.close()
    with pytest.raises(UnavailableError, match="closed"):
        admin.brokers()
