"""Partitions that something else than a change has made: a layout covers them, and readers deliver what lies there."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from spark_ordered_kafka.checker import Report
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.schemas import (
    CreateTopicRequest,
    DeleteRecordsRequest,
    PartitionCountsRequest,
    TopicPartitionCount,
)
from spark_ordered_kafka.controller.change import protocol as p
from spark_ordered_kafka.controller.state.topics import Znodes
from spark_ordered_kafka.errors import RequestError
from spark_ordered_kafka.local import LocalCluster
from tests.consumers import consumer_of, taken
from tests.integration.controllers import InProcess, in_process
from tests.queries import Query, Rows, await_stable, batch_rows, everything, verdict
from tests.servers import TIMEOUT, await_true, unique_name
from tests.streams import NumberedWriter, change, create


def add_partitions(cluster: LocalCluster, topic: str, total: int) -> None:
    """As Kafka's own tool does it."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_partitions([NewPartitions(topic, total)])[topic].result(TIMEOUT)
    await_true(
        lambda: len(admin.list_topics(topic, TIMEOUT).topics[topic].partitions) == total,
        f"{total} partitions of {topic}",
    )


def write_foreign(cluster: LocalCluster, topic: str, partitions: range, count: int = 5) -> None:
    """``count`` records in each, none of which an ordered writer would have put there."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 0})
    for number in range(count):
        for partition in partitions:
            producer.produce(topic, f"foreign:{number}".encode(), b"key", partition)
    assert producer.flush(TIMEOUT) == 0


@pytest.fixture(scope="module")
def client(cluster: LocalCluster) -> Iterator[ControllerClient]:
    with ControllerClient(cluster.controller_url) as client:
        yield client


def await_covered(client: ControllerClient, topic: str, partitions: int) -> None:
    await_true(
        lambda: len(client.layout(topic).layouts[-1].starts) == partitions,
        f"a layout that covers {partitions} partitions of {topic}",
    )


def judged(rows: Rows, foreign: int, written: int) -> Report:
    """The checker's verdict on the ordered writers' rows; all ``foreign`` ones must be there."""
    own = [row for row in rows if not row["value"].startswith(b"foreign:")]
    assert len(rows) - len(own) == foreign
    return verdict(own, written)


@pytest.mark.parametrize("ordered_delivery", [True, pytest.param(False, marks=pytest.mark.long)])
def test_partitions_of_another_tool_are_covered_and_read(
    cluster: LocalCluster, client: ControllerClient, ordered_delivery: bool
) -> None:
    topic = unique_name("widened")
    client.create_topic(
        CreateTopicRequest(topic=topic, partitions=2, replication_factor=1, ordered_delivery=ordered_delivery)
    )
    writer = NumberedWriter(cluster, topic)
    writer.write()
    consumer = consumer_of(cluster, topic, unique_name("group"))
    with Query(everything(cluster, topic)) as query:
        await_stable(cluster, topic)
        early = query.all_rows()
        found = taken(consumer, writer.written)
        add_partitions(cluster, topic, 4)
        write_foreign(cluster, topic, range(2, 4))
        await_covered(client, topic, 4)
        writer.write()
        write_foreign(cluster, topic, range(2, 4))
        await_stable(cluster, topic)
        rows = early + query.all_rows()
    assert judged(rows, 20, writer.written).violations == 0
    assert {row["partition"] for row in rows if row["value"].startswith(b"foreign:")} == {2, 3}
    (tasks,) = [batch_rows(everything(cluster, topic))]
    assert judged([row for task in tasks for row in task], 20, writer.written).violations == 0
    found += taken(consumer, writer.written + 20 - len(found))
    consumer.close()
    assert judged(found, 20, writer.written).violations == 0
    layouts = client.layout(topic).layouts
    assert [(one.undeleted_partition_count, one.stray_from) for one in layouts] == [(2, None), (2, 2)]
    view = client.topic(topic)
    assert (view.undeleted_partition_count, view.stray_partitions, view.last_change) == (2, [2, 3], None)
    await_true(
        lambda: (
            [row.status for row in client.topic(topic).partitions] == ["live", "live", "marked", "marked"]
        ),
        "strays that hold records are marked",
    )


@pytest.mark.long
def test_strays_are_taken_up_in_order_and_given_up_again(
    cluster: LocalCluster, client: ControllerClient
) -> None:
    """What lies in them from before, also below records of a new layout, is delivered once, and breaks no order."""
    topic = create(cluster, unique_name("strays"), 2)
    writer = NumberedWriter(cluster, topic)
    writer.write()
    with Query(everything(cluster, topic)) as lagging, Query(everything(cluster, topic)) as following:
        rows = following.all_rows()
        add_partitions(cluster, topic, 5)
        write_foreign(cluster, topic, range(2, 5))
        await_covered(client, topic, 5)
        rows += following.all_rows()
        for count in (4, 3, 5, 2):
            with writer.under_load():
                change(cluster, topic, count)
                rows += following.next_rows()
            strays = client.topic(topic).stray_partitions
            assert strays == ([4] if count in (4, 3) else [])
        writer.write()
        await_stable(cluster, topic)
        rows += following.all_rows()
        assert judged(rows, 15, writer.written).violations == 0
        assert judged(lagging.all_rows(), 15, writer.written).violations == 0
    starts = [one.starts for one in client.layout(topic).layouts]
    assert all(start >= 5 for start in starts[2][2:4])


def test_records_of_strays_are_deleted_only_once_readers_could_have_read_them(
    kafka_cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A controller that has not looked yet, since a change goes on, or its interval is long."""
    has_looked = threading.Event()

    def topics(self: Znodes) -> list[str]:
        found = listed(self)
        if threading.current_thread().name == "retirement":
            has_looked.set()
        return found

    listed = Znodes.topics
    monkeypatch.setattr(Znodes, "topics", topics)
    with in_process(kafka_cluster, retire_interval=600.0) as controller:
        assert has_looked.wait(TIMEOUT), "the first look, at no topic yet"
        topic = controller.create(2)
        assert controller.alter(topic, 3).error == "NONE"
        add_partitions(kafka_cluster, topic, 5)
        write_foreign(kafka_cluster, topic, range(3, 5))
        for fields in ({"partitions": [4]}, {"partitions": [3, 4], "force": True}):
            answer = controller.http.post(f"/v1/topics/{topic}/delete-records", json=fields)
            assert (answer.status_code, answer.json()["error"]) == (400, "INVALID_REQUEST")
            assert "no layout" in answer.json()["error_message"]
        for force in (False, True):
            answer = controller.http.post(f"/v1/topics/{topic}/delete-records", json={"force": force})
            assert answer.json()["partitions"] == []
        assert controller.topic(topic).stray_partitions == [3, 4]
        # A change of this topic covers what it finds.
        assert controller.alter(topic, 2, force=True).error == "NONE"
        assert controller.layout(topic).layouts[-1].starts[3:] == [0, 0]
        answer = controller.http.post(f"/v1/topics/{topic}/delete-records", json={"partitions": [4]})
        assert [row["log_start"] for row in answer.json()["partitions"]] == [5]


