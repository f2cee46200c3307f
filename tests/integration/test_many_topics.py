"""Many topics of one client: files of a producer, instances that rest, and questions for the layouts that a consumer reads in."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from typing import Any

import pytest
from confluent_kafka.admin import NewTopic

from spark_ordered_kafka import OrderedProducer
from spark_ordered_kafka.client import instances
from spark_ordered_kafka.client.assignment import Assignment
from spark_ordered_kafka.client.delivery import Delivery
from spark_ordered_kafka.client.topic_layouts import TopicSnapshot
from spark_ordered_kafka.client.topics import TopicDirectory
from spark_ordered_kafka.client.transport import Transport
from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.errors import DataLossError, OrderedKafkaError, RequestError
from spark_ordered_kafka.kafka.ranges import LogRanges
from spark_ordered_kafka.kafka.values import PartitionId
from spark_ordered_kafka.local import LocalCluster
from tests.integration.driven import admin_of, delete_topic
from tests.integration.members import Room, in_order, read_until
from tests.integration.producing import instances_in_memory, values
from tests.queries import Query, await_stable, everything
from tests.servers import TIMEOUT, await_true
from tests.streams import NumberedWriter, change, conf, create

TOPICS, FILES = 20, 100
MANY = 16
# A service whose exit handler waits for what its reading thread still gets.
READER = """
import atexit, json, sys, threading
from spark_ordered_kafka import OrderedConsumer, OrderedProducer
conf, topics = map(json.loads, sys.argv[1:])
producer = OrderedProducer(conf)
consumer = OrderedConsumer(conf | {"group.id": topics[0], "auto.offset.reset": "earliest"})
consumer.subscribe(topics)
came = threading.Semaphore(0)

def read():
    while True:
        for message in consumer.consume(100, 0.1):
            came.release()

def write_and_await():
    for topic in topics:
        producer.produce(topic, "x", "k")
    producer.flush()
    return all(came.acquire(timeout=30) for _ in topics)

atexit.register(lambda: print("at exit", write_and_await()))
threading.Thread(target=read, daemon=True).start()
print("before", write_and_await())
"""
# Without the places each topic's instance has eight files, and this many topics more than twice as many as there may be.
WRITER = f"""
import json, resource, sys
from spark_ordered_kafka import OrderedProducer
resource.setrlimit(resource.RLIMIT_NOFILE, ({FILES}, {FILES}))
conf, topics = map(json.loads, sys.argv[1:])
with OrderedProducer(conf | {{"message.timeout.ms": 60_000}}) as producer:
    for number in range(3):
        for topic in topics:
            producer.produce(topic, str(number), "k")
        producer.flush()
print("all committed")
"""

# Of the thread-local keys of a process each client of confluent-kafka takes one.
CROWDED = """
import ctypes, json, sys
from spark_ordered_kafka import OrderedProducer
conf, topics = map(json.loads, sys.argv[1:])
libc, keys = ctypes.CDLL(None), []
with OrderedProducer(conf) as producer:
    producer.produce(topics[0], "x", "k")
    producer.flush()
    while libc.pthread_key_create(ctypes.byref(key := ctypes.c_uint()), None) == 0:
        keys.append(key)
    producer.produce(topics[1], "x", "k")
    print(producer.flush(1.0), "left")
    for key in keys:
        libc.pthread_key_delete(key)
print("all committed")
"""


def output_of(program: str, cluster: LocalCluster, topics: list[str]) -> tuple[str, str]:
    """What a process of its own prints, to stdout and to stderr."""
    arguments = [json.dumps(conf(cluster)), json.dumps(topics)]
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=4 * TIMEOUT,
        check=False,
    )
    return done.stdout, done.stderr


@pytest.mark.long
def test_more_topics_than_files(cluster: LocalCluster, topic_name: str) -> None:
    topics = [create(cluster, f"{topic_name}-{number}", 1) for number in range(TOPICS)]
    assert output_of(WRITER, cluster, topics) == ("all committed\n", "")
    for topic in topics:
        assert values(cluster, topic) == [b"0", b"1", b"2"]


@pytest.mark.long
def test_a_process_that_has_no_place_for_one_more_client(cluster: LocalCluster, topic_name: str) -> None:
    """The topic waits until there is one."""
    topics = [create(cluster, f"{topic_name}-{number}", 1) for number in range(2)]
    assert output_of(CROWDED, cluster, topics) == ("1 left\nall committed\n", "")
    assert values(cluster, topics[1]) == [b"x"]


def test_an_instance_that_rests_is_given_up(
    cluster: LocalCluster, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its topic's next record has a new one."""
    monkeypatch.setattr(instances, "MAX_IDLE", 0.5)
    create(cluster, topic_name, 1)
    with OrderedProducer(conf(cluster)) as producer:
        for number in range(2):
            producer.produce(topic_name, str(number), "k")
            producer.flush(TIMEOUT)
            assert instances_of(topic_name) == 1
            await_true(lambda: instances_of(topic_name) == 0, "the instance is given up")
    assert values(cluster, topic_name) == [b"0", b"1"]


