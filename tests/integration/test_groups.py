"""How far consumer groups have read: the API, its client and ``ordered-kafka groups``."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient

from benchmarks.kafka_tools import kafka_tool
from spark_ordered_kafka.client.consumer import OrderedConsumer
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.group_admin import GroupAdmin
from spark_ordered_kafka.client.schemas import AlterTopicRequest, PartitionPosition
from spark_ordered_kafka.errors import ConfigError, ErrorCode, RequestError
from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.ordering.handover import Release
from tests.integration.test_cli_topics import Cli
from tests.integration.test_lifecycle import commit, produce
from tests.queries import Query, await_stable, everything
from tests.servers import TIMEOUT, commit_offsets, create_topic, unique_name
from tests.streams import NumberedWriter, change, create, options


@pytest.fixture(scope="module")
def client(cluster: LocalCluster) -> Iterator[ControllerClient]:
    with ControllerClient(cluster.controller_url) as connected:
        yield connected


@pytest.fixture(scope="module")
def cli(cluster: LocalCluster) -> Cli:
    return Cli(cluster.controller_url)


@contextmanager
def member(cluster: LocalCluster, group: str, topic: str, partitions: int, **more: str) -> Iterator[Consumer]:
    """A plain consumer that is assigned all partitions of the topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group,
            "client.id": "a-client",
            "enable.auto.commit": False,
            "topic.metadata.refresh.interval.ms": 200,
        }
        | more
    )
    try:
        consumer.subscribe([topic])
        deadline = time.monotonic() + TIMEOUT
        while len(consumer.assignment()) < partitions:
            consumer.poll(0.05)
            assert time.monotonic() < deadline, f"{group} was not assigned {partitions} partitions"
        yield consumer
    finally:
        consumer.close()


def commit_as(consumer: Consumer, topic: str, offsets: Mapping[int, int]) -> None:
    commit_offsets(consumer, [TopicPartition(topic, p, o) for p, o in offsets.items()])


def rows_of(client: ControllerClient, group: str, topic: str) -> list[PartitionPosition]:
    (found,) = client.group_positions(group, topic).topics
    assert found.topic == topic
    return found.partitions


def numbers(rows: Sequence[PartitionPosition]) -> list[tuple[int | None, int | None, int | None]]:
    return [(row.position, row.log_end, row.lag) for row in rows]


def waits(rows: Sequence[PartitionPosition]) -> dict[int, list[tuple[int, int]]]:
    return {
        row.partition: [(one.partition, one.offset) for one in row.waits_for] for row in rows if row.waits_for
    }


def test_partition_of_a_grown_topic_waits_until_its_parent_is_read(
    cluster: LocalCluster, client: ControllerClient
) -> None:
    topic, group = create(cluster, unique_name("grown"), 2), unique_name("plain")
    produce(cluster, topic, {0: 10, 1: 5})
    change(cluster, topic, 3)
    produce(cluster, topic, {0: 4, 2: 3})
    with member(cluster, group, topic, 3) as consumer:
        commit_as(consumer, topic, {0: 6, 1: 5})
        answer = client.group_positions(group)
        (found,) = answer.topics
        assert (answer.group, answer.state) == (group, "Stable")
        assert (found.topic, found.layout_epoch, found.ordered_delivery) == (topic, 1, True)
        assert numbers(found.partitions) == [(6, 14, 8), (5, 5, 0), (None, 3, 3)]
        assert waits(found.partitions) == {2: [(0, 10)]}
        assert [row.status for row in found.partitions] == ["live"] * 3
        for row in found.partitions:
            assert row.member is not None
            assert row.member.consumer_id.startswith("a-client-")
            assert (row.member.client_id, row.member.host) == ("a-client", "/127.0.0.1")
        assert client.group_positions(group, topic) == answer

        commit_as(consumer, topic, {0: 10})
        assert waits(rows_of(client, group, topic)) == {}
        commit_as(consumer, topic, {0: 14, 2: 1})
        assert numbers(rows_of(client, group, topic)) == [(14, 14, 0), (5, 5, 0), (1, 3, 2)]

    change(cluster, topic, 2)
    answer = client.group_positions(group)
    (found,) = answer.topics
    assert (answer.state, [row.member for row in found.partitions]) == ("Empty", [None] * 3)
    assert [row.status for row in found.partitions] == ["live", "live", "marked"]
    assert waits(found.partitions) == {0: [(2, 3)]}
    commit(cluster, group, topic, {2: 3})
    assert waits(rows_of(client, group, topic)) == {}


