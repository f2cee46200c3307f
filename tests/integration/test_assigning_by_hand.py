"""OrderedConsumers whose partitions are assigned by hand: every key stays in order."""

from __future__ import annotations

import logging

import pytest

from spark_ordered_kafka.errors import ConfigError, RequestError
from tests.integration.members import (
    Room,
    all_of,
    at,
    exact,
    in_order,
    of_partition,
    places,
    read_until,
    settle,
)
from tests.streams import NumberedWriter, change, create


def test_partitions_that_are_assigned_by_hand(
    room: Room, topic_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    create(room.cluster, topic_name, 2)
    writer = NumberedWriter(room.cluster, topic_name)
    writer.write()
    one, two = (room.member(enable_auto_commit=True) for _ in range(2))
    with pytest.raises(ConfigError, match="has the partitions 0 to 1"):
        one.consumer.assign(places(topic_name, 2))
    one.consumer.assign(places(topic_name, 0))
    two.consumer.assign(places(topic_name, 1))
    both = [one, two]
    read_until(both, lambda: len(one.messages + two.messages) >= writer.written, "all")
    change(room.cluster, topic_name, 4)
    writer.write()

    def warned() -> bool:
        return f"{topic_name}-2, {topic_name}-3: assign them to a consumer" in caplog.text

    with caplog.at_level(logging.WARNING):
        read_until(both, warned, "no warning")
    two.consumer.incremental_assign(places(topic_name, 2, 3))
    read_until(both, lambda: len(one.messages + two.messages) >= writer.written, "all")
    exact(one.messages + two.messages, writer.written)
    in_order(one.messages)
    in_order(two.messages)
    two.consumer.incremental_unassign(places(topic_name, 2))
    assert two.partitions == [1, 3]
    with pytest.raises(ConfigError, match="not assigned yet"):
        two.consumer.incremental_assign(places(topic_name, 3))
    two.consumer.unassign()
    assert two.partitions == []
    writer.write()
    # Back at what was committed, with the rest of the partitions.
    two.consumer.assign(places(topic_name, 1, 2, 3))
    read_until(both, lambda: len(one.messages + two.messages) >= writer.written, "all")
    exact(one.messages + two.messages, writer.written)


def test_a_subscription_and_an_assignment_by_hand_exclude_each_other(room: Room, topic_name: str) -> None:
    create(room.cluster, topic_name, 1)
    writer = NumberedWriter(room.cluster, topic_name)
    writer.write()
    member = room.member(topic_name)
    consumer = member.consumer
    for call in (consumer.assign, consumer.incremental_assign, consumer.incremental_unassign):
        with pytest.raises(ConfigError, match="the group assigns the partitions"):
            call(places(topic_name, 0))
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
    by_hand.consumer.assign(places(topic_name, 0))
    with pytest.raises(RequestError, match=r"has members that subscribe.* a group\.id of their own"):
        read_until([by_hand, settled], lambda: False, "no error")
