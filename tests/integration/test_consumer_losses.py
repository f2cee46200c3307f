"""OrderedConsumer where logs have lost what its group waits for: it says so, and follows ``auto.offset.reset``."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from spark_ordered_kafka.client import losses
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.schemas import CreateTopicRequest
from spark_ordered_kafka.errors import DataLossError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.local import LocalCluster
from tests.integration import unclean
from tests.integration.members import (
    Member,
    Room,
    all_of,
    committed,
    distinct,
    idle,
    numbers,
    of_partition,
    read_until,
    settle,
)
from tests.queries import await_stable
from tests.servers import TIMEOUT, await_true, unique_name
from tests.streams import NumberedWriter, change, create


@pytest.fixture(autouse=True)
def _short_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(losses, "INTERVAL", 1.0)


@pytest.fixture
def room_of_three(three_brokers: LocalCluster) -> Iterator[Room]:
    with ExitStack() as stack:
        yield Room(three_brokers, stack)


class Shrunk:
    """A topic of two partitions that had four, with records of each layout; loses the log of partition 3."""

    def __init__(self, cluster: LocalCluster, topic: str) -> None:
        self.cluster = cluster
        self.topic = create(cluster, topic, 2)
        self.writer = NumberedWriter(cluster, topic, keys=20, step=2)
        for count in (4, 2):
            self.writer.write()
            change(cluster, topic, count)
        self.writer.write()
        await_stable(cluster, topic)
        (self.lost,) = self._ends(3)

    def lose(self) -> None:
        """The only replica's disk is another one when its broker comes back."""
        admin = KafkaAdmin(self.cluster.bootstrap_servers, timeout=TIMEOUT)
        leader = admin.describe_topics([self.topic])[self.topic].partitions[3].leader
        self.cluster.kill(f"broker-{leader}")
        (log,) = self.cluster.directory.glob(f"broker-{leader}/**/{self.topic}-3")
        shutil.rmtree(log)
        self.cluster.start(f"broker-{leader}")

        def all_lead() -> bool:
            return all(row.leader >= 0 for row in admin.describe_topics([self.topic])[self.topic].partitions)

        await_true(all_lead, "leaders of all partitions")
        assert self._ends(3) == [0]
        admin.close()

    def _ends(self, *partitions: int) -> list[int]:
        admin = KafkaAdmin(self.cluster.bootstrap_servers, timeout=TIMEOUT)
        found = admin.log_ends(self.topic, partitions)
        admin.close()
        return [found[p].offset for p in partitions]


def newest(writer: NumberedWriter, member: Member) -> int:
    """How many of the writer's last records were delivered."""
    found: Any = {(m.key(), m.value()) for m in member.messages}
    last = {(f"k{key}".encode(), f"k{key}:{writer.written // 20 - 1}".encode()) for key in range(20)}
    return len(found & last)


@pytest.mark.long
@pytest.mark.parametrize("was_read", [False, True])
def test_a_removed_partition_whose_disk_was_lost(
    room_of_three: Room, topic_name: str, caplog: pytest.LogCaptureFixture, was_read: bool
) -> None:
    room = room_of_three
    shrunk = Shrunk(room.cluster, topic_name)
    first = room.member(topic_name, auto_commit_interval_ms=100) if was_read else None
    if first is not None:
        read_until([first], lambda: len(first.messages) == shrunk.writer.written, "all records")
        read_until([first], lambda: committed_of(room, topic_name, 3) == shrunk.lost, "all offsets")
        first.consumer.close()
    else:
        begin(room, topic_name)
    shrunk.lose()
    strict = room.member(topic_name, auto_offset_reset="error")
    with pytest.raises(
        DataLossError, match=rf"offsets 0 to {shrunk.lost - 1} of {topic_name}-3.*auto\.offset\.reset"
    ):
        read_until([strict], lambda: False, "the error")
    strict.consumer.close()

    shrunk.writer.write()
    lenient = room.member(topic_name, auto_commit_interval_ms=100)
    read_until([lenient], lambda: newest(shrunk.writer, lenient) == 20, "the newest records of all keys")
    told = f"offsets 0 to {shrunk.lost - 1} of {topic_name}-3"
    read_until([lenient], lambda: told in caplog.text, "a warning of what is lost")
    keys, found = numbers(lenient.messages)
    for key in set(keys):
        assert sorted(found[keys == key]) == list(found[keys == key])
    # Nobody has to find it out again, and what is written there later is read.
    read_until([lenient], lambda: committed_of(room, topic_name, 3) == 0, "the offset where the log goes on")
    lenient.consumer.close()
    later = room.member(topic_name, auto_offset_reset="error")
    shrunk.writer.write()
    read_until([later], lambda: newest(shrunk.writer, later) == 20, "later records")


