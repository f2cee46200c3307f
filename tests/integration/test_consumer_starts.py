"""Where an OrderedConsumer begins: ``auto.offset.reset``, new partitions, records that are gone."""

from __future__ import annotations

import pytest

from spark_ordered_kafka import OrderedConsumer
from spark_ordered_kafka.errors import DataLossError
from tests.integration.members import (
    Recorder,
    Room,
    all_of,
    begun,
    committed,
    distinct,
    exact,
    idle,
    in_order,
    numbers,
    partitions_of,
    read_until,
    settle,
)
from tests.queries import await_stable
from tests.streams import change, create, delete_records, written_through


def test_a_group_that_begins_at_the_end_misses_nothing_new(room: Room, topic_name: str) -> None:
    writer = written_through(room.cluster, topic_name, 2, 4)
    skipped = writer.written
    members = [room.member(topic_name, auto_offset_reset="latest") for _ in range(2)]
    settle(members, 4)
    read_until(members, lambda: min(committed(room, topic_name, 4)) >= 0, "the start is not committed")
    writer.write()
    change(room.cluster, topic_name, 7)
    # Written before anyone can have been assigned the new partitions.
    writer.write()
    read_until(
        members,
        lambda: distinct(members) >= writer.written - skipped,
        "the records since the start",
    )
    found = numbers([message for member in members for message in member.messages])
    assert min(found[1]) == 2 * writer.step
    assert len(set(zip(*found, strict=True))) == writer.written - skipped


def test_without_a_start_the_consumer_says_so(room: Room, topic_name: str) -> None:
    create(room.cluster, topic_name, 1)
    member = room.member(topic_name, auto_offset_reset="error")
    with pytest.raises(
        DataLossError,
        match=r"no offset of .* partition 0, and auto\.offset\.reset is error \(set it to earliest or latest",
    ):
        read_until([member], lambda: False, "no error")


@pytest.mark.long
@pytest.mark.parametrize("joined", ["before the changes", "after them"])
def test_partitions_that_are_new_need_no_reset(room: Room, topic_name: str, joined: str) -> None:
    """The group has no offset of them, and nothing of them was missed: they are read from their start."""
    writer, read = begun(room, topic_name, 2)
    strict = room.member(topic_name, auto_offset_reset="error") if joined == "before the changes" else None
    if strict is not None:
        settle([strict], 2)
    for count in (5, 3, 6):
        change(room.cluster, topic_name, count)
        writer.write()
    strict = strict or room.member(topic_name, auto_offset_reset="error")
    read_until([strict], lambda: len(read + strict.messages) == writer.written, "all later records")
    exact(read + strict.messages, writer.written)


def test_records_of_a_new_partition_that_are_gone_are_named(room: Room, topic_name: str) -> None:
    writer, read = begun(room, topic_name, 1)
    change(room.cluster, topic_name, 2)
    writer.write()
    await_stable(room.cluster, topic_name)
    delete_records(room.cluster, topic_name, {1: 5})
    strict = room.member(topic_name, auto_offset_reset="error")
    with pytest.raises(DataLossError, match=r"offsets 0 to 4 of .*-1 are gone .*reset to earliest"):
        read_until([strict], lambda: False, "no error")
    strict.consumer.close()
    lenient = room.member(topic_name)
    left = writer.written - len(read) - 5
    read_until([lenient], lambda: len(lenient.messages) == left, "what is left")


@pytest.mark.long
@pytest.mark.parametrize("keeps_state", [False, True])
def test_a_new_partition_that_has_lost_its_beginning_waits_for_the_others_all_the_same(
    room: Room, topic_name: str, keeps_state: bool
) -> None:
    """Also where a member looks at the layouts before anything has come."""
    writer = written_through(room.cluster, topic_name, 2, 4)
    await_stable(room.cluster, topic_name)
    delete_records(room.cluster, topic_name, {2: 3, 3: 1})
    member = room.member()
    listener = Recorder([]) if keeps_state else None
    member.consumer.subscribe([topic_name], OrderedConsumer.pause, partition_key_listener=listener)
    settle([member], 4)
    assert idle(member) == []
    member.consumer.resume(partitions_of(topic_name, 2, 3))
    assert idle(member) == []
    member.consumer.resume(partitions_of(topic_name, 0, 1))
    all_of(member, writer.written - 4)
    in_order(member.messages)


@pytest.mark.parametrize("reset", ["earliest", "error"])
def test_records_that_are_gone(room: Room, topic_name: str, reset: str) -> None:
    writer, _ = begun(room, topic_name, 1)
    writer.write(2)
    delete_records(room.cluster, topic_name, {0: 250})
    member = room.member(topic_name, auto_offset_reset=reset)
    if reset == "error":
        with pytest.raises(DataLossError, match=r"offsets 10[01] to 249 of .*-0 are gone"):
            read_until([member], lambda: False, "no error")
        return
    read_until([member], lambda: len(member.messages) == 52, "what is left")
    assert member.messages[0].offset() == 250