@pytest.mark.long
def test_what_is_made_during_a_change_and_without_a_controller_is_covered(
    kafka_cluster: LocalCluster,
) -> None:
    chroot = unique_name("covering")
    with in_process(kafka_cluster, chroot=chroot, retire_interval=0.2) as controller:
        topic = controller.create(2)

        def widen(instruction: p.Instruction) -> None:
            if isinstance(instruction, p.CommitLayout):
                add_partitions(kafka_cluster, topic, 6)
                write_foreign(kafka_cluster, topic, range(3, 6))

        controller.before = widen
        assert controller.alter(topic, 3).error == "NONE"
        await_true(
            lambda: len(controller.layout(topic).layouts[-1].starts) == 6, "the second layout is covered"
        )
        assert controller.topic(topic).stray_partitions == [3, 4, 5]
        counted = f'ordered_kafka_stray_partitions_covered_total{{topic="{topic}"}} 3.0'
        # Counted once the layout is there.
        await_true(lambda: counted in controller.http.get("/metrics").text, "the partitions are counted")
    add_partitions(kafka_cluster, topic, 8)
    write_foreign(kafka_cluster, topic, range(6, 8))
    with in_process(kafka_cluster, chroot=chroot, retire_interval=600.0) as controller:
        await_true(lambda: len(controller.layout(topic).layouts[-1].starts) == 8, "covered at the start")
        layouts = controller.layout(topic).layouts
        assert [(one.undeleted_partition_count, one.stray_from) for one in layouts] == [
            (2, None),
            (3, None),
            (3, 3),
            (3, 6),
        ]


def test_a_cancelled_expansion_leaves_nothing_hidden(kafka_cluster: LocalCluster) -> None:
    with in_process(kafka_cluster, retire_interval=0.2) as controller:
        topic = controller.create(2)

        def cancel(instruction: p.Instruction) -> None:
            if isinstance(instruction, p.AwaitLeaders):
                controller.http.delete(f"/v1/topics/{topic}/change")

        controller.before = cancel
        controller.alter(topic, 4)
        assert controller.await_end(topic).outcome == "cancelled"
        await_true(lambda: len(controller.layout(topic).layouts[-1].starts) == 4, "a covering layout")
        controller.before = lambda _: None
        assert controller.alter(topic, 3).error == "NONE"
        assert controller.topic(topic).stray_partitions == [3]


@pytest.mark.long
def test_command_line_tells_of_strays(cluster: LocalCluster, client: ControllerClient) -> None:
    from tests.integration.test_cli_topics import Cli

    topic = create(cluster, unique_name("told"), 2)
    add_partitions(cluster, topic, 5)
    await_covered(client, topic, 5)
    out = Cli(cluster.controller_url)("topics", "describe", "--topic", topic)[1]
    assert "partitions 2-4 were made by no change that was committed" in out
    request = PartitionCountsRequest(topics=[TopicPartitionCount(topic=topic, partition_count=3)])
    assert client.alter_partition_counts(request, wait=TIMEOUT).topics[0].error == "NONE"
    assert client.topic(topic).stray_partitions == [3, 4]
    with pytest.raises(RequestError):
        client.delete_records(topic, DeleteRecordsRequest(partitions=[2]))


@pytest.mark.long
def test_what_was_checked_for_a_layout_of_as_many_partitions_is_checked_again(
    controller: InProcess, kafka_cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another tool adds partitions after the checks, and a layout covers them: nothing that a user would have to act on."""
    topic = controller.create(2)
    producers = controller.service.changes._producers
    check = producers.refuse_foreign

    def late(*arguments: Any) -> None:
        check(*arguments)
        monkeypatch.setattr(producers, "refuse_foreign", check)
        add_partitions(kafka_cluster, topic, 4)
        await_true(lambda: len(controller.layout(topic).layouts) == 2, "a covering layout")

    monkeypatch.setattr(producers, "refuse_foreign", late)
    assert controller.alter(topic, 3).error == "NONE"
    assert [len(one.starts) for one in controller.layout(topic).layouts] == [2, 4, 4]
    assert controller.topic(topic).undeleted_partition_count == 3
