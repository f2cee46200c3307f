"""OrderedConsumers whose partitions are assigned by hand: every key stays in order."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection

import pytest
from confluent_kafka import OFFSET_INVALID, Producer
from confluent_kafka.admin import AdminClient

from spark_ordered_kafka import OrderedConsumer
from spark_ordered_kafka.client import committing
from spark_ordered_kafka.client.topic_layouts import TopicLayouts
from spark_ordered_kafka.errors import ConfigError, RequestError
from spark_ordered_kafka.kafka.ranges import TopicLog
from tests.integration.members import (
    Member,
    Room,
    all_of,
    at,
    committed,
    conf,
    exact,
    in_order,
    numbers,
    of_partition,
    partitions_of,
    read_until,
    settle,
)
from tests.servers import TIMEOUT, await_true
from tests.streams import NumberedWriter, change, create, written_through


def test_partitions_that_are_assigned_by_hand(
    room: Room, topic_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    create(room.cluster, topic_name, 2)
    writer = NumberedWriter(room.cluster, topic_name)
    writer.write()
    one, two = (room.member(enable_auto_commit=True) for _ in range(2))
    with pytest.raises(ConfigError, match="has the partitions 0 to 1"):
        one.consumer.assign(partitions_of(topic_name, 2))
    one.consumer.assign(partitions_of(topic_name, 0))
    two.consumer.assign(partitions_of(topic_name, 1))
    both = [one, two]
    read_until(both, lambda: len(one.messages + two.messages) >= writer.written, "all")
    change(room.cluster, topic_name, 4)
    writer.write()

    def warned() -> bool:
        return f"{topic_name}-2, {topic_name}-3: assign them to a consumer" in caplog.text

    with caplog.at_level(logging.WARNING):
        read_until(both, warned, "no warning")
    two.consumer.incremental_assign(partitions_of(topic_name, 2, 3))
    read_until(both, lambda: len(one.messages + two.messages) >= writer.written, "all")
    exact(one.messages + two.messages, writer.written)
    in_order(one.messages)
    in_order(two.messages)
    two.consumer.incremental_unassign(partitions_of(topic_name, 2))
    assert two.partitions == [1, 3]
    with pytest.raises(ConfigError, match="not assigned yet"):
        two.consumer.incremental_assign(partitions_of(topic_name, 3))
    two.consumer.unassign()
    assert two.partitions == []
    writer.write()
    # Back at what was committed, with the rest of the partitions.
    two.consumer.assign(partitions_of(topic_name, 1, 2, 3))
    read_until(both, lambda: len(one.messages + two.messages) >= writer.written, "all")
    exact(one.messages + two.messages, writer.written)


def read_to_the_end(member: Member, *last: int) -> None:
    """By partition the last offset that is delivered."""

    def ends() -> list[int]:
        return [max(of_partition(member.messages, p), default=-1) for p in range(len(last))]

    read_until([member], lambda: ends() == list(last), f"not {last}")


def first_offsets(member: Member, partitions: int) -> list[int]:
    return [of_partition(member.messages, p)[0] for p in range(partitions)]


def log_of(room: Room, topic: str, partitions: int, count: int = 100) -> None:
    """A topic with so many records in each partition, without a marker behind them."""
    create(room.cluster, topic, partitions)
    producer = Producer({"bootstrap.servers": room.cluster.bootstrap_servers})
    for number in range(count):
        for p in range(partitions):
            producer.produce(topic, str(number), partition=p)
    assert producer.flush(TIMEOUT) == 0


@pytest.mark.parametrize("way", ["assign assign", "assign unassign", "seek assign"])
def test_where_to_begin_outlives_what_comes_before_the_next_poll(
    room: Room, topic_name: str, way: str
) -> None:
    log_of(room, topic_name, 2)
    member = room.member(enable_auto_commit=False)
    consumer = member.consumer
    if way == "assign assign":
        consumer.incremental_assign([at(topic_name, 0, 60)])
        consumer.incremental_assign([at(topic_name, 1, 70)])
    elif way == "assign unassign":
        consumer.assign([at(topic_name, 0, 60), at(topic_name, 1, 70)])
        consumer.incremental_unassign(partitions_of(topic_name, 1))
        consumer.incremental_assign([at(topic_name, 1, 70)])
    else:
        consumer.assign(partitions_of(topic_name, 0))
        consumer.seek(at(topic_name, 0, 60))
        consumer.incremental_assign([at(topic_name, 1, 70)])
    read_to_the_end(member, 99, 99)
    assert first_offsets(member, 2) == [60, 70]


def half_read(room: Room, topic: str, partitions: int) -> Member:
    """A consumer that has read 50 records of partition 0 and not committed them."""
    log_of(room, topic, partitions)
    member = room.member(enable_auto_commit=False)
    member.consumer.assign(partitions_of(topic, 0))

    def fifty() -> bool:
        member.read(count=50 - len(member.messages))
        return len(member.messages) == 50

    await_true(fifty, "50 records")
    return member


def test_a_rewind_leaves_where_new_partitions_begin(room: Room, topic_name: str) -> None:
    member = half_read(room, topic_name, 2)
    member.consumer.incremental_assign([at(topic_name, 1, 70)])
    member.consumer.rewind()
    member.messages.clear()
    read_to_the_end(member, 99, 99)
    assert first_offsets(member, 2) == [0, 70]


def test_what_is_not_committed_outlives_more_partitions(room: Room, topic_name: str) -> None:
    member = half_read(room, topic_name, 3)
    consumer = member.consumer
    consumer.incremental_assign(partitions_of(topic_name, 1))
    assert [(one.partition, one.offset) for one in consumer.transaction_offsets().offsets] == [(0, 50)]
    consumer.incremental_assign(partitions_of(topic_name, 2))
    assert consumer.commit() is not None
    assert committed(room, topic_name, 1) == [50]
    read_to_the_end(member, 99, 99, 99)
    assert len(member.messages) == 300
    consumer.commit()
    assert committed(room, topic_name, 3) == [100] * 3


def test_a_subscription_and_an_assignment_by_hand_exclude_each_other(room: Room, topic_name: str) -> None:
    create(room.cluster, topic_name, 1)
    writer = NumberedWriter(room.cluster, topic_name)
    writer.write()
    member = room.member(topic_name)
    consumer = member.consumer
    for call in (consumer.assign, consumer.incremental_assign, consumer.incremental_unassign):
        with pytest.raises(ConfigError, match="the group assigns the partitions"):
            call(partitions_of(topic_name, 0))
    with pytest.raises(ConfigError, match=r"unsubscribe\(\) first"):
        consumer.unassign()
    all_of(member, 10)
    consumer.unsubscribe()
    consumer.assign([at(topic_name, 0, 60)])
    member.messages.clear()
    all_of(member, 40)
    assert of_partition(member.messages, 0) == list(range(60, 100))
    consumer.subscribe([topic_name])
    writer.write()
    all_of(member, 140)
    assert len(member.messages) == 140


def test_by_hand_beside_members_is_an_error_that_says_so(room: Room, topic_name: str) -> None:
    create(room.cluster, topic_name, 2)
    settled, by_hand = room.member(topic_name), room.member(auto_commit_interval_ms=100)
    settle([settled], 2)
    NumberedWriter(room.cluster, topic_name).write()
    by_hand.consumer.assign(partitions_of(topic_name, 0))
    with pytest.raises(RequestError, match=r"has members that subscribe.* a group\.id of their own"):
        read_until([by_hand, settled], lambda: False, "no error")


@pytest.mark.long
def test_a_group_begins_at_the_end_while_the_partition_count_changes(
    room: Room, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = written_through(room.cluster, topic_name, 1, 2)
    one, two = (room.member(auto_offset_reset="latest", auto_commit_interval_ms=100) for _ in range(2))
    one.consumer.assign(partitions_of(topic_name, 1))
    read_until([one], lambda: committed(room, topic_name, 2)[1] >= 0, "where the group begins")
    before = writer.written
    writer.write()
    directory = two.consumer._directory
    ends_of = directory.log

    def ends_after_a_change(layouts: TopicLayouts, partitions: Collection[int]) -> TopicLog:
        monkeypatch.setattr(directory, "log", ends_of)
        change(room.cluster, topic_name, 1)
        writer.write()
        return ends_of(layouts, partitions)

    monkeypatch.setattr(directory, "log", ends_after_a_change)
    two.consumer.assign(partitions_of(topic_name, 0))
    read_until([one, two], lambda: two.consumer._assignment.is_settled((topic_name, 0)), "the start")
    writer.write()
    last = writer.written // writer.keys - 1

    def has_the_last() -> bool:
        return sum(int(number) == last for number in numbers(two.messages)[1]) == writer.keys

    read_until([one, two], has_the_last, "the last record of each key")
    keys, found = numbers(one.messages + two.messages)
    for key in set(keys):
        of_key = sorted(found[keys == key])
        assert of_key == list(range(of_key[0], last + 1)), key
    # What was written to partition 1 after the group had begun there belongs to it.
    assert one.messages
    for key in set(numbers(one.messages)[0]):
        assert min(found[keys == key]) == before // writer.keys


def test_an_idle_owner_keeps_its_offsets_from_expiring(room: Room, topic_name: str) -> None:
    writer = written_through(room.cluster, topic_name, 1, 2)
    shift = 0.0
    consumer = OrderedConsumer(
        conf(room.cluster, room.group, enable_auto_commit=False), clock=lambda: time.monotonic() + shift
    )
    with consumer:
        member = Member(consumer)
        consumer.assign(partitions_of(topic_name, 0, 1))
        all_of(member, writer.written)
        consumer.commit()
        read_until([member], lambda: consumer.commit() == [], "the last offsets")
        before = consumer.committed(partitions_of(topic_name, 0, 1))
        # As when each of its offsets has expired.
        forget(room)
        assert committed(room, topic_name, 2) == [OFFSET_INVALID, OFFSET_INVALID]
        shift += 2 * committing.RENEWAL_INTERVAL
        read_until([member], lambda: min(committed(room, topic_name, 2)) >= 0, "the offsets again")
        after = consumer.committed(partitions_of(topic_name, 0, 1))
        assert [(one.offset, one.metadata) for one in after] == [(one.offset, one.metadata) for one in before]


def forget(room: Room) -> None:
    admin = AdminClient({"bootstrap.servers": room.cluster.bootstrap_servers})
    for future in admin.delete_consumer_groups([room.group]).values():
        future.result(TIMEOUT)
