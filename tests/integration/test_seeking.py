"""An OrderedConsumer that seeks: every key stays in order, or the seek is refused."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from typing import cast

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_STORED,
    TopicPartition,
)

from spark_ordered_kafka import OrderedConsumer
from spark_ordered_kafka.errors import ClosedError, ConfigError, OrderedKafkaError
from tests.integration.members import (
    Member,
    Room,
    all_of,
    at,
    committed,
    conf,
    distinct,
    exact,
    idle,
    in_order,
    of_partition,
    partitions_of,
    read_until,
    settle,
)
from tests.queries import await_stable
from tests.servers import TIMEOUT
from tests.streams import NumberedWriter, change, create, written_through


@pytest.mark.parametrize("commits", [True, False])
def test_seeking_within_a_layout(room: Room, topic_name: str, commits: bool) -> None:
    create(room.cluster, topic_name, 1)
    writer = NumberedWriter(room.cluster, topic_name)
    writer.write()
    member = room.member(topic_name, enable_auto_commit=commits)
    consumer = member.consumer
    all_of(member, writer.written)
    consumer.commit()
    consumer.seek(at(topic_name, 0, 40))
    assert consumer.position(partitions_of(topic_name, 0)) == [at(topic_name, 0, 40)]
    # Behind what is committed: others, and whoever comes next, go by what is committed.
    assert committed(room, topic_name, 1) == [40]
    member.messages.clear()
    all_of(member, writer.written - 40)
    assert of_partition(member.messages, 0) == list(range(40, writer.written))
    consumer.seek(at(topic_name, 0, OFFSET_STORED))
    consumer.seek(at(topic_name, 0, OFFSET_BEGINNING))
    member.messages.clear()
    all_of(member, writer.written)
    exact(member.messages, writer.written)
    member.messages.clear()
    consumer.seek(at(topic_name, 0, OFFSET_BEGINNING))
    consumer.seek(at(topic_name, 0, OFFSET_END))
    writer.write()
    all_of(member, 100)
    assert min(of_partition(member.messages, 0)) > 100
    for wrong in (at(topic_name, 0, 10_000), at(topic_name, 0, -1001)):
        with pytest.raises(ConfigError, match=r"an offset from 0 to 20\d"):
            consumer.seek(wrong)


def test_what_is_skipped_counts_as_processed(room: Room, topic_name: str) -> None:
    written_through(room.cluster, topic_name, 1, 2)
    member = room.member(topic_name, enable_auto_commit=False)
    all_of(member, 5)
    boundary = 101
    member.consumer.seek(at(topic_name, 0, boundary))
    read_until([member], lambda: len(of_partition(member.messages, 1)) > 0, "the partition that waited")
    member.consumer.commit()
    assert committed(room, topic_name, 2)[0] >= boundary


def test_seeking_back_over_a_boundary_keeps_the_order(room: Room, topic_name: str) -> None:
    writer = written_through(room.cluster, topic_name, 1, 2, 3)
    member = room.member(topic_name)
    consumer = member.consumer
    all_of(member, writer.written)
    exact(member.messages, writer.written)
    # The advice is followed until it works, as a user would.
    wanted = [at(topic_name, 0, 50)]
    for _ in range(20):
        try:
            consumer.seek(wanted[-1])
        except ConfigError as error:
            advised = re.findall(rf"come out of order.*?{topic_name}-(\d+) to (\d+)", str(error))
            assert advised
            wanted += [at(topic_name, int(p), int(offset)) for p, offset in reversed(advised)]
        else:
            wanted.pop()
            if not wanted:
                break
    assert wanted == []
    member.messages.clear()
    all_of(member, writer.written - 50)
    in_order(member.messages)
    assert len(member.messages) == writer.written - 50
    found = committed(room, topic_name, 3)
    successor_of = room.member(topic_name)
    consumer.close()
    settle([successor_of], 3)
    assert idle(successor_of) == [], found


def test_a_member_cannot_seek_back_over_a_boundary_beyond_which_others_read(
    room: Room, topic_name: str
) -> None:
    writer = written_through(room.cluster, topic_name, 2, 4)
    members = [room.member(topic_name) for _ in range(2)]
    settle(members, 4)
    # A rebalance may have delivered some twice.
    read_until(members, lambda: distinct(members) >= writer.written, "all")
    for member in members:
        member.consumer.commit()
    owner = next(one for one in members if 0 in one.partitions)
    assert 2 not in owner.partitions or 0 in owner.partitions
    before = owner.consumer.position(partitions_of(topic_name, 0))
    with pytest.raises(ConfigError, match="come out of order"):
        owner.consumer.seek(at(topic_name, 0, 0))
    assert owner.consumer.position(partitions_of(topic_name, 0)) == before


def test_a_commit_goes_back_where_a_seek_may(room: Room, topic_name: str) -> None:
    writer = written_through(room.cluster, topic_name, 1, 2)
    member = room.member(topic_name, enable_auto_commit=False, enable_auto_offset_store=False)
    consumer = member.consumer
    all_of(member, writer.written)
    consumer.store_offsets(offsets=consumer.position(partitions_of(topic_name, 0, 1)))
    consumer.commit()
    done = committed(room, topic_name, 2)
    first = member.messages[0]
    refused: list[Callable[[], object]] = [
        lambda: consumer.commit(offsets=[at(topic_name, 0, 50)]),
        lambda: consumer.commit(first),
    ]
    for call in refused:
        with pytest.raises(ConfigError, match=rf"-0 at \d+.*read from {topic_name}-1: .*out of order"):
            call()
    # As with librdkafka, what is committed is no lower for an older record that is stored later.
    consumer.store_offsets(first)
    consumer.commit()
    assert committed(room, topic_name, 2) == done
    consumer.commit(offsets=[at(topic_name, 0, 102)])
    assert committed(room, topic_name, 2) == [102, done[1]]


@pytest.mark.parametrize("way", ["commit", "seek"])
def test_behind_an_offset_that_was_taken_back_no_later_records_are_committed(
    room: Room, topic_name: str, way: str
) -> None:
    written_through(room.cluster, topic_name, 1, 2)
    consumer = room.member(enable_auto_commit=False).consumer
    consumer.subscribe([topic_name], on_assign=lambda one, _: one.pause(partitions_of(topic_name, 1)))
    member = Member(consumer)
    read_until([member], lambda: any(at > 101 for at in of_partition(member.messages, 0)), "beyond it")
    consumer.commit()
    before = committed(room, topic_name, 2)[1]
    if way == "seek":
        consumer.seek(at(topic_name, 0, 50))
    else:
        consumer.commit(offsets=[at(topic_name, 0, 50)])
    consumer.resume(partitions_of(topic_name, 1))
    read_until([member], lambda: len(of_partition(member.messages, 1)) > 0, "those that waited")
    consumer.commit(offsets=consumer.position(partitions_of(topic_name, 1)))
    assert committed(room, topic_name, 2) == [50, before]


def test_a_seek_in_on_assign_begins_there(room: Room, topic_name: str) -> None:
    create(room.cluster, topic_name, 1)
    writer = NumberedWriter(room.cluster, topic_name)
    writer.write()
    # Until then the log ends before the records, and no seek may go beyond.
    await_stable(room.cluster, topic_name)
    for number, way in enumerate(("seek", "assign", "incremental_assign")):
        consumer = OrderedConsumer(conf(room.cluster, f"{room.group}-{number}"))

        def begin(consumer: OrderedConsumer, partitions: list[TopicPartition], way: str = way) -> None:
            for one in partitions:
                one.offset = 90
            if way == "seek":
                consumer.seek(partitions[0])
            else:
                getattr(consumer, way)(partitions)

        with consumer:
            consumer.subscribe([topic_name], on_assign=begin)
            member = Member(consumer)
            all_of(member, 10)
            assert of_partition(member.messages, 0) == list(range(90, 100)), way


def test_a_wrong_seek_in_on_assign_is_raised_by_poll_until_it_is_mended(room: Room, topic_name: str) -> None:
    create(room.cluster, topic_name, 1)
    writer = NumberedWriter(room.cluster, topic_name)
    writer.write()
    await_stable(room.cluster, topic_name)
    consumer = room.member().consumer
    consumer.subscribe([topic_name], on_assign=lambda one, _: one.seek(at(topic_name, 0, 7_000)))
    member = Member(consumer)
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"-0 at 7000'.* from 0 to 101"):
            all_of(member, 1)
    consumer.seek(at(topic_name, 0, 0))
    all_of(member, writer.written)
    exact(member.messages, writer.written)


def test_only_assigned_partitions_can_be_steered(room: Room, topic_name: str) -> None:
    create(room.cluster, topic_name, 1)
    NumberedWriter(room.cluster, topic_name).write()
    consumer = room.member().consumer
    calls: dict[str, Callable[[], object]] = {
        "paused": lambda: consumer.pause(partitions_of(topic_name, 0)),
        "resumed": lambda: consumer.resume(partitions_of(topic_name, 0)),
        "sought": lambda: consumer.seek(at(topic_name, 0, 0)),
    }
    for doing, call in calls.items():
        with pytest.raises(ConfigError, match=f"{topic_name}-0.*only assigned partitions can be {doing}"):
            call()
    consumer.close()
    calls |= {"": lambda: consumer.assign([]), "a": consumer.unassign, "b": consumer.list_topics}
    for call in calls.values():
        with pytest.raises(ClosedError):
            call()


@pytest.mark.long
@pytest.mark.parametrize("members", [1, 2])
def test_random_steering_of_a_live_topic(room: Room, topic_name: str, members: int) -> None:
    """Whatever is paused and sought while the topic changes, keys come in order after each seek, and to their end."""
    seed = random.randrange(10**6)
    print(f"seed {seed}")  # noqa: T201 - shown when it fails
    dice = random.Random(seed)
    create(room.cluster, topic_name, 2)
    writer = NumberedWriter(room.cluster, topic_name, keys=12)
    crew = [room.member(topic_name) for _ in range(members)]
    since: dict[tuple[int, bytes], int] = {}
    sought = refused = 0

    def take(who: int, member: Member) -> None:
        for message in member.read(count=20):
            key, number = cast(bytes, message.value()).split(b":")
            # By member: what another one has sought comes there again.
            assert int(number) > since.get((who, key), -1), (key, number)
            since[who, key] = int(number)

    def steer(who: int, member: Member) -> None:
        nonlocal sought, refused
        own = member.consumer.assignment()
        if not own:
            return
        one = dice.choice(own)
        doing = dice.choice(["pause", "resume", "seek"])
        if doing != "seek":
            getattr(member.consumer, doing)([one])
            return
        (position,) = member.consumer.position([one])
        if position.offset <= 0:
            return
        one.offset = max(0, position.offset - dice.choice([1, 20, 200, 10**6]))
        try:
            member.consumer.seek(one)
        except (ConfigError, OrderedKafkaError):
            refused += 1
        else:
            sought += 1
            since.clear()

    with writer.under_load():
        for count in (5, 3, 6, 2):
            change(room.cluster, topic_name, count)
            goal, late = writer.written + 3_000, time.monotonic() + TIMEOUT
            # Members that come late to their partitions have steered nothing yet.
            while writer.written < goal or (count == 2 and not sought and time.monotonic() < late):
                for who, member in enumerate(crew):
                    steer(who, member)
                    for _ in range(3):
                        take(who, member)
    assert sought > 0
    last = writer.written // 12 - 1
    deadline = time.monotonic() + 4 * TIMEOUT
    while {key: max(n for (_, k), n in since.items() if k == key) for _, key in since} != {
        f"k{key}".encode(): last for key in range(12)
    }:
        assert time.monotonic() < deadline, (since, last)
        for who, member in enumerate(crew):
            member.consumer.resume(member.consumer.assignment())
            take(who, member)
    # With more steering than reading, as where the writer is slow, nobody may have come beyond a boundary until now.
    for member in crew:
        member.consumer.commit()
    for member in crew:
        for one in member.consumer.assignment():
            try:
                member.consumer.seek(at(topic_name, one.partition, 0))
            except ConfigError:
                refused += 1
    assert refused > 0
