"""Brokers and log directories that are cordoned (KIP-1066): they keep what they have, and nothing more is placed there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka.admin import AdminClient, ResourceType

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.errors import RequestError
from spark_ordered_kafka.local import LocalCluster
from tests.integration.test_cli_topics import Cli
from tests.servers import alter_configs, await_true, unique_name

_CORDONED = "cordoned.log.dirs"


@pytest.fixture(scope="module")
def client(three_brokers: LocalCluster) -> Iterator[ControllerClient]:
    with ControllerClient(three_brokers.controller_url) as connected:
        yield connected


def paths(client: ControllerClient, broker: int) -> list[str]:
    (found,) = client.log_dirs(brokers=[broker]).brokers
    return [one.path for one in found.log_dirs]


@contextmanager
def cordoned(cluster: LocalCluster, client: ControllerClient, broker: int, *log_dirs: str) -> Iterator[None]:
    """Cordon log directories of a broker, by default all, for the time of the block."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})

    def shown() -> set[str]:
        (found,) = client.log_dirs(brokers=[broker]).brokers
        return {one.path for one in found.log_dirs if one.is_cordoned}

    def set_to(value: str | None, expected: set[str]) -> None:
        alter_configs(admin, ResourceType.BROKER, str(broker), {_CORDONED: value})
        await_true(lambda: shown() == expected, f"broker {broker} cordons {expected}")

    try:
        set_to(",".join(log_dirs) or "*", set(log_dirs or paths(client, broker)))
        yield
    finally:
        set_to(None, set())


def brokers_of(client: ControllerClient, topic: str) -> list[list[int]]:
    return [list(row.replicas) for row in client.topic(topic).partitions]


def counted(
    client: ControllerClient, topic: str, count: int, assignments: dict[int, list[int]] | None = None
) -> schemas.TopicResult:
    row = schemas.TopicPartitionCount(topic=topic, partition_count=count, assignments=assignments)
    return client.alter_partition_counts(schemas.PartitionCountsRequest(topics=[row]), wait=60.0).topics[0]


def check_refused(error: str, message: str | None) -> None:
    assert error == "GUARD_RAILS"
    assert str(message).endswith("cordoned (cordoned.log.dirs): 3"), message


def test_nothing_is_placed_on_a_cordoned_broker_unless_it_is_named(
    three_brokers: LocalCluster, client: ControllerClient
) -> None:
    two, three, named = unique_name("two"), unique_name("three"), unique_name("named")
    client.create_topic(schemas.CreateTopicRequest(topic=three, partitions=2, replication_factor=3))
    with cordoned(three_brokers, client, 3):
        assert {one.id: one.cordoned for one in client.brokers().brokers} == {1: False, 2: False, 3: True}
        # Without a factor there are as many replicas as brokers that take them, three at most.
        client.create_topic(schemas.CreateTopicRequest(topic=two, partitions=3))
        assert counted(client, two, 6).error == "NONE"
        assert {tuple(sorted(one)) for one in brokers_of(client, two)} == {(1, 2)}
        with pytest.raises(RequestError) as refused:
            client.create_topic(
                schemas.CreateTopicRequest(topic=unique_name("no"), partitions=1, replication_factor=3)
            )
        check_refused(refused.value.name, refused.value.message)
        grown = counted(client, three, 4)
        check_refused(grown.error, grown.error_message)
        factor = schemas.TopicReplicationFactor(topic=two, replication_factor=3)
        raised = client.alter_replication_factors(schemas.ReplicationFactorsRequest(topics=[factor])).topics[
            0
        ]
        check_refused(raised.error, raised.error_message)
        # As in Kafka, a request may name it.
        client.create_topic(schemas.CreateTopicRequest(topic=named, assignments={0: [3]}))
        assert counted(client, named, 2, {1: [3]}).error == "NONE"
        assert brokers_of(client, named) == [[3], [3]]
    assert counted(client, three, 4).error == "NONE"
    assert {len(one) for one in brokers_of(client, three)} == {3}


def test_plans_leave_a_cordoned_broker_as_it_is_and_empty_it_on_request(
    three_brokers: LocalCluster, client: ControllerClient, topic_name: str
) -> None:
    cli = Cli(three_brokers.controller_url)
    client.create_topic(
        schemas.CreateTopicRequest(
            topic=topic_name, assignments={p: [1, 2] if p % 2 else [2, 1] for p in range(6)}
        )
    )
    with cordoned(three_brokers, client, 3):
        plan = client.plan_reassignment(schemas.ReassignmentPlanRequest(goal="balance", topics=[topic_name]))
        assert plan.partitions == []
        assert plan.warnings == ["cordoned, so they get nothing: brokers 3"]
        code, _, told = cli("reassign", "plan", "--spread-onto", "3", "--topics", topic_name)
        assert (code, "brokers has the value 3, which is cordoned" in told) == (1, True), told
        assert "up, cordoned" in cli("brokers", "list")[1]
        assert "cordoned" in cli("log-dirs", "describe", "--broker-list", "3")[1]
    plan = client.plan_reassignment(schemas.ReassignmentPlanRequest(goal="balance", topics=[topic_name]))
    assert plan.partitions != []

    # What operators do before they take a broker away.
    with cordoned(three_brokers, client, 2):
        code, _, told = cli("reassign", "plan", "--drain", "2", "--topics", topic_name)
        assert code == 0, told
        drain = schemas.ReassignmentPlanRequest(goal="drain", brokers=[2], topics=[topic_name])
        rows = client.plan_reassignment(drain)
        assert rows.warnings == []
        assert {tuple(sorted(one.replicas)) for one in rows.partitions} == {(1, 3)}


def test_no_replica_is_moved_into_a_cordoned_log_directory(
    three_brokers: LocalCluster, client: ControllerClient, topic_name: str
) -> None:
    first, second = paths(client, 1)[:2]
    client.create_topic(schemas.CreateTopicRequest(topic=topic_name, assignments={0: [1], 1: [1]}))

    def where(partition: int) -> str:
        (found,) = client.log_dirs(brokers=[1], topics=[topic_name]).brokers
        (path,) = [
            one.path for one in found.log_dirs if partition in {row.partition for row in one.partitions}
        ]
        return path

    def move(path: str, *, validate_only: bool = False) -> schemas.ReplicaResult:
        row = schemas.ReplicaLogDir(topic=topic_name, partition=0, broker=1, log_dir=path)
        request = schemas.ReplicaLogDirsRequest(replicas=[row], validate_only=validate_only)
        return client.alter_replica_log_dirs(request).replicas[0]

    there = where(0)
    other = second if there == first else first
    with cordoned(three_brokers, client, 1, other):
        refused = move(other)
        assert (refused.error, "it is cordoned" in (refused.error_message or "")) == (
            "INVALID_REPLICA_ASSIGNMENT",
            True,
        )
        row = schemas.PartitionReassignment(topic=topic_name, partition=0, replicas=[1], log_dirs=[other])
        (placed,) = client.reassign(schemas.ReassignmentRequest(partitions=[row])).partitions
        assert placed.error == "INVALID_REPLICA_ASSIGNMENT"
        assert "which is cordoned on broker 1" in (placed.error_message or "")
        goal = schemas.ReassignmentPlanRequest(goal="balance_log_dirs", brokers=[1])
        planned = client.plan_reassignment(goal).partitions
        assert not any(other in one.log_dirs for one in planned)
    with cordoned(three_brokers, client, 1, there):
        # Where it is, it may stay.
        assert move(there, validate_only=True).error == "NONE"
        assert move(other, validate_only=True).error == "NONE"
