"""Many topics of one client: files of a producer, instances that rest, and questions for the layouts that a consumer reads in."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from spark_ordered_kafka import OrderedProducer
from spark_ordered_kafka.client import instances
from spark_ordered_kafka.client.layout_answers import LayoutHistoryView
from spark_ordered_kafka.client.topics import AT_ONCE, TopicDirectory
from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.errors import RequestError
from spark_ordered_kafka.kafka.producer import TransactionalProducer
from spark_ordered_kafka.local import LocalCluster
from tests.integration.members import Room, in_order, read_until
from tests.integration.producing import values
from tests.servers import TIMEOUT, await_true
from tests.streams import NumberedWriter, change, conf, create

TOPICS, FILES = 20, 100
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


def test_more_topics_than_files(cluster: LocalCluster, topic_name: str) -> None:
    topics = [create(cluster, f"{topic_name}-{number}", 1) for number in range(TOPICS)]
    assert output_of(WRITER, cluster, topics) == ("all committed\n", "")
    for topic in topics:
        assert values(cluster, topic) == [b"0", b"1", b"2"]


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
    found = (one for one in gc.get_objects() if isinstance(one, TransactionalProducer))
    return sum(topic in one.transactional_id for one in found)


@pytest.fixture
def directory(cluster: LocalCluster) -> Iterator[TopicDirectory]:
    connection = Connection({"bootstrap.servers": cluster.bootstrap_servers}, cluster.controller_url)
    with closing(TopicDirectory(connection)) as opened:
        yield opened


def test_layouts_of_several_topics_are_asked_for_at_once(
    cluster: LocalCluster, topic_name: str, directory: TopicDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each question waits here until as many are under way as may be."""
    topics = [create(cluster, f"{topic_name}-{number}", 1) for number in range(AT_ONCE)]
    together, ask = threading.Barrier(AT_ONCE), directory.client.layout

    def asking(topic: str, from_epoch: int = 0) -> LayoutHistoryView:
        together.wait(TIMEOUT)
        return ask(topic, from_epoch)

    monkeypatch.setattr(directory.client, "layout", asking)
    found = list(directory.refresh_all(topics))
    assert [one.topic for one in found] == topics
    assert all(one is before for one, before in zip(directory.refresh_all(topics), found, strict=True))


def test_a_topic_that_is_not_there_costs_no_other_one_its_layouts(
    cluster: LocalCluster, topic_name: str, directory: TopicDirectory
) -> None:
    topics = [create(cluster, f"{topic_name}-{number}", 1) for number in range(2)]
    answers = directory.refresh_all([*topics, "missing", topics[0]])
    assert [next(answers).topic for _ in topics] == topics
    with pytest.raises(RequestError, match="missing"):
        next(answers)
    assert [directory.layouts(topic).topic for topic in topics] == topics


def test_a_consumer_of_many_topics_reads_each_in_order(room: Room, topic_name: str) -> None:
    """One of them changes meanwhile."""
    topics = [create(room.cluster, f"{topic_name}-{number}", 1) for number in range(2 * AT_ONCE)]
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


def test_a_consumer_reads_on_while_its_process_ends(cluster: LocalCluster, topic_name: str) -> None:
    topics = [create(cluster, f"{topic_name}-{number}", 1) for number in range(4)]
    assert output_of(READER, cluster, topics) == ("before True\nat exit True\n", "")
