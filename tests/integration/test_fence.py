"""Fencing against real brokers: what was open is aborted, its writers are rejected, others are left alone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from kafka import KafkaAdminClient
from kafka import TopicPartition as KafkaPythonPartition
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    OffsetSpec,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)

from spark_ordered_kafka.errors import RequestError, UnavailableError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.fence import TRANSACTION_STATE_TOPIC, Fencer, coordinator_partition
from spark_ordered_kafka.local import LocalCluster
from tests import servers
from tests.servers import hosted_replicas, transaction_states

WRITERS = 50


def soon(seconds: float = servers.TIMEOUT) -> float:
    return time.monotonic() + seconds


def unheard(_: int) -> None:
    """For fences whose progress is of no interest."""


@pytest.fixture
def admin(kafka_cluster: LocalCluster) -> Iterator[KafkaAdmin]:
    admin = KafkaAdmin(kafka_cluster.bootstrap_servers, timeout=servers.TIMEOUT)
    yield admin
    admin.close()


class Writers:
    """Transactional producers of one topic with a transaction each, that has a record in every partition."""

    def __init__(self, bootstrap_servers: str, topic: str, partitions: int, names: Sequence[str]) -> None:
        self.servers = bootstrap_servers
        self.topic = topic
        self.partitions = range(partitions)
        self.ids = [f"ordered:{topic}:{name}" for name in names]
        self.producers = [self._producer(transactional_id) for transactional_id in self.ids]

    def _producer(self, transactional_id: str) -> Producer:
        # A fenced producer logs what its calls raise anyway.
        config = {"transactional.id": transactional_id, "log_level": 0}
        return Producer({"bootstrap.servers": self.servers, **config})

    def begin(self) -> None:
        """Bring every producer to an open transaction whose records are in the log."""

        def begin(producer: Producer) -> None:
            producer.init_transactions(servers.TIMEOUT)
            producer.begin_transaction()
            for partition in self.partitions:
                producer.produce(self.topic, value=b"open", partition=partition)
            assert producer.flush(servers.TIMEOUT) == 0

        with ThreadPoolExecutor(8) as threads:
            list(threads.map(begin, self.producers))

    def offsets(self, isolation_level: str) -> list[int]:
        """The high watermark (read_uncommitted) or the last stable offset (read_committed) of each partition."""
        wanted = [KafkaPythonPartition(self.topic, partition) for partition in self.partitions]
        with KafkaAdminClient(bootstrap_servers=self.servers.split(",")) as client:
            found = client.list_partition_offsets(dict.fromkeys(wanted, OffsetSpec.LATEST), isolation_level)
        return [found[partition].offset for partition in wanted]

    def is_quiet(self) -> bool:
        """Whether nothing is open and the logs do not grow any more."""
        ends = self.offsets("read_uncommitted")
        if self.offsets("read_committed") != ends:
            return False
        time.sleep(0.5)
        return self.offsets("read_uncommitted") == ends

    def committed(self) -> list[bytes]:
        """Values that a read_committed consumer sees."""
        ends = self.offsets("read_uncommitted")
        consumer = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": "unused",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
            }
        )
        assigned = [TopicPartition(self.topic, partition, 0) for partition in self.partitions]
        consumer.assign(assigned)
        values = []
        deadline = soon()
        while any(
            max(row.offset, 0) < end for row, end in zip(consumer.position(assigned), ends, strict=True)
        ):
            assert time.monotonic() < deadline, f"read up to {consumer.position(assigned)}, not to {ends}"
            message = consumer.poll(0.1)
            if message is not None:
                assert message.error() is None
                value = message.value()
                assert value is not None
                values.append(value)
        consumer.close()
        return values


def assert_fenced(producer: Producer) -> None:
    with pytest.raises(KafkaException) as caught:
        producer.commit_transaction(servers.TIMEOUT)
    error = caught.value.args[0]
    assert error.code() in (
        KafkaError._FENCED,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
    ), error


def test_open_transactions_are_aborted_and_their_writers_rejected(
    kafka_cluster: LocalCluster, admin: KafkaAdmin, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(3)
    fenced = Writers(
        kafka_cluster.bootstrap_servers, topic, 3, [f"writer:{number}" for number in range(WRITERS)]
    )
    # Its name continues the other's, but its ids do not begin with "ordered:<topic>:".
    other = Writers(kafka_cluster.bootstrap_servers, make_topic(3, prefix=topic), 3, ["writer:0"])
    fenced.begin()
    other.begin()
    fencer = Fencer(admin)

    found = transaction_states(fencer, f"ordered:{topic}:", soon())
    assert found == dict.fromkeys(fenced.ids, "Ongoing")
    assert not fenced.is_quiet()
    told: list[tuple[int, threading.Thread]] = []
    fencer.fence(found, soon(), lambda done: told.append((done, threading.current_thread())))

    assert fenced.is_quiet()
    counts = [done for done, _ in told]
    assert counts == sorted(set(counts))
    assert counts[-1] == WRITERS
    assert {thread for _, thread in told} == {threading.current_thread()}
    for producer in fenced.producers:
        assert_fenced(producer)
    assert fenced.committed() == []
    assert set(transaction_states(fencer, f"ordered:{topic}:", soon()).values()) <= {"Empty", "CompleteAbort"}
    assert transaction_states(fencer, f"ordered:{other.topic}:", soon()) == {other.ids[0]: "Ongoing"}
    other.producers[0].commit_transaction(servers.TIMEOUT)
    assert other.committed() == [b"open"] * 3


def test_idle_writers_are_listed_and_fenced(
    kafka_cluster: LocalCluster, admin: KafkaAdmin, make_topic: Callable[..., str]
) -> None:
    writers = Writers(kafka_cluster.bootstrap_servers, make_topic(), 1, ["idle"])
    (producer,) = writers.producers
    producer.init_transactions(servers.TIMEOUT)
    fencer = Fencer(admin)
    assert transaction_states(fencer, writers.ids[0], soon()) == {writers.ids[0]: "Empty"}
    # An id that nobody ever used is no error.
    fencer.fence([*writers.ids, f"ordered:{writers.topic}:nobody"], soon(), unheard)
    producer.begin_transaction()
    producer.produce(writers.topic, value=b"late", partition=0)
    assert_fenced(producer)
    assert writers.is_quiet()
    assert writers.committed() == []


def test_nothing_to_fence(admin: KafkaAdmin) -> None:
    fencer = Fencer(admin)
    assert transaction_states(fencer, f"ordered:{servers.unique_name('unused')}:", soon()) == {}
    fencer.fence([], soon(), lambda _: pytest.fail("nothing was fenced"))


def test_writers_in_full_flight(
    kafka_cluster: LocalCluster, admin: KafkaAdmin, make_topic: Callable[..., str]
) -> None:
    """Commits race with the fence: a transaction counts wholly or not at all, and nothing follows the fence."""
    topic = make_topic(2)
    writers = Writers(kafka_cluster.bootstrap_servers, topic, 2, [str(number) for number in range(12)])
    writers.begin()

    def run(number: int) -> tuple[list[int], int]:
        """Transactions that were committed, and the one that was not."""
        producer, committed = writers.producers[number], []
        for transaction in range(10_000):
            try:
                for partition in writers.partitions:
                    producer.produce(topic, value=f"{number}:{transaction}".encode(), partition=partition)
                producer.commit_transaction(servers.TIMEOUT)
                committed.append(transaction)
                producer.begin_transaction()
            except KafkaException as error:
                if not error.args[0].fatal():
                    raise
                return committed, transaction
        raise AssertionError("the writer was never fenced")

    fencer = Fencer(admin)
    with ThreadPoolExecutor(len(writers.ids)) as threads:
        running = [threads.submit(run, number) for number in range(len(writers.ids))]
        time.sleep(1)
        fencer.fence(transaction_states(fencer, f"ordered:{topic}:", soon()), soon(), unheard)
        assert writers.is_quiet()
        results = [future.result() for future in running]

    seen = [value for value in writers.committed() if value != b"open"]
    for number, (committed, last) in enumerate(results):
        mine = sorted(int(value.split(b":")[1]) for value in seen if value.startswith(b"%d:" % number))
        assert committed, "no transaction was committed before the fence"
        # The last transaction's answer may have been lost to the fence after it was committed.
        expected = [transaction for transaction in committed for _ in writers.partitions]
        assert mine in (expected, [*expected, last, last])


def test_deadline(kafka_cluster: LocalCluster, admin: KafkaAdmin, make_topic: Callable[..., str]) -> None:
    topic = make_topic()
    writers = Writers(kafka_cluster.bootstrap_servers, topic, 1, [str(number) for number in range(5)])
    writers.begin()
    fencer = Fencer(admin)
    kafka_cluster.pause("broker-1")
    try:
        started = time.monotonic()
        with pytest.raises(UnavailableError, match=f"5 transactional ids.*ordered:{topic}:0.*last error"):
            fencer.fence(writers.ids, soon(1), unheard)
        with pytest.raises(UnavailableError, match=f"ordered:{topic}:"):
            transaction_states(fencer, f"ordered:{topic}:", soon(1))
        assert time.monotonic() - started < 4
    finally:
        kafka_cluster.resume("broker-1")
    fencer.fence(writers.ids, soon(), unheard)
    assert writers.is_quiet()


def test_an_id_kafka_refuses_is_named(admin: KafkaAdmin) -> None:
    """Kafka takes no empty transactional id."""
    with pytest.raises(RequestError, match="fence transactional id ''"):
        Fencer(admin).fence(["", *(f"ordered:refused:{number}" for number in range(100))], soon(), unheard)


def test_a_listener_that_fails_ends_the_fence(admin: KafkaAdmin) -> None:
    def fail(_: int) -> None:
        raise ValueError("listener")

    with pytest.raises(ValueError, match="listener"):
        Fencer(admin).fence([f"ordered:failing:{number}" for number in range(100)], soon(), fail)
    assert transaction_states(Fencer(admin), "ordered:", soon()) is not None


@pytest.fixture(scope="module")
def three_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    config = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    directory = tmp_path_factory.mktemp("three-brokers")
    with LocalCluster(directory, brokers=3, controllers=0, broker_config=config) as cluster:
        yield cluster


@pytest.fixture
def cluster_admin(three_brokers: LocalCluster) -> Iterator[KafkaAdmin]:
    admin = KafkaAdmin(three_brokers.bootstrap_servers, timeout=servers.TIMEOUT)
    yield admin
    admin.close()


def replicated_topic(admin: KafkaAdmin, partitions: int) -> str:
    topic = servers.unique_name("replicated")
    brokers = [1, 2, 3]
    admin.create_topic(
        topic,
        {p: brokers[p % 3 :] + brokers[: p % 3] for p in range(partitions)},
        {"min.insync.replicas": "2"},
    )
    return topic


@pytest.mark.long
def test_no_transactions_before_the_first_one(cluster_admin: KafkaAdmin) -> None:
    """Kafka creates the transaction log with the first transactional producer."""
    assert TRANSACTION_STATE_TOPIC not in cluster_admin.describe_topics()
    assert transaction_states(Fencer(cluster_admin), "", soon()) == {}


@pytest.mark.long
def test_coordinators_of_several_brokers(three_brokers: LocalCluster, cluster_admin: KafkaAdmin) -> None:
    topic = replicated_topic(cluster_admin, 3)
    writers = Writers(three_brokers.bootstrap_servers, topic, 3, [str(number) for number in range(12)])
    writers.begin()
    fencer = Fencer(cluster_admin)
    assert transaction_states(fencer, f"ordered:{topic}:", soon()) == dict.fromkeys(writers.ids, "Ongoing")

    described = cluster_admin.describe_topics([TRANSACTION_STATE_TOPIC])[TRANSACTION_STATE_TOPIC].partitions
    theirs = KafkaAdminClient(bootstrap_servers=three_brokers.bootstrap_servers.split(","))
    for transactional_id, found in theirs.describe_transactions(writers.ids).items():
        partition = coordinator_partition(transactional_id, len(described))
        assert found.coordinator_id == described[partition].leader
    theirs.close()
    assert len({row.leader for row in described}) > 1, "all coordinators are on one broker"

    fencer.fence(writers.ids, soon(), unheard)
    assert writers.is_quiet()
    assert writers.committed() == []


@pytest.mark.long
def test_ids_that_may_not_be_seen_are_an_error(
    three_brokers: LocalCluster, cluster_admin: KafkaAdmin
) -> None:
    """Kafka leaves such ids out of a listing without a word."""
    prefix = f"ordered:{servers.unique_name('secret')}:"
    denied = ACL(
        "User:ANONYMOUS",
        "*",
        ACLOperation.ALL,
        ACLPermissionType.DENY,
        ResourcePattern(ResourceType.TRANSACTIONAL_ID, prefix, ACLResourcePatternType.PREFIXED),
    )
    fencer = Fencer(cluster_admin)
    fencer.fence([f"{prefix}0"], soon(), unheard)
    assert list(transaction_states(fencer, prefix, soon())) == [f"{prefix}0"]

    def list_until_refused() -> None:
        # Brokers apply an ACL a moment after it was accepted.
        deadline = soon(10)
        while time.monotonic() < deadline:
            transaction_states(fencer, prefix, soon())

    with KafkaAdminClient(bootstrap_servers=three_brokers.bootstrap_servers.split(",")) as client:
        assert client.create_acls([denied])["failed"] == []
        try:
            with pytest.raises(RequestError, match=f"{prefix}.*TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
                list_until_refused()
            with pytest.raises(RequestError, match=f"{prefix}0.*TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
                fencer.fence([f"{prefix}0"], soon(), unheard)
            assert transaction_states(fencer, "ordered:another:", soon()) == {}
        finally:
            pattern = ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY)
            client.delete_acls([ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.ANY, pattern)])


def await_hosted(admin: KafkaAdmin, expected: dict[int, int]) -> None:
    """Wait until the brokers' metadata shows these replica counts: it spreads a moment after a change."""
    deadline = soon()
    while (hosted := hosted_replicas(admin)) != expected:
        assert time.monotonic() < deadline, f"hosted replicas are {hosted}, not {expected}"
        time.sleep(0.1)


