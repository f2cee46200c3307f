"""Removed partitions through their whole life: marked, read, drained, deleted, and taken up again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.schemas import DeleteRecordsRequest, PartitionView, TopicView
from spark_ordered_kafka.controller.change import protocol as p
from spark_ordered_kafka.controller.state import topics as znodes
from spark_ordered_kafka.controller.zk.session import ConflictError
from spark_ordered_kafka.errors import RequestError
from spark_ordered_kafka.kafka import groups, logs
from spark_ordered_kafka.local import LocalCluster
from tests.inside import znodes_of
from tests.integration.controllers import InProcess, in_process
from tests.integration.test_cli_topics import Cli
from tests.queries import await_stable
from tests.servers import TIMEOUT, await_true, commit_offsets, create_topic, unique_name
from tests.streams import FORMAT, Collector, NumberedWriter, change, create, misrouted, options


@pytest.fixture(scope="module")
def two_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("two"), brokers=2, controllers=0) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def controller(two_brokers: LocalCluster) -> Iterator[InProcess]:
    with in_process(two_brokers, retire_interval=0.1) as running:
        yield running


def produce(cluster: LocalCluster, topic: str, records: Mapping[int, int]) -> None:
    """Write some records to each partition, without idempotence, so that nobody sees a foreign producer."""
    failures: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    # librdkafka refuses records for a partition that the broker it asks has not heard of yet.
    await_true(
        lambda: records.keys() <= producer.list_topics(topic, TIMEOUT).topics[topic].partitions.keys(),
        f"partitions {list(records)} of {topic}",
    )
    for partition, count in records.items():
        for _ in range(count):
            producer.produce(
                topic,
                b"value",
                b"key",
                partition=partition,
                on_delivery=lambda error, _: failures.append(error) if error is not None else None,
            )
    assert producer.flush(TIMEOUT) == 0
    assert failures == []


def commit(cluster: LocalCluster, group: str, topic: str, offsets: Mapping[int, int]) -> None:
    """Commit offsets as a member of the group would."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": group})
    commit_offsets(consumer, [TopicPartition(topic, p, o) for p, o in offsets.items()])
    consumer.close()


def delete_records(controller: InProcess, topic: str, **fields: Any) -> tuple[int, dict[str, Any]]:
    answer = controller.http.post(f"/v1/topics/{topic}/delete-records", json=fields)
    return answer.status_code, answer.json()


def await_view(
    view: Callable[[], TopicView], reached: Callable[[list[PartitionView]], bool], what: str
) -> TopicView:
    deadline = time.monotonic() + TIMEOUT
    while not reached((found := view()).partitions):
        assert time.monotonic() < deadline, f"{what}: {found.partitions}"
        time.sleep(0.05)
    return found


def await_statuses(controller: InProcess, topic: str, statuses: list[str]) -> None:
    await_view(
        lambda: controller.topic(topic), lambda rows: [row.status for row in rows] == statuses, str(statuses)
    )


def shrunk(controller: InProcess, cluster: LocalCluster, records: Mapping[int, int], **fields: Any) -> str:
    """A topic of one partition that had as many as the records need, with them in it."""
    topic = controller.create(1, **fields)
    count = max(records) + 1
    assert controller.alter(topic, count).error == "NONE"
    produce(cluster, topic, records)
    assert controller.alter(topic, 1).error == "NONE"
    return topic