def test_what_retention_removed_counts_as_read(
    cluster: LocalCluster, client: ControllerClient, cli: Cli
) -> None:
    topic, group = create(cluster, unique_name("removed"), 1), unique_name("plain")
    change(cluster, topic, 2)
    produce(cluster, topic, {0: 4, 1: 6})
    change(cluster, topic, 1)
    commit(cluster, group, topic, {0: 4, 1: 2})
    assert waits(rows_of(client, group, topic)) == {0: [(1, 6)]}
    assert cli("topics", "delete-records", "--topic", topic, "--force", "--yes")[0] == 0
    rows = rows_of(client, group, topic)
    assert numbers(rows) == [(4, 4, 0), (2, 6, 0)]
    assert ([row.status for row in rows], waits(rows)) == (["live", "deleted"], {})


def test_offsets_of_a_deleted_topic_of_the_same_name_do_not_count(
    cluster: LocalCluster, client: ControllerClient, cli: Cli
) -> None:
    """A member that has not heard of the deletion commits them after the new topic was made (D-431)."""
    topic, group = create(cluster, unique_name("again"), 1), unique_name("ordered")
    deleted = client.topic(topic).topic_id
    client.delete_topic(topic)
    create(cluster, topic, 1)
    change(cluster, topic, 2)
    produce(cluster, topic, {0: 4, 1: 6})
    change(cluster, topic, 1)
    late = [TopicPartition(topic, p, 9, Release(9, 0, topic_id=deleted).metadata()) for p in range(2)]
    with member(cluster, group, topic, 2) as consumer:
        commit_offsets(consumer, late)
        assert numbers(rows_of(client, group, topic)) == [(None, 4, 4), (None, 6, 6)]
        code, _, error = cli("topics", "delete-records", "--topic", topic, "--yes")
        assert (code, group in error) == (1, True), error
        commit_offsets(
            consumer,
            [TopicPartition(topic, 1, 6, Release(6, 1, topic_id=client.topic(topic).topic_id).metadata())],
        )
        assert numbers(rows_of(client, group, topic)) == [(None, 4, 4), (6, 6, 0)]
    assert cli("topics", "delete-records", "--topic", topic, "--yes")[0] == 0


def test_query_with_a_group(cluster: LocalCluster, client: ControllerClient) -> None:
    """Of a streaming query's transactions, the markers count as read."""
    topic, group = create(cluster, unique_name("query"), 1), unique_name("query")
    writer = NumberedWriter(cluster, topic)
    writer.write()
    await_stable(cluster, topic)
    with Query({**everything(cluster, topic), "kafka.group.id": group}) as query:

        def read() -> list[PartitionPosition]:
            query.all_rows()
            query.reader.commit(json.loads(query.checkpoint))
            return rows_of(client, group, topic)

        (row,) = read()
        assert numbers([row]) == [(writer.written + 1, writer.written + 1, 0)]
        writer.write()
        change(cluster, topic, 2)
        boundary = client.layout(topic).layouts[1].starts[0]
        parent, child = rows_of(client, group, topic)
        assert (parent.position, child.position, child.member) == (row.position, None, None)
        assert waits([parent, child]) == {1: [(0, boundary)]}
        rows = read()
        assert (rows[0].position, waits(rows)) == (boundary, {})


def test_ordered_consumer(cluster: LocalCluster, client: ControllerClient) -> None:
    """What its group is said to wait for is what it does wait for."""
    topic, group = create(cluster, unique_name("ordered"), 1), unique_name("ordered")
    writer = NumberedWriter(cluster, topic)
    writer.write()
    change(cluster, topic, 2)
    boundary = client.layout(topic).layouts[1].starts[0]
    before = writer.written
    writer.write()
    conf = options(cluster) | {
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": "false",
    }
    conf["bootstrap.servers"] = conf.pop("kafka.bootstrap.servers")
    with OrderedConsumer(conf) as consumer:
        consumer.subscribe([topic])
        assert {message.partition() for message in consumer.consume(before, TIMEOUT)} == {0}
        rows = rows_of(client, group, topic)
        assert waits(rows) == {1: [(0, boundary)]}
        assert [row.member is not None for row in rows] == [True, True]
        deadline = time.monotonic() + TIMEOUT
        # The markers behind the last records, too, are found by polling.
        while waits(rows) or [row.lag for row in rows] != [0, 0]:
            consumer.consume(20, 0.1)
            consumer.commit()
            assert time.monotonic() < deadline, numbers(rows)
            rows = rows_of(client, group, topic)