@pytest.mark.long
def test_a_broker_dies_before_listing_and_fence(
    three_brokers: LocalCluster, cluster_admin: KafkaAdmin
) -> None:
    topic = replicated_topic(cluster_admin, 3)
    writers = Writers(three_brokers.bootstrap_servers, topic, 3, [str(number) for number in range(12)])
    writers.begin()
    fencer = Fencer(cluster_admin)
    ends_before = cluster_admin.log_ends(topic, range(3))
    three_brokers.kill("broker-2")
    try:
        # The dead broker still counts as alive: no listing is complete without it.
        with pytest.raises(UnavailableError, match="list all transactions"):
            transaction_states(fencer, f"ordered:{topic}:", soon(0.5))
        found = transaction_states(fencer, f"ordered:{topic}:", soon())
        assert found == dict.fromkeys(writers.ids, "Ongoing")
        fencer.fence(found, soon(), unheard)
        assert writers.is_quiet()
        assert writers.committed() == []

        ends = cluster_admin.log_ends(topic, range(3))
        described = cluster_admin.describe_topics([topic])[topic].partitions
        assert [ends[row.partition].leader_epoch for row in described] == [
            row.leader_epoch for row in described
        ]
        assert all(row.leader in (1, 3) for row in described)
        assert ends[1].leader_epoch > ends_before[1].leader_epoch, "broker 2 led partition 1"
        assert all(ends[partition].offset > ends_before[partition].offset for partition in range(3))

        hosted = hosted_replicas(cluster_admin)
        cluster_admin.create_topic(single := servers.unique_name("single"), {0: [1]}, {})
        await_hosted(cluster_admin, hosted | {1: hosted[1] + 1})
        mover = KafkaAdminClient(bootstrap_servers=three_brokers.bootstrap_servers.split(","))
        mover.alter_partition_reassignments({KafkaPythonPartition(single, 0): [2]})
        mover.close()
        await_hosted(cluster_admin, hosted | {1: hosted[1] + 1, 2: hosted[2] + 1})
    finally:
        three_brokers.start("broker-2")