def test_groups_that_have_not_read_the_tail_keep_it(controller: InProcess, two_brokers: LocalCluster) -> None:
    topic = shrunk(controller, two_brokers, {0: 2, 1: 3, 2: 5, 3: 4}, replication_factor=2)
    other = shrunk(controller, two_brokers, {1: 1})
    slow, done, stranger = (unique_name(name) for name in ("slow", "done", "stranger"))
    commit(two_brokers, slow, topic, {0: 2, 1: 3, 2: 1})
    commit(two_brokers, done, topic, {1: 3, 2: 5, 3: 4})
    commit(two_brokers, stranger, other, {0: 0})
    # Both brokers lead some, so that both are asked.
    view = controller.topic(topic, details=True)
    assert {row.leader for row in view.partitions} == {1, 2}
    assert [(row.status, row.log_start, row.log_end) for row in view.partitions] == [
        ("live", 0, 2),
        ("marked", 0, 3),
        ("marked", 0, 5),
        ("marked", 0, 4),
    ]
    assert all(row.size is not None and row.size > 0 for row in view.partitions)
    waiting = [[(g.group, g.offset) for g in row.waiting_groups or []] for row in view.partitions]
    assert waiting == [[], [], [(slow, 1)], [(slow, None)]]
    assert view.partitions[0].waiting_groups is None

    status, answer = delete_records(controller, topic)
    assert status == 200
    assert [(row["partition"], row["error"], row["log_start"]) for row in answer["partitions"]] == [
        (p, "INVALID_REQUEST", 0) for p in (1, 2, 3)
    ]
    assert "nothing was deleted" in answer["partitions"][0]["error_message"]
    assert slow in answer["partitions"][1]["error_message"]
    assert answer["partitions"][2]["waiting_groups"] == [{"group": slow, "offset": None}]
    assert [row.log_start for row in controller.topic(topic, details=True).partitions] == [0, 0, 0, 0]

    # One that nobody waits for may go; a check alone deletes nothing.
    for validate_only in (True, False):
        status, answer = delete_records(controller, topic, partitions=[1], validate_only=validate_only)
        assert (answer["partitions"][0]["error"], answer["partitions"][0]["log_start"]) == (
            "NONE",
            0 if validate_only else 3,
        )
    assert [row.status for row in controller.topic(topic).partitions] == [
        "live",
        "deleted",
        "marked",
        "marked",
    ]
    status, answer = delete_records(controller, topic, force=True)
    assert [row["log_start"] for row in answer["partitions"]] == [3, 5, 4]
    view = controller.topic(topic, details=True)
    assert [row.status for row in view.partitions] == ["live", "deleted", "deleted", "deleted"]
    assert [(row.log_start, row.log_end) for row in view.partitions] == [(0, 2), (3, 3), (5, 5), (4, 4)]
    assert [row.waiting_groups for row in view.partitions] == [None, [], [], []]
    # Nothing is left to do, and nothing is refused.
    assert [row["error"] for row in delete_records(controller, topic)[1]["partitions"]] == ["NONE"] * 3


@pytest.mark.long
def test_status_follows_the_log_and_one_topic_does_not_keep_others_waiting(
    controller: InProcess, two_brokers: LocalCluster
) -> None:
    broken = shrunk(controller, two_brokers, {1: 1}, prefix="a-first")
    topic = shrunk(controller, two_brokers, {1: 2, 2: 3}, prefix="b-second")
    admin = AdminClient({"bootstrap.servers": two_brokers.bootstrap_servers})
    admin.delete_topics([broken], operation_timeout=TIMEOUT)[broken].result(TIMEOUT)
    create_topic(two_brokers.bootstrap_servers, broken, 2)
    # As retention would.
    for future in admin.delete_records([TopicPartition(topic, 1, 2)]).values():
        future.result(TIMEOUT)
    await_statuses(controller, topic, ["live", "deleted", "marked"])
    produce(two_brokers, topic, {1: 1})
    await_statuses(controller, topic, ["live", "marked", "marked"])
    for future in admin.delete_records([TopicPartition(topic, number, 3) for number in (1, 2)]).values():
        future.result(TIMEOUT)
    await_statuses(controller, topic, ["live", "deleted", "deleted"])
    assert controller.alter(topic, 3).error == "NONE"
    assert [row.status for row in controller.topic(topic).partitions] == ["live"] * 3


@pytest.mark.long
def test_status_is_not_written_to_a_topic_that_was_changed_meanwhile(
    controller: InProcess, two_brokers: LocalCluster
) -> None:
    topic = shrunk(controller, two_brokers, {1: 1, 2: 1})
    nodes = znodes_of(controller.service)
    _, version = nodes.read_topic(topic)
    assert controller.alter(topic, 2).error == "NONE"
    before = nodes.partition_statuses(topic)
    assert before == {2: "marked"}
    with pytest.raises(ConflictError):
        nodes.set_partition_statuses(topic, version, {1: "deleted", 2: "deleted"}, before.keys(), 1.0)
    assert nodes.partition_statuses(topic) == before


