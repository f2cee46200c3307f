"""OrderedConsumers with ``group.instance.id``, which one process of a group may have at a time (KIP-345)."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from spark_ordered_kafka import OrderedConsumer
from spark_ordered_kafka.client.consumer import OnRebalance
from spark_ordered_kafka.errors import RebalancedError, RequestError
from tests.integration.members import Member, Room, distinct, exact, read_until
from tests.servers import await_true
from tests.streams import NumberedWriter, create

FENCED = "same group.instance.id"


def read_by_one(
    room: Room, topic: str, on_lost: OnRebalance | None = None, **more: Any
) -> tuple[NumberedWriter, Member]:
    """The writer of a topic, and the member that has read all of it and committed nothing."""
    create(room.cluster, topic, 2)
    writer = NumberedWriter(room.cluster, topic)
    writer.write()
    first = room.member(group_instance_id="one", enable_auto_commit=False, **more)
    first.consumer.subscribe([topic], on_lost=on_lost)
    read_until([first], lambda: len(first.messages) == writer.written, "all records")
    return writer, first


def test_a_member_whose_place_another_has_taken_says_so_and_ends(room: Room, topic_name: str) -> None:
    writer, first = read_by_one(room, topic_name)
    first.consumer.commit()
    second = room.member(topic_name, group_instance_id="one")
    read_until([second], lambda: second.partitions == [0, 1], "the place of the first")
    with pytest.raises(RequestError, match=FENCED):
        read_until([first], lambda: False, "the error")
    for call in (first.consumer.poll, first.consumer.commit):
        with pytest.raises(RequestError, match=FENCED):
            call()
    writer.write()
    read_until([second], lambda: len(first.messages + second.messages) >= writer.written, "later records")
    exact(first.messages + second.messages, writer.written)


def test_a_commit_of_a_member_whose_place_another_has_taken(room: Room, topic_name: str) -> None:
    _, first = read_by_one(room, topic_name)
    second = room.member(topic_name, group_instance_id="one")
    read_until([second], lambda: second.partitions == [0, 1], "the place of the first")
    with pytest.raises(RequestError, match=FENCED):
        commit_on(first)
    with pytest.raises(RequestError, match=FENCED):
        first.consumer.poll(0)


@pytest.mark.parametrize("call", ["commit", "poll"])
def test_a_member_that_works_for_longer_than_its_group_waits(room: Room, topic_name: str, call: str) -> None:
    """A commit without the member's id, which is gone by then, would end librdkafka's client for good (D-499)."""
    create(room.cluster, topic_name, 2)
    writer = NumberedWriter(room.cluster, topic_name)
    writer.write()
    member = room.member(
        topic_name,
        group_instance_id="one",
        max_poll_interval_ms=3000,
        enable_auto_commit=call == "poll",
        auto_commit_interval_ms=1,
    )
    read_until([member], lambda: bool(member.messages), "a first record")
    await_true(lambda: not member.consumer.memberid(), "librdkafka has given the place up")
    if call == "commit":
        with pytest.raises(RebalancedError):
            member.consumer.commit()
    writer.write()
    # What was not committed comes again.
    read_until([member], lambda: distinct([member]) == writer.written, "all records")
    member.consumer.commit()


@pytest.mark.parametrize("call", ["commit", "poll", "subscribe", "subscribe when told"])
def test_a_member_that_works_for_too_long_leaves_its_place_to_the_process_that_has_it(
    room: Room, topic_name: str, call: str
) -> None:
    """librdkafka would take it back, and so end a member that did nothing wrong (D-501)."""
    lost: list[int] = []

    def on_lost(consumer: OrderedConsumer, partitions: list[TopicPartition]) -> None:
        lost.append(len(partitions))
        if call == "subscribe when told":
            consumer.subscribe([topic_name])

    writer, first = read_by_one(room, topic_name, on_lost, max_poll_interval_ms=3000)
    await_true(lambda: not first.consumer.memberid(), "librdkafka has given the place up")
    second = room.member(topic_name, group_instance_id="one")
    read_until([second], lambda: len(second.messages) == writer.written, "the place of the first")
    if call == "commit":
        with pytest.raises(RebalancedError):
            first.consumer.commit()
    if call == "subscribe":
        first.consumer.subscribe([topic_name], on_lost=on_lost)
    for _ in range(2):
        with pytest.raises(RequestError, match=FENCED):
            read_until([first], lambda: False, "the end of the first one")
    first.consumer.close()
    writer.write()
    read_until([second], lambda: len(second.messages) == writer.written, "later records")
    second.consumer.commit()
    assert lost == [2]


@pytest.mark.parametrize("more", [{}, {"group_instance_id": "one"}], ids=["dynamic", "static"])
def test_what_is_committed_in_on_revoke_by_a_member_that_is_closed(
    room: Room, topic_name: str, more: dict[str, str]
) -> None:
    create(room.cluster, topic_name, 2)
    writer = NumberedWriter(room.cluster, topic_name)
    writer.write()
    first = room.member(enable_auto_commit=False, **more)
    revoked: list[int] = []

    def commit(consumer: OrderedConsumer, partitions: list[TopicPartition]) -> None:
        revoked.append(len(partitions))
        consumer.commit()
        assert sum(max(one.offset, 0) for one in consumer.committed(partitions)) >= writer.written

    first.consumer.subscribe([topic_name], on_revoke=commit)
    read_until([first], lambda: len(first.messages) == writer.written, "all records")
    first.consumer.close()
    assert revoked == [2]
    second = room.member(topic_name, enable_auto_commit=False, **more)
    writer.write()
    read_until([second], lambda: len(first.messages + second.messages) >= writer.written, "later records")
    exact(first.messages + second.messages, writer.written)


def commit_on(member: Member) -> None:
    """The first commit that is refused says as after a rebalance that others have the partitions."""
    for _ in range(100):
        with suppress(RebalancedError):
            member.consumer.commit()