@pytest.mark.parametrize(
    ("epoch", "waited"), [(0, {1: [(0, 3)]}), pytest.param(1, {}, marks=pytest.mark.long)]
)
def test_ordered_consumers_hand_over_before_others_go_on(
    cluster: LocalCluster,
    client: ControllerClient,
    cli: Cli,
    epoch: int,
    waited: dict[int, list[tuple[int, int]]],
) -> None:
    """A member that stands at the boundary may still hold the keys' state: its metadata tells."""
    topic, group = create(cluster, unique_name("handed"), 1), unique_name("ordered")
    produce(cluster, topic, {0: 3})
    change(cluster, topic, 2)
    produce(cluster, topic, {1: 2})
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": group})
    metadata = Release(3, epoch).metadata()
    commit_offsets(consumer, [TopicPartition(topic, 0, 3, metadata)])
    consumer.close()
    rows = rows_of(client, group, topic)
    assert (rows[0].position, waits(rows)) == (3, waited)
    last = cli("groups", "describe", "--group", group)[1].splitlines()[-1].rstrip()
    assert last.endswith("partition 0 to hand over at 3" if waited else " -")


def test_open_transactions_are_not_behind_and_unordered_topics_do_not_wait(
    cluster: LocalCluster, client: ControllerClient
) -> None:
    topic, group = create(cluster, unique_name("open"), 1), unique_name("g")
    produce(cluster, topic, {0: 3})
    change(cluster, topic, 2)
    commit(cluster, group, topic, {0: 2})
    assert waits(rows_of(client, group, topic)) == {1: [(0, 3)]}
    client.alter_topic(topic, AlterTopicRequest(ordered_delivery=False), wait=TIMEOUT)
    (found,) = client.group_positions(group).topics
    assert (found.ordered_delivery, waits(found.partitions)) == (False, {})
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(TIMEOUT)
    producer.begin_transaction()
    producer.produce(topic, b"value", partition=0)
    assert producer.flush(TIMEOUT) == 0
    # What a read_committed consumer cannot read yet is no lag.
    assert numbers(rows_of(client, group, topic))[0] == (2, 3, 1)
    producer.abort_transaction(TIMEOUT)


def test_a_topic_made_again_elsewhere_is_left_out(cluster: LocalCluster, client: ControllerClient) -> None:
    topic, other, group = (
        create(cluster, unique_name("a"), 1),
        create(cluster, unique_name("b"), 1),
        unique_name("g"),
    )
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.delete_topics([topic], operation_timeout=TIMEOUT)[topic].result(TIMEOUT)
    create_topic(cluster.bootstrap_servers, topic, 1)
    commit(cluster, group, topic, {0: 0})
    commit(cluster, group, other, {0: 0})
    assert [found.topic for found in client.group_positions(group).topics] == [other]
    with pytest.raises(RequestError, match="was deleted and created again"):
        client.group_positions(group, topic)


def test_members_of_the_consumer_protocol_are_known(cluster: LocalCluster, client: ControllerClient) -> None:
    """KIP-848."""
    topic, group = create(cluster, unique_name("new"), 1), unique_name("kip-848")
    with member(cluster, group, topic, 1, **{"group.protocol": "consumer"}) as consumer:
        commit_as(consumer, topic, {0: 0})
        answer = client.group_positions(group)
        (row,) = answer.topics[0].partitions
        assert answer.state == "Stable"
        assert row.member is not None
        assert (row.member.client_id, row.member.host) == ("a-client", "/127.0.0.1")


@pytest.mark.parametrize("name", ["a/b:c d", "..", "x/positions", "[bold]ü%2F?&#"])
def test_names_of_groups_may_hold_anything(
    cluster: LocalCluster, client: ControllerClient, cli: Cli, name: str
) -> None:
    topic = create(cluster, unique_name("named"), 1)
    commit(cluster, name, topic, {0: 0})
    assert client.group_positions(name, topic).group == name
    code, out, error = cli("groups", "describe", "--group", name, "--topic", topic)
    assert code == 0, error
    assert out.splitlines()[1].startswith(f"{name} ")


