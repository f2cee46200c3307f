"""An OrderedConsumer whose partitions are paused: every key stays in order."""

from __future__ import annotations

from collections.abc import Collection

import pytest
from confluent_kafka import (
    TopicPartition,
)

from spark_ordered_kafka import OrderedConsumer
from spark_ordered_kafka.client.joining import Joining
from spark_ordered_kafka.client.progress import TopicProgress
from spark_ordered_kafka.client.topic_layouts import TopicLayouts
from spark_ordered_kafka.errors import UnavailableError
from tests.inside import progress_in
from tests.integration.members import (
    Member,
    Room,
    all_of,
    at,
    distinct,
    exact,
    idle,
    of_partition,
    partitions_of,
    read_until,
    settle,
)
from tests.streams import NumberedWriter, change, create, written_through


def test_a_paused_partition_delivers_nothing_and_holds_up_its_keys(room: Room, topic_name: str) -> None:
    create(room.cluster, topic_name, 1)
    writer = NumberedWriter(room.cluster, topic_name)
    writer.write()
    member = room.member(topic_name)
    all_of(member, 5)
    member.consumer.pause(partitions_of(topic_name, 0))
    seen = len(member.messages)
    (position,) = member.consumer.position(partitions_of(topic_name, 0))
    writer.write()
    change(room.cluster, topic_name, 3)
    writer.write()
    assert idle(member) == []
    assert member.consumer.position(partitions_of(topic_name, 0)) == [position]
    assert len(member.messages) == seen
    member.consumer.resume(partitions_of(topic_name, 0))
    all_of(member, writer.written)
    exact(member.messages, writer.written)


def test_a_pause_outlives_a_rebalance(room: Room, topic_name: str) -> None:
    create(room.cluster, topic_name, 2)
    writer = NumberedWriter(room.cluster, topic_name)
    member = room.member(topic_name)
    settle([member], 2)
    member.consumer.pause(partitions_of(topic_name, 0, 1))
    other = room.member(topic_name)
    settle([member, other], 2)
    other.consumer.close()
    settle([member], 2)
    writer.write()
    assert idle(member) == []
    member.consumer.resume(partitions_of(topic_name, 0, 1))
    member.consumer.resume(partitions_of(topic_name, 0))
    all_of(member, writer.written)
    exact(member.messages, writer.written)


def test_a_partition_is_paused_in_on_assign_and_while_the_gate_is_closed(room: Room, topic_name: str) -> None:
    writer = written_through(room.cluster, topic_name, 1, 2)
    consumer = room.member().consumer
    member = Member(consumer)

    def pause_first(consumer: OrderedConsumer, partitions: list[TopicPartition]) -> None:
        consumer.pause([one for one in partitions if one.partition == 0])

    consumer.subscribe([topic_name], on_assign=pause_first)
    settle([member], 2)
    read_until(
        [member],
        lambda: consumer.position(partitions_of(topic_name, 1))[0].offset >= 0,
        "it is not known where to begin",
    )
    # Partition 1 waits for partition 0, which is paused; it is paused itself, and resumed, meanwhile.
    read_until([member], lambda: progress_in(consumer, topic_name, 1).paused, "the gate is not closed")
    consumer.pause(partitions_of(topic_name, 1))
    consumer.resume(partitions_of(topic_name, 0))
    read_until([member], lambda: len(of_partition(member.messages, 0)) > 0, "partition 0")
    read_until([member], lambda: not progress_in(consumer, topic_name, 1).paused, "the gate does not open")
    assert idle(member, 5) == [] or of_partition(member.messages, 1) == []
    consumer.resume(partitions_of(topic_name, 1))
    all_of(member, writer.written)
    exact(member.messages, writer.written)


@pytest.mark.long
@pytest.mark.parametrize("begun_by", ["resume", "seek"])
def test_a_topic_is_read_once_although_another_cannot_be_taken_up_yet(
    room: Room, topic_name: str, monkeypatch: pytest.MonkeyPatch, begun_by: str
) -> None:
    other = f"{topic_name}-other"
    written = sum(written_through(room.cluster, name, 1).written for name in (topic_name, other))
    refused: list[str] = []
    join = Joining.join

    def join_one(
        self: Joining, layouts: TopicLayouts, partitions: Collection[int]
    ) -> tuple[TopicProgress, list[TopicPartition]]:
        if layouts.topic == other and len(refused) < 3:
            refused.append(other)
            raise UnavailableError(f"{other}-0 has no leader")
        return join(self, layouts, partitions)

    monkeypatch.setattr(Joining, "join", join_one)
    member = room.member(topic_name, other, enable_auto_commit=False)
    read_until([member], lambda: refused != [], "the first attempt")
    member.consumer.pause(partitions_of(topic_name, 0))
    if begun_by == "seek":
        member.consumer.seek(at(topic_name, 0, 10))
    member.consumer.resume(partitions_of(topic_name, 0))
    expected = written - (10 if begun_by == "seek" else 0)
    all_of(member, expected)
    assert idle(member) == []
    assert len(member.messages) == distinct([member]) == expected