def test_a_member_says_what_it_waits_for(
    room: Room, topic_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    shrunk = Shrunk(room.cluster, topic_name)
    members = [room.member(topic_name, enable_auto_commit=False) for _ in range(3)]
    told = re.compile(rf"{topic_name}-\d waits for {topic_name}-\d to be processed up to offset \d+")
    # Nobody commits: some soon wait for others.
    read_until(members, lambda: told.search(caplog.text) is not None, "what is waited for")

    def done() -> bool:
        for member in members:
            member.consumer.commit()
        return distinct(members) == shrunk.writer.written

    read_until(members, done, "all records")


@pytest.mark.long
def test_a_log_that_was_truncated_and_has_grown_beyond_the_position(
    room_of_three: Room, topic_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    room = room_of_three
    election = soon_truncated(room, topic_name)
    begin(room, topic_name, 1)
    strict = room.member(topic_name, auto_offset_reset="error")
    all_of(strict, 15)
    room.group = unique_name("group")
    lenient = room.member(topic_name)
    all_of(lenient, 15)
    left = unique_name("group")
    for room.group in (left, f"{left}-lenient"):
        gone = room.member(topic_name)
        all_of(gone, 15)
        gone.consumer.close()
    lose_and_grow(room, topic_name, election)
    with pytest.raises(DataLossError, match=rf"offsets 5 to 14 of {topic_name}-0"):
        read_until([strict], lambda: False, "the error")
    lenient.messages.clear()
    all_of(lenient, 30)
    assert of_partition(lenient.messages, 0) == list(range(5, 35))
    assert f"offsets 5 to 14 of {topic_name}-0" in caplog.text
    # So do those who take up what others have committed.
    room.group = left
    with pytest.raises(DataLossError, match=rf"offsets 5 to 14 of {topic_name}-0"):
        read_until([room.member(topic_name, auto_offset_reset="error")], lambda: False, "the error")
    room.group = f"{left}-lenient"
    successor = room.member(topic_name)
    all_of(successor, 30)
    assert of_partition(successor.messages, 0) == list(range(5, 35))
    election.restore()


def soon_truncated(room: Room, topic: str) -> unclean.UncleanElection:
    """A partition with 15 records, of which the follower, which is away, has 5."""
    with ControllerClient(room.cluster.controller_url) as controller:
        controller.create_topic(
            CreateTopicRequest(topic=topic, partitions=1, replication_factor=2, configs=unclean.CONFIG)
        )
    unclean.write(room.cluster, topic, 0, 5)
    election = unclean.UncleanElection(room.cluster, topic, 0)
    election.stop_follower()
    unclean.write(room.cluster, topic, 0, 10)
    return election


def lose_and_grow(room: Room, topic: str, election: unclean.UncleanElection) -> None:
    """The log is truncated, and has grown beyond where it ended before."""
    election.stop_leader()
    assert election.elect_follower().offset == 5
    unclean.write(room.cluster, topic, 0, 30)


@pytest.mark.long
def test_pauses_and_seeks_hide_no_truncation(room_of_three: Room, topic_name: str) -> None:
    """Of a partition that was paused meanwhile, or is paused or sought before its first record."""
    room, tp = room_of_three, TopicPartition(topic_name, 0)
    election = soon_truncated(room, topic_name)
    begin(room, topic_name, 1)

    def in_own_group(**more: Any) -> Member:
        room.group = unique_name("group")
        begin(room, topic_name, 1)
        member = room.member(topic_name, **more)
        all_of(member, 15)
        return member

    strict, lenient = in_own_group(auto_offset_reset="error"), in_own_group()
    for member in (strict, lenient):
        member.consumer.pause([tp])
        idle(member)
    groups = []
    for _ in range(3):
        in_own_group().consumer.close()
        groups.append(room.group)
    lose_and_grow(room, topic_name, election)
    # One of them serves its group meanwhile.
    assert idle(lenient) == []
    for member in (strict, lenient):
        member.consumer.resume([tp])
    with pytest.raises(DataLossError, match=rf"offsets 5 to 14 of {topic_name}-0"):
        read_until([strict], lambda: False, "the error")
    lenient.messages.clear()
    all_of(lenient, 30)
    assert of_partition(lenient.messages, 0) == list(range(5, 35))

    for room.group, offset in zip(groups, (None, 10, 20), strict=True):
        member = room.member()

        def begin_elsewhere(consumer: Any, _: Any, to: int | None = offset) -> None:
            if to is None:
                consumer.pause([tp])
            else:
                consumer.seek(TopicPartition(topic_name, 0, to))

        member.consumer.subscribe([topic_name], on_assign=begin_elsewhere)
        if offset is None:
            settle([member], 1)
            assert idle(member) == []
            member.consumer.resume([tp])
        all_of(member, 30)
        assert of_partition(member.messages, 0) == list(range(5, 35))
    election.restore()


def begin(room: Room, topic: str, partitions: int = 4) -> None:
    """The group begins, and reads nothing."""
    starter = room.member(topic, enable_auto_commit=False)
    read_until([starter], lambda: min(committed(room, topic, partitions)) >= 0, "the group's first offsets")
    starter.consumer.close()


def committed_of(room: Room, topic: str, partition: int) -> int:
    probe = room.member(enable_auto_commit=False)
    (found,) = probe.consumer.committed([TopicPartition(topic, partition)])
    probe.consumer.close()
    return int(found.offset)