@pytest.mark.long
def test_wrong_deletions_are_refused(controller: InProcess, two_brokers: LocalCluster) -> None:
    topic = shrunk(controller, two_brokers, {1: 2, 2: 1})
    wrong: list[tuple[dict[str, Any], int, str, str]] = [
        ({"partitions": [0, 1]}, 400, "INVALID_REQUEST", "partitions names 0, which topic"),
        ({"partitions": [1, 7]}, 404, "UNKNOWN_TOPIC_OR_PARTITION", "partitions names 7: topic"),
        ({"partitions": [-1]}, 404, "UNKNOWN_TOPIC_OR_PARTITION", "partitions names -1"),
        ({"partitions": []}, 400, "INVALID_REQUEST", "partitions is empty"),
        ({"partitions": ["1"]}, 400, "INVALID_REQUEST", "partitions.0 has the value '1'"),
    ]
    for fields, status, error, words in wrong:
        given, answer = delete_records(controller, topic, force=True, **fields)
        assert (given, answer["error"]) == (status, error)
        assert words in answer["error_message"]
    assert delete_records(controller, "no-such-topic")[0] == 404
    assert delete_records(controller, controller.create(2))[1]["partitions"] == []
    compacted = shrunk(controller, two_brokers, {1: 2}, configs={"cleanup.policy": "compact"})
    given, answer = delete_records(controller, compacted, force=True)
    assert (given, answer["error"]) == (400, "POLICY_VIOLATION")
    assert "last value of keys that were never written again" in answer["error_message"]
    both = shrunk(controller, two_brokers, {1: 2}, configs={"cleanup.policy": "compact,delete"})
    assert delete_records(controller, both)[1]["partitions"][0]["log_start"] == 2


def test_deleted_partition_gives_replicas_away_and_gets_them_back(two_brokers: LocalCluster) -> None:
    with in_process(two_brokers, retire_interval=0.1, retire_replication_factor=1) as controller:
        topic = controller.create(1, replication_factor=2)
        assert controller.alter(topic, 4).error == "NONE"
        produce(two_brokers, topic, {0: 1, 2: 3})
        before = [row.replicas for row in controller.topic(topic).partitions]
        assert controller.alter(topic, 1).error == "NONE"

        def fewer(rows: list[PartitionView]) -> bool:
            return [len(row.replicas) for row in rows] == [2, 1, 2, 1]

        view = await_view(lambda: controller.topic(topic), fewer, "replicas")
        assert [row.status for row in view.partitions] == ["live", "deleted", "marked", "deleted"]
        assert all(row.leader in row.replicas for row in view.partitions)
        closing: list[list[PartitionView]] = []

        def look(instruction: p.Instruction) -> None:
            if isinstance(instruction, p.ListTransactions) and not closing:
                closing.append(controller.topic(topic).partitions)

        controller.before = look
        assert controller.alter(topic, 3).error == "NONE"
        for rows in (closing[0], controller.topic(topic).partitions):
            assert [row.replicas for row in rows][:3] == before[:3]
            # Before writers are held, let alone write there.
            assert [sorted(row.isr) for row in rows][:3] == [[1, 2]] * 3
            assert [len(row.replicas) for row in rows] == [2, 2, 2, 1]
        # Revived ones keep what they got back.
        produce(two_brokers, topic, {1: 1})
        assert controller.alter(topic, 5).error == "NONE"
        assert [len(row.replicas) for row in controller.topic(topic).partitions] == [2] * 5


