"""Fencing through the coordinators of several brokers, one of which dies, and ids that may not be seen."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from kafka import KafkaAdminClient
from kafka import TopicPartition as KafkaPythonPartition
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)

from spark_ordered_kafka.errors import RequestError, UnavailableError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.fence import TRANSACTION_STATE_TOPIC, Fencer, coordinator_partition
from spark_ordered_kafka.kafka.values import PartitionDescription
from spark_ordered_kafka.local import LocalCluster
from tests import servers
from tests.integration.fencing import Writers, soon, unheard
from tests.servers import await_true, hosted_replicas, transaction_states


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

    def until_refused(call: Callable[[], object]) -> None:
        # Brokers apply an ACL a moment after it was accepted, one after another.
        deadline = soon()
        while time.monotonic() < deadline:
            call()

    with KafkaAdminClient(bootstrap_servers=three_brokers.bootstrap_servers.split(",")) as client:
        assert client.create_acls([denied])["failed"] == []
        try:
            with pytest.raises(RequestError, match=f"^TRANSACTIONAL_ID_AUTHORIZATION_FAILED: .*{prefix}"):
                until_refused(lambda: transaction_states(fencer, prefix, soon()))
            with pytest.raises(RequestError, match=f"^TRANSACTIONAL_ID_AUTHORIZATION_FAILED: .*{prefix}0"):
                until_refused(lambda: fencer.fence([f"{prefix}0"], soon(), unheard))
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
        # The dead broker still counts as alive for some seconds: no listing is complete without it.
        early: object = None
        try:
            early = transaction_states(fencer, f"ordered:{topic}:", soon(0.5))
        except UnavailableError as error:
            early = str(error).partition(" beginning")[0]
        assert early in ("list all transactions", dict.fromkeys(writers.ids, "Ongoing"))
        found = transaction_states(fencer, f"ordered:{topic}:", soon())
        assert found == dict.fromkeys(writers.ids, "Ongoing")
        fencer.fence(found, soon(), unheard)
        assert writers.is_quiet()
        assert writers.committed() == []

        ends = cluster_admin.log_ends(topic, range(3))
        newest = [(partition, ends[partition].leader_epoch) for partition in range(3)]
        described: list[PartitionDescription] = []

        def is_shown() -> bool:
            """Whether the broker that is asked has heard of the leaders that have answered."""
            described[:] = cluster_admin.describe_topics([topic])[topic].partitions
            return [(row.partition, row.leader_epoch) for row in described] == newest

        await_true(is_shown, f"leader epochs {newest}")
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