def test_groups_and_topics_that_are_not_there(
    cluster: LocalCluster, client: ControllerClient, cli: Cli, topic_name: str
) -> None:
    topic, other, group = (
        create(cluster, topic_name, 1),
        create(cluster, unique_name("x"), 2),
        unique_name("g"),
    )
    with pytest.raises(RequestError, match="does not exist") as refused:
        client.group_positions("nobody")
    assert refused.value.code == ErrorCode.GROUP_ID_NOT_FOUND
    commit(cluster, group, topic, {0: 0})
    with pytest.raises(RequestError, match="'no-such-topic' does not exist") as refused:
        client.group_positions(group, "no-such-topic")
    assert refused.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    with pytest.raises(RequestError, match="group has the value ''"):
        client.group_positions("")
    with pytest.raises(ConfigError, match="must be text"):
        client.group_positions("\ud800")
    # Asked for, a topic is shown though nothing is read of it.
    assert numbers(rows_of(client, group, other)) == [(None, 0, 0)] * 2
    assert cli("groups", "describe", "--group", "nobody")[::2] == (
        1,
        "error: GROUP_ID_NOT_FOUND: consumer group 'nobody' does not exist\n",
    )


def test_share_groups_are_no_consumer_groups(
    cluster: LocalCluster, client: ControllerClient, topic_name: str
) -> None:
    topic, group, reading = create(cluster, topic_name, 1), unique_name("share"), unique_name("g")
    commit(cluster, reading, topic, {0: 0})
    asked = ("--bootstrap-server", cluster.bootstrap_servers, "--topic", topic, "--group", group)
    read = kafka_tool("kafka-console-share-consumer", *asked, "--timeout-ms", "3000")
    assert "Processed a total of 0 messages" in read.stderr, read.stderr
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as theirs:
        assert group in {one["group_id"] for one in theirs.list_groups(types_filter=["share"])}
    for listed in (
        client.groups().groups,
        GroupAdmin({"bootstrap.servers": cluster.bootstrap_servers}).groups(),
    ):
        names = {one.group for one in listed}
        assert (group in names, reading in names) == (False, True)
    with pytest.raises(RequestError, match=f"consumer group '{group}' does not exist") as refused:
        client.group_positions(group)
    assert refused.value.code == ErrorCode.GROUP_ID_NOT_FOUND


def test_only_topics_under_management_and_only_positions(
    cluster: LocalCluster, client: ControllerClient, cli: Cli, topic_name: str
) -> None:
    unmanaged, group = (
        create_topic(cluster.bootstrap_servers, unique_name("unmanaged")),
        unique_name("stranger"),
    )
    commit(cluster, group, unmanaged, {0: 0})
    assert client.group_positions(group).topics == []
    with pytest.raises(RequestError, match="is not under management"):
        client.group_positions(group, unmanaged)
    told = f"group {group} has committed nothing in topics under management\n"
    assert cli("groups", "describe", "--group", group)[:2] == (0, told)
    # A writer's ledger counts transactions.
    topic = create(cluster, topic_name, 1)
    writer = NumberedWriter(cluster, topic)
    writer.write()
    ledger = f"ordered:{topic}:{writer.name}:0"
    assert client.group_positions(ledger).topics == []
    with pytest.raises(RequestError, match="is the ledger of a writer"):
        client.group_positions(ledger, topic)


def test_command_line(cluster: LocalCluster, cli: Cli) -> None:
    topic, group = create(cluster, unique_name("shown"), 1), unique_name("g")
    produce(cluster, topic, {0: 3})
    change(cluster, topic, 2)
    produce(cluster, topic, {1: 2})
    commit(cluster, group, topic, {0: 1})
    code, out, error = cli("groups", "describe", "--group", group)
    assert code == 0, error
    header, first, second = (line.split() for line in out.splitlines())
    assert header == [
        *("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"),
        *("CONSUMER-ID", "HOST", "CLIENT-ID", "STATUS", "WAITS", "FOR"),
    ]
    assert first == [group, topic, "0", "1", "3", "2", "-", "-", "-", "live", "-"]
    assert second == [
        *(group, topic, "1", "-", "2", "2", "-", "-", "-", "live"),
        *("partition", "0", "to", "reach", "3"),
    ]
    code, out, _ = cli("groups", "describe", "--group", group, "--topic", topic, "--output", "json")
    answer = json.loads(out)
    assert (code, answer["group"]) == (0, group)
    assert answer["topics"][0]["partitions"][1]["waits_for"] == [{"partition": 0, "offset": 3}]
    assert cli("groups", "describe")[0] == 2