def instances_of(topic: str) -> int:
    """Those of this process."""
    return sum(topic in one.transactional_id for one in instances_in_memory())


@pytest.fixture
def directory(cluster: LocalCluster) -> Iterator[TopicDirectory]:
    connection = Connection({"bootstrap.servers": cluster.bootstrap_servers}, cluster.controller_url)
    with closing(TopicDirectory(connection)) as opened:
        yield opened


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that this process sends requests to."""
    paths: list[str] = []
    send = Transport.send

    def noting(self: Transport, parse: Any, method: str, path: str, **more: Any) -> Any:
        paths.append(path)
        return send(self, parse, method, path, **more)

    monkeypatch.setattr(Transport, "send", noting)
    return paths


def test_layouts_of_several_topics_are_one_request(
    cluster: LocalCluster, topic_name: str, directory: TopicDirectory, sent: list[str]
) -> None:
    topics = [create(cluster, f"{topic_name}-{number}", 1) for number in range(MANY)]
    sent.clear()
    found = directory.refresh_all(topics)
    assert [one.topic for one in found] == topics
    assert all(one is before for one, before in zip(directory.refresh_all(topics), found, strict=True))
    change(cluster, topics[3], 2)
    again = directory.refresh_all(topics)
    assert [one is before for one, before in zip(again, found, strict=True)] == [n != 3 for n in range(MANY)]
    assert again[3].history.current.count == 2
    assert [path for path in sent if "layout" in path.rpartition("/")[2]] == ["/v1/layouts"] * 3


def test_a_look_at_many_topics_is_one_request(
    cluster: LocalCluster, topic_name: str, directory: TopicDirectory, sent: list[str]
) -> None:
    """It finds what looks at each alone find: of grown, shrunk, new, vanished and created again ones, too."""
    topics = [create(cluster, f"{topic_name}-{number}", 1) for number in range(MANY)]
    for topic in topics[:3]:
        NumberedWriter(cluster, topic, keys=5).write()
        await_stable(cluster, topic)
    assert [type(one) for one in directory.snapshots(topics)] == [TopicSnapshot] * MANY
    sent.clear()
    before = list(directory.snapshots(topics))
    assert sent == ["/v1/layouts"]
    assert [one.ends for one in found_of(before)] == [one.ends for one in alone(directory, topics)]
    for count in (2, 1):
        change(cluster, topics[0], count)
    change(cluster, topics[1], 2)
    delete_topic(cluster, topics[4])
    delete_topic(cluster, topics[5])
    admin = admin_of(cluster)
    admin.create_topics([NewTopic(topics[5], 1)])[topics[5]].result(TIMEOUT)
    topics.append(create(cluster, f"{topic_name}-new", 1))
    found = list(directory.snapshots(topics))
    assert [type(one) for one in found] == [
        *[TopicSnapshot] * 4, RequestError, DataLossError, *[TopicSnapshot] * (MANY - 5)
    ]  # fmt: skip
    assert "does not exist" in str(found[4])
    assert "was deleted and created again" in str(found[5])
    assert found_of(found) == alone(directory, topics)
    assert [one.history.current.count for one in found_of(found)] == [1, 2, *[1] * (MANY - 3)]


def found_of(looked: Iterable[TopicSnapshot | OrderedKafkaError]) -> list[TopicSnapshot]:
    return [one for one in looked if isinstance(one, TopicSnapshot)]


def alone(directory: TopicDirectory, topics: list[str]) -> list[TopicSnapshot]:
    """Snapshots of the topics that are there, one after the other."""
    found = []
    for topic in topics:
        with suppress(DataLossError, RequestError):
            found.append(directory.snapshot(topic))
    return found


def test_a_change_between_the_ends_and_the_layouts_of_many_topics(
    cluster: LocalCluster, topic_name: str, directory: TopicDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No end lies before the start of the layout that it is shown with: what was written after the change has gaps else."""
    topics = [create(cluster, f"{topic_name}-{number}", 2) for number in range(3)]
    for _ in directory.snapshots(topics):
        pass
    asked, counts = LogRanges.ready_logs, iter([3])

    def changed_meanwhile(self: LogRanges, questions: Any) -> Any:
        found = asked(self, questions)
        for count in counts:
            NumberedWriter(cluster, topics[1], keys=5).write()
            change(cluster, topics[1], count)
        return found

    monkeypatch.setattr(LogRanges, "ready_logs", changed_meanwhile)
    found = found_of(directory.snapshots(topics))
    assert [one.history.current.epoch for one in found] == [0, 1, 0]
    starts = found[1].history.current.starts
    assert sum(starts) > 0
    assert all(found[1].ends[p] >= start for p, start in enumerate(starts))