@pytest.mark.long
def test_what_does_not_fit_one_request_or_transaction_is_split(
    controller: InProcess, two_brokers: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name in [
        (logs, "_CHUNK"),
        (groups, "_GROUPS_CHUNK"),
        (znodes, "_OPERATIONS_PER_TRANSACTION"),
    ]:
        monkeypatch.setattr(module, name, 2)
    topic = shrunk(controller, two_brokers, {1: 1, 7: 2})
    await_statuses(controller, topic, ["live", "marked", *["deleted"] * 5, "marked"])
    for name in ("a", "b", "c"):
        commit(two_brokers, unique_name(name), topic, {1: 0, 7: 2})
    view = controller.topic(topic, details=True)
    assert [len(row.waiting_groups or []) for row in view.partitions] == [0, 3, 0, 0, 0, 0, 0, 0]
    assert [row.size is not None for row in view.partitions] == [True] * 8
    answer = delete_records(controller, topic, force=True)[1]["partitions"]
    assert [(row["partition"], row["error"]) for row in answer] == [(p, "NONE") for p in range(1, 8)]
    assert [row.status for row in controller.topic(topic).partitions] == ["live", *["deleted"] * 7]


@pytest.fixture(scope="module")
def cli(cluster: LocalCluster) -> Cli:
    return Cli(cluster.controller_url)


@pytest.mark.long
def test_command_line_shows_who_waits_and_drains(cli: Cli, cluster: LocalCluster) -> None:
    """The tail ends in a transaction's marker, which no consumer reads, and writers' ledgers are groups, too."""
    topic = create(cluster, unique_name("drain"), 1)
    change(cluster, topic, 2)
    NumberedWriter(cluster, topic).write(2)
    change(cluster, topic, 1)
    group = unique_name("reader")
    commit(cluster, group, topic, {0: 1})
    code, out, _ = cli("topics", "describe", "--topic", topic)
    assert code == 0
    header, live, marked = _table(out)
    assert header == ["PARTITION", "STATUS", "LEADER", "REPLICAS", "ISR", "OFFSETS", "SIZE", "WAITS", "FOR"]
    assert (live[:2], live[-1]) == (["0", "live"], "-")
    assert (marked[:2], marked[-4:]) == (["1", "marked"], ["group", group, "(lag", f"{marked[5]})"])

    code, _, told = cli("topics", "delete-records", "--topic", topic, "--yes")
    assert (code, told.startswith("error: INVALID_REQUEST: partition 1 of topic ")) == (1, True)
    assert group in told
    _read_all(cluster, group, topic, 1)
    with ControllerClient(cluster.controller_url) as client:
        row = client.topic(topic, details=True).partitions[1]
        assert (row.status, row.waiting_groups) == ("marked", [])
    assert "retention or topics delete-records" in cli("topics", "describe", "--topic", topic)[1]
    arguments = ("topics", "delete-records", "--topic", topic, "--partition", "1")
    end = row.log_end
    assert cli(*arguments, "--validate-only")[1].startswith(f"topic {topic} partition 1: could be emptied")
    # Nobody answers the question.
    assert cli(*arguments)[0] == 1
    with ControllerClient(cluster.controller_url) as client:
        assert client.topic(topic, details=True).partitions[1].log_start == row.log_start
    assert cli(*arguments, "--yes")[:2] == (0, f"topic {topic} partition 1: emptied, log start {end}\n")
    assert _table(cli("topics", "describe", "--topic", topic)[1])[2][1] == "deleted"
    assert cli("topics", "delete-records", "--topic", topic, "--partition", "0", "--yes")[0] == 1


def _table(out: str) -> list[list[str]]:
    """The words of the partitions' table, header first."""
    lines = out.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("PARTITION"))
    return [line.split() for line in lines[start:]]


def _read_all(cluster: LocalCluster, group: str, topic: str, partition: int) -> None:
    """Read a partition as an application does, and commit what was read."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0)])
    last = None
    while (message := consumer.poll(TIMEOUT)) is not None and message.error() is None:
        last = message
    assert message is not None
    assert last is not None
    (committed,) = consumer.commit(message=last, asynchronous=False) or []
    # What this test is about: the log goes on behind what can be read.
    assert committed.offset < consumer.get_watermark_offsets(TopicPartition(topic, partition))[1]
    consumer.close()


@pytest.mark.long
def test_expansion_takes_up_a_partition_that_still_holds_records(
    cluster: LocalCluster, spark: SparkSession
) -> None:
    topic = create(cluster, unique_name("again"), 1)
    writer = NumberedWriter(cluster, topic)
    writer.write()
    for count in (3, 1, 3):
        change(cluster, topic, count)
        writer.write()
    await_stable(cluster, topic)
    with ControllerClient(cluster.controller_url) as client:
        view = client.topic(topic, details=True)
        starts = client.layout(topic).layouts[-1].starts
        assert [row.status for row in view.partitions] == ["live"] * 3
        assert [row.log_start for row in view.partitions] == [0, 0, 0]
        assert all(start > 0 for start in starts)
        # What was written before the shrink is never deleted while the partition is live again.
        refused = DeleteRecordsRequest(partitions=[2], force=True)
        with pytest.raises(RequestError, match="still writes"):
            client.delete_records(topic, refused)
    found = Collector()
    found.add(spark.read.format(FORMAT).options(**options(cluster, subscribe=topic)).load())
    assert found.report(writer.written).violations == 0, found.report(writer.written)
    assert misrouted(cluster, topic) == []
