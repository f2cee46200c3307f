"""What must not happen before a transaction has ended, a listener has let go, or the layouts of what is read are known."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Message, Producer, TopicPartition

from spark_ordered_kafka import PartitionKeyRebalanceListener
from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.errors import FencedError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.fence import Fencer
from spark_ordered_kafka.kafka.ids import transactional_id
from spark_ordered_kafka.kafka.ledger import Fingerprint, LedgerEntry
from spark_ordered_kafka.kafka.producer import TransactionalProducer
from spark_ordered_kafka.kafka.ranges import LogRanges
from spark_ordered_kafka.local import LocalCluster
from tests.inside import progress_in
from tests.integration.members import Room, committed, exact, idle, read_until
from tests.queries import Query, await_stable, everything, verdict
from tests.servers import TIMEOUT, await_true
from tests.streams import NumberedWriter, change, create, numbered, raw_records


def test_a_transaction_that_is_fenced_at_its_end_leaves_no_ledger_entry(
    kafka_cluster: LocalCluster, make_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = make_topic()
    name = transactional_id(topic, "writer", 0)
    connection = Connection({"bootstrap.servers": kafka_cluster.bootstrap_servers}, "http://nowhere")
    producer = TransactionalProducer(connection, topic, name, TIMEOUT)
    producer.begin()
    producer.send(0, [{"key": b"k", "value": b"v"}], 2)
    flush, admin = producer.flush, KafkaAdmin(kafka_cluster.bootstrap_servers)

    def fenced_behind_the_records() -> None:
        flush()
        Fencer(admin).fence([name], time.monotonic() + TIMEOUT, lambda _: None)

    monkeypatch.setattr(producer, "flush", fenced_behind_the_records)
    with pytest.raises(FencedError):
        producer.commit(LedgerEntry(3, Fingerprint(1)))
    producer.discard()
    admin.close()
    successor = TransactionalProducer(connection, topic, name, TIMEOUT)
    assert successor.last is None, "nothing was committed"
    successor.discard()


def test_an_aborted_transaction_deletes_nothing_of_a_compacted_topic(
    cluster: LocalCluster, topic_name: str
) -> None:
    """Its tombstones in the partitions that keys have moved away from would delete the only values there are."""
    create(cluster, topic_name, 1, **{"cleanup.policy": "compact", "min.compaction.lag.ms": "3600000"})
    writer = NumberedWriter(cluster, topic_name, step=1)
    writer.write()
    change(cluster, topic_name, 2)
    # Of another writer, whose producer is no earlier one that the change has fenced.
    task = NumberedWriter(cluster, topic_name).task()
    task.write(numbered(writer.keys, 1, 1))
    task.abort()
    await_stable(cluster, topic_name)
    found = list(raw_records(cluster, topic_name, 2))
    assert [one.key() for one in found if one.value() is None] == [], "tombstones of what was aborted"
    assert len(found) == writer.written
    # They are owed to whoever commits.
    writer.write()
    await_stable(cluster, topic_name)
    moved = {one.key() for one in raw_records(cluster, topic_name, 2) if one.partition() == 1}
    deleted = [one.key() for one in raw_records(cluster, topic_name, 2) if one.value() is None]
    assert moved
    assert sorted(map(str, deleted)) == sorted(map(str, moved))


def test_a_listener_lets_go_before_that_is_committed(room: Room, topic_name: str) -> None:
    create(room.cluster, topic_name, 1)
    writer = NumberedWriter(room.cluster, topic_name)
    writer.write()
    seen: list[list[int]] = []

    class Looking(PartitionKeyRebalanceListener):
        def on_partition_key_maybe_revoked(self, partitions: list[TopicPartition]) -> None:
            seen.append(committed(room, topic_name, 1))

        def on_partition_key_assigned(self, partitions: list[TopicPartition]) -> None:
            pass

    change(room.cluster, topic_name, 2)
    writer.write()
    # What it reads before the boundary is not committed until others wait for it.
    member = room.member(topic_name, listener=Looking(), auto_commit_interval_ms=3_600_000)
    read_until([member], lambda: len(member.messages) == writer.written, "all records")
    assert seen == [[0]], "others may take the keys up as soon as this is committed"
    assert committed(room, topic_name, 1)[0] > 100


def test_a_consumer_delivers_nothing_that_is_not_committed(room: Room, topic_name: str) -> None:
    create(room.cluster, topic_name, 1)
    writer = NumberedWriter(room.cluster, topic_name)
    producer = Producer(
        {
            "bootstrap.servers": room.cluster.bootstrap_servers,
            "transactional.id": transactional_id(topic_name, "other", 0),
        }
    )
    producer.init_transactions(TIMEOUT)
    member = room.member(topic_name)
    for end in (producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        producer.produce(topic_name, "other:0", "other", partition=0)
        assert producer.flush(TIMEOUT) == 0
        found = len(member.messages)
        idle(member)
        assert len(member.messages) == found, "the transaction is open"
        end(TIMEOUT)
        writer.write()
        read_until([member], lambda: of(member.messages, b"k") == writer.written, "the other records")
    read_until([member], lambda: of(member.messages, b"other") == 1, "the record that was committed")
    exact([one for one in member.messages if one.key() != b"other"], writer.written)


def test_a_commit_takes_nothing_that_is_fetched_and_not_delivered(room: Room, topic_name: str) -> None:
    create(room.cluster, topic_name, 1)
    writer = NumberedWriter(room.cluster, topic_name)
    writer.write()
    member = room.member(topic_name, enable_auto_commit=False)

    def has_more_in_hand() -> bool:
        member.read(count=1)
        return bool(member.messages) and progress_in(member.consumer, topic_name, 0).pending > 0

    await_true(has_more_in_hand, "a record, and others behind it that are fetched")
    assert len(member.messages) < writer.written
    delivered = len(member.messages)
    assert [one.offset for one in member.consumer.commit() or []] == [delivered], "so many are delivered"
    assert committed(room, topic_name, 1) == [delivered]
    member.consumer.close()
    successor = room.member(topic_name)
    read_until([successor], lambda: len(successor.messages) >= writer.written - delivered, "the rest")
    exact([*member.messages, *successor.messages], writer.written)


def of(messages: list[Message], prefix: bytes) -> int:
    return sum((message.key() or b"").startswith(prefix) for message in messages)


def test_a_change_between_the_ends_and_the_layouts(
    cluster: LocalCluster, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(cluster, topic_name, 1)
    writer = NumberedWriter(cluster, topic_name)
    writer.write()
    await_stable(cluster, topic_name)
    log, counts = LogRanges.log, iter([3])

    def changed_meanwhile(self: LogRanges, *arguments: Any, **named: Any) -> Any:
        for count in counts:
            change(cluster, topic_name, count)
            writer.write()
            await_stable(cluster, topic_name)
        return log(self, *arguments, **named)

    with Query(everything(cluster, topic_name)) as query:
        rows = query.all_rows()
        monkeypatch.setattr(LogRanges, "log", changed_meanwhile)
        rows += query.all_rows()
    report = verdict(rows, writer.written)
    assert report.violations == 0, report
    assert [row["layout_epoch"] for row in rows] == [0] * 100 + [1] * 100