def test_a_topic_that_is_not_there_costs_no_other_one_its_layouts(
    cluster: LocalCluster, topic_name: str, directory: TopicDirectory, sent: list[str]
) -> None:
    topics = [create(cluster, f"{topic_name}-{number}", 1) for number in range(2)]
    for asked, paths in (
        ([topics[0], "missing", topics[1]], ["/v1/layouts", "/v1/topics/missing/layout"]),
        (["missing"], ["/v1/topics/missing/layout"]),
    ):
        sent.clear()
        with pytest.raises(RequestError, match="'missing' does not exist"):
            directory.refresh_all(asked)
        assert sent == paths
    assert [directory.layouts(topic).topic for topic in topics] == topics


@pytest.mark.long
def test_a_consumer_of_many_topics_reads_each_in_order(room: Room, topic_name: str) -> None:
    """One of them changes meanwhile."""
    topics = [create(room.cluster, f"{topic_name}-{number}", 1) for number in range(MANY)]
    writers = [NumberedWriter(room.cluster, topic, keys=3) for topic in topics]
    member = room.member(*topics)
    for partitions in (2, 3, 1):
        for writer in writers:
            writer.write()
        change(room.cluster, topics[0], partitions)
    for writer in writers:
        writer.write()
    expected = sum(writer.written for writer in writers)
    read_until([member], lambda: len(member.messages) >= expected, "all records")
    for topic, writer in zip(topics, writers, strict=True):
        found = [one for one in member.messages if one.topic() == topic]
        assert len(found) == writer.written
        in_order(found)


@pytest.mark.long
def test_records_in_hand_are_looked_at_as_often_as_those_of_one_topic(
    room: Room, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not once for each topic after each look: of 300 topics that was half of a consumer's time."""
    topics = [create(room.cluster, f"{topic_name}-{number}", 1) for number in range(MANY)]
    sorts = [0]
    sort, advance = Delivery.sort, Assignment.advance

    def sorting(delivery: Delivery) -> set[PartitionId]:
        sorts[-1] += 1
        return sort(delivery)

    def advancing(assignment: Assignment, most: int, wait: float) -> None:
        sorts.append(0)
        advance(assignment, most, wait)

    monkeypatch.setattr(Delivery, "sort", sorting)
    monkeypatch.setattr(Assignment, "advance", advancing)
    member = room.member(*topics)
    for topic in topics:
        NumberedWriter(room.cluster, topic, keys=3).write(10)
    read_until(
        [member], lambda: {one.topic() for one in member.messages} == set(topics), "records of all topics"
    )
    # After what was received, a look at layouts, one at the group and one for losses.
    assert 1 < max(sorts) <= 4


def test_a_query_asks_for_truncations_of_topics_that_had_another_leader_or_layout(
    cluster: LocalCluster, topic_name: str, sent: list[str]
) -> None:
    """That was a question for each topic, before the first micro-batch after each start."""
    topics = [create(cluster, f"{topic_name}-{number}", 2) for number in range(3)]
    writers = [NumberedWriter(cluster, topic, keys=3) for topic in topics]
    checkpoint = None

    def read(lenient: str) -> int:
        for topic in topics:
            await_stable(cluster, topic)
        source = everything(cluster, ",".join(topics), failOnDataLoss=lenient)
        nonlocal checkpoint
        with Query(source, checkpoint) as query:
            found = len(query.all_rows())
            checkpoint = query.checkpoint
        return found

    for number, lenient in enumerate(("false", "true"), 1):
        for writer in writers:
            writer.write()
        assert number * read(lenient) == sum(writer.written for writer in writers)
        assert [path for path in sent if path.endswith("/truncations")] == []
    change(cluster, topics[1], 3)
    before = writers[1].written
    writers[1].write()
    assert read("true") == writers[1].written - before
    assert {path for path in sent if path.endswith("/truncations")} == {f"/v1/topics/{topics[1]}/truncations"}


def test_where_records_of_the_same_leaders_follow_no_controller_is_asked_for_truncations(
    room: Room, topic_name: str, sent: list[str]
) -> None:
    """That was a question for each topic, after each rebalance, before anything was delivered."""
    topics = [create(room.cluster, f"{topic_name}-{number}", 1) for number in range(4)]
    writers = [NumberedWriter(room.cluster, topic, keys=3) for topic in topics]
    for _ in range(3):
        before = writers[0].written
        for writer in writers:
            writer.write()
        new = len(topics) * (writers[0].written - before)
        sent.clear()
        member = room.member(*topics)
        read_until([member], lambda member=member, new=new: len(member.messages) == new, "all records")  # type: ignore[misc]
        member.consumer.close()
        assert [path for path in sent if path.endswith("/truncations")] == []


@pytest.mark.long
def test_a_consumer_reads_on_while_its_process_ends(cluster: LocalCluster, topic_name: str) -> None:
    topics = [create(cluster, f"{topic_name}-{number}", 1) for number in range(4)]
    assert output_of(READER, cluster, topics) == ("before True\nat exit True\n", "")
