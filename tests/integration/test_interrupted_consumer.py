"""Waits for records that something ends in their middle, and which the application goes on after."""

from __future__ import annotations

from contextlib import suppress

import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from spark_ordered_kafka.client import assignment
from spark_ordered_kafka.errors import UnavailableError
from spark_ordered_kafka.native.messages import fetch
from tests.integration.members import Room, distinct, exact, idle, read_until, settle
from tests.streams import NumberedWriter, change, create


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(KeyboardInterrupt(), id="Ctrl-C"),
        pytest.param(UnavailableError("of a callback"), id="callback", marks=pytest.mark.long),
    ],
)
def test_what_an_interrupted_call_has_fetched_is_delivered_by_the_next_ones(
    room: Room, topic_name: str, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """Ctrl-C in a notebook, where the cell runs once more; or a stats_cb that raises what does not end the consumer."""
    create(room.cluster, topic_name, 2)
    writer = NumberedWriter(room.cluster, topic_name)
    member = room.member(topic_name)
    settle([member], 2)
    left = 0

    def interrupted_behind(consumer: Consumer, most: int, wait: float) -> list[Message]:
        nonlocal left
        found = fetch(consumer, most, wait)
        if left > 0 and any(one.error() is None for one in found):
            left -= 1
            raise error
        return found

    def has_all() -> bool:
        with suppress(type(error)):
            member.read(count=7)
        return left == 0 and len(member.messages) >= writer.written

    monkeypatch.setattr(assignment, "fetch", interrupted_behind)
    for partitions in (3, 2, 4):
        change(room.cluster, topic_name, partitions)
        writer.write(3)
        left = 2
        read_until([], has_all, "all records")
    assert idle(member) == []
    exact(member.messages, writer.written)


@pytest.mark.parametrize("callback", ["_on_assign", "_on_revoke"])
def test_ctrl_c_that_comes_upon_a_rebalance_leaves_no_consumer_without_records(
    room: Room, topic_name: str, callback: str
) -> None:
    """librdkafka then assigned by itself, and the consumer waited for ever."""

    create(room.cluster, topic_name, 4)
    writer = NumberedWriter(room.cluster, topic_name)
    writer.write()
    member = room.member()
    going_on = getattr(member.consumer, callback)
    presses = iter([KeyboardInterrupt()])

    def interrupted_once(*given: object) -> None:
        for pressed in presses:
            raise pressed
        going_on(*given)

    setattr(member.consumer, callback, interrupted_once)
    held: list[int] = []

    def takes(_: object, partitions: list[TopicPartition]) -> None:
        assert not held, "partitions were taken away, and the application was not told"
        held.extend(one.partition for one in partitions)

    def loses(_: object, partitions: list[TopicPartition]) -> None:
        assert sorted(held) == sorted(one.partition for one in partitions)
        held.clear()

    member.consumer.subscribe([topic_name], takes, loses)
    others = []
    if callback == "_on_revoke":
        settle([member], 4)
        others = [room.member(topic_name)]

    with pytest.raises(KeyboardInterrupt):
        read_until([*others, member], lambda: False, "Ctrl-C")
    writer.write()
    read_until([member, *others], lambda: distinct([member, *others]) == writer.written, "all records")
    settle([member, *others], 4)
    assert sorted(held) == member.partitions
    if not others:
        exact(member.messages, writer.written)
