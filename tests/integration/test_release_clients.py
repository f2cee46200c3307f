"""What writers, readers and queries do when their topic is released, and adopted again."""

from __future__ import annotations

import json

import pytest

from spark_ordered_kafka import ControllerClient, OrderedConsumer, OrderedProducer
from spark_ordered_kafka.client.schemas import AdoptTopicRequest, ReleaseTopicRequest
from spark_ordered_kafka.errors import DataLossError, RequestError
from spark_ordered_kafka.kafka.buffer import Memory
from spark_ordered_kafka.kafka.ids import id_prefix
from spark_ordered_kafka.kafka.task import TaskTransaction
from spark_ordered_kafka.local import LocalCluster
from tests.integration.members import Room, exact, read_until
from tests.queries import Query, Rows, await_stable, everything, verdict
from tests.servers import await_true, unique_name
from tests.streams import NumberedWriter, change, conf, create, numbered, writer_context, written_through


def test_writers_and_readers_hear_why_they_end_and_go_on_after_an_adoption(
    cluster: LocalCluster, topic_name: str
) -> None:
    create(cluster, topic_name, 2)
    writer = NumberedWriter(cluster, topic_name, keys=5)
    writer.write()
    producer = OrderedProducer(conf(cluster, commit_interval_ms=0))
    producer.produce(topic_name, b"value", b"key")
    name = f"{id_prefix(topic_name)}sink:0"
    task = TaskTransaction(writer_context(cluster), topic_name, name, 0, Memory(1_000_000))
    task.write(numbered(5, 0, 5))
    await_stable_without(cluster, topic_name, writer)
    reading = conf(cluster, group_id=unique_name("group"), auto_offset_reset="earliest")
    with (
        ControllerClient(cluster.controller_url) as client,
        Query(everything(cluster, topic_name)) as query,
        OrderedConsumer(reading) as consumer,
    ):
        assert client.release_topic(topic_name, ReleaseTopicRequest()).error == "NONE"
        with pytest.raises(RequestError, match="is not under management: adopt it"):
            task.commit()
        task.abort()
        with pytest.raises(RequestError, match="is not under management: adopt it"):
            producer.commit()
        producer.close()
        with pytest.raises(DataLossError, match="is not under management: adopt it"):
            query.plan()
        with pytest.raises(RequestError, match="is not under management: adopt it"):
            consumer.subscribe([topic_name])

        client.adopt_topic(topic_name, AdoptTopicRequest(hash="murmur3"))
        # The ledgers are still there: what a query writes again is not there twice.
        assert not repeated(cluster, topic_name, writer)
        writer.write()
        change(cluster, topic_name, 5)
        writer.write()
        await_stable(cluster, topic_name)
        assert verdict(query.all_rows(), writer.written).violations == 0


def await_stable_without(cluster: LocalCluster, topic: str, writer: NumberedWriter) -> None:
    """Wait until the writer's last transaction can be read, whatever others have open."""
    rows: Rows = []

    with Query(everything(cluster, topic)) as query:

        def is_read() -> bool:
            # Its partitions let readers pass one after another.
            rows.extend(query.all_rows())
            return len(rows) == writer.written

        await_true(is_read, "the records can be read")


def repeated(cluster: LocalCluster, topic: str, writer: NumberedWriter) -> bool:
    """Whether the writer's first transaction is committed once more when it comes again."""
    first = f"{id_prefix(topic)}{writer.name}:0"
    task = TaskTransaction(writer_context(cluster), topic, first, 0, Memory(1_000_000))
    task.write(numbered(writer.keys, 0, writer.step))
    return task.commit()


def test_a_query_of_the_time_before_says_that_layouts_have_begun_anew(
    cluster: LocalCluster, topic_name: str
) -> None:
    writer = written_through(cluster, topic_name, 1, 2, keys=5)
    await_stable(cluster, topic_name)
    with Query(everything(cluster, topic_name)) as query:
        rows = query.all_rows()
    assert verdict(rows, writer.written).violations == 0
    with ControllerClient(cluster.controller_url) as client:
        client.release_topic(topic_name, ReleaseTopicRequest())
        client.adopt_topic(topic_name, AdoptTopicRequest(hash="murmur3", force=True))
    writer.write()
    await_stable(cluster, topic_name)
    with (
        Query(everything(cluster, topic_name), query.checkpoint) as later,
        pytest.raises(DataLossError, match=r"released from management and adopted again.*layout epoch 1"),
    ):
        later.plan()
    source = everything(cluster, topic_name, failOnDataLoss="false")
    with Query(source, query.checkpoint) as later:
        assert verdict(rows + later.all_rows(), writer.written).violations == 0
    assert json.loads(later.checkpoint)["topics"][topic_name]["layout_epoch"] == 0


def test_a_micro_batch_is_not_read_again_after_an_adoption(cluster: LocalCluster, topic_name: str) -> None:
    """Its offset, which names where it began, is the one that reading goes on from."""
    create(cluster, topic_name, 1)
    change(cluster, topic_name, 2)
    writer = NumberedWriter(cluster, topic_name, keys=5)
    writer.write()
    await_stable(cluster, topic_name)
    source = everything(cluster, topic_name, failOnDataLoss="false")
    with Query(source) as query:
        rows = query.next_rows()
        assert "resumed" in query.checkpoint
    with ControllerClient(cluster.controller_url) as client:
        client.release_topic(topic_name, ReleaseTopicRequest())
        client.adopt_topic(topic_name, AdoptTopicRequest(hash="murmur3", force=True))
    with Query(source, query.checkpoint) as later:
        assert later.all_rows() == []
        writer.write()
        await_stable(cluster, topic_name)
        assert verdict(rows + later.all_rows(), writer.written).violations == 0


@pytest.mark.long
@pytest.mark.parametrize(
    "later",
    [pytest.param(0, id="adopted", marks=pytest.mark.long), pytest.param(1, id="adopted and changed")],
)
def test_a_reader_that_is_running_says_that_layouts_have_begun_anew(
    room: Room, topic_name: str, later: int
) -> None:
    """Neither asked for anything while the topic was released."""
    cluster = room.cluster
    writer = written_through(cluster, topic_name, 1, 2, 3)
    member = room.member(topic_name)
    read_until([member], lambda: len(member.messages) == writer.written, "the records")
    member.consumer.commit()
    await_stable(cluster, topic_name)
    strict, lenient = everything(cluster, topic_name), everything(cluster, topic_name, failOnDataLoss="false")
    with Query(strict) as one, Query(lenient) as other:
        rows = other.all_rows()
        assert one.all_rows() == rows
        with ControllerClient(cluster.controller_url) as client:
            client.release_topic(topic_name, ReleaseTopicRequest())
            client.adopt_topic(topic_name, AdoptTopicRequest(hash="murmur3", force=True))
        for count in range(4, 4 + later):
            change(cluster, topic_name, count)
        writer.write()
        await_stable(cluster, topic_name)
        with pytest.raises(DataLossError, match="released from management and adopted again"):
            one.plan()
        assert verdict(rows + other.all_rows(), writer.written).violations == 0
    with pytest.raises(DataLossError, match="released from management and adopted again"):
        read_until([member], lambda: False, "no error")
    member.consumer.close()
    again = room.member(topic_name, auto_offset_reset="latest")
    read_until([again], lambda: len(again.messages) >= 100, "what was written since")
    change(cluster, topic_name, 6)
    writer.write()
    read_until([again], lambda: len(again.messages) >= 200, "what was written after a change")
    exact(member.messages + again.messages, writer.written)
