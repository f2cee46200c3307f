"""OrderedConsumer on real servers: order across members, hand-over, commits, starts, losses, refusals."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, Message, TopicPartition

from spark_ordered_kafka import OrderedConsumer, PartitionKeyRebalanceListener
from spark_ordered_kafka.checker import check
from spark_ordered_kafka.client.layouts import Layouts
from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.errors import (
    ClosedError,
    ConfigError,
    ErrorCode,
    RebalancedError,
    RequestError,
    UnavailableError,
)
from spark_ordered_kafka.local import LocalCluster
from tests.inside import directory_of, held_by, progress_in
from tests.integration.members import (
    Recorder,
    Room,
    committed,
    conf,
    distinct,
    exact,
    numbers,
    read_until,
    settle,
)
from tests.queries import await_stable
from tests.servers import TIMEOUT, await_true
from tests.streams import NumberedWriter, change, create, written_through


@pytest.mark.long
@pytest.mark.parametrize("keeps_state", [False, True])
def test_a_wait_for_more_than_may_be_delivered_yet_ends(
    room: Room, topic_name: str, keeps_state: bool
) -> None:
    """Behind a change a key's later records wait until its earlier ones, of another partition, are delivered."""
    writer = written_through(room.cluster, topic_name, 2, 5, 3)
    member = room.member(topic_name, listener=Recorder([]) if keeps_state else None)

    def read_all() -> None:
        while len(member.messages) < writer.written:
            member.read(-1, writer.written - len(member.messages))

    threading.Thread(target=read_all, daemon=True).start()
    await_true(lambda: len(member.messages) == writer.written, "all records, in waits without a limit")
    exact(member.messages, writer.written)


@pytest.mark.parametrize(
    "commits", ["automatically", *(pytest.param(one, marks=pytest.mark.long) for one in ("never", "by hand"))]
)
def test_one_consumer_behind_several_changes(room: Room, topic_name: str, commits: str) -> None:
    create(room.cluster, topic_name, 2)
    writer = NumberedWriter(room.cluster, topic_name)
    for count in (5, 3, 7, 2):
        writer.write(3)
        change(room.cluster, topic_name, count)
    writer.write(3)
    member = room.member(topic_name, enable_auto_commit=commits == "automatically")

    def done() -> bool:
        if commits == "by hand":
            member.consumer.commit()
        return len(member.messages) >= writer.written

    read_until([member], done, "not all was delivered")
    exact(member.messages, writer.written)


def test_poll_follows_a_live_topic(room: Room, topic_name: str) -> None:
    create(room.cluster, topic_name, 1)
    writer = NumberedWriter(room.cluster, topic_name, keys=7)
    consumer = room.member(topic_name).consumer
    found: list[Message] = []
    with writer.under_load():
        for count in (3, 2, 4):
            change(room.cluster, topic_name, count)
            reached = writer.written
            while len(found) < reached:
                message = consumer.poll(TIMEOUT)
                assert message is not None
                found.append(message)
    while len(found) < writer.written:
        message = consumer.poll(TIMEOUT)
        assert message is not None
        found.append(message)
    exact(found, writer.written)
    assert consumer.poll(0) is None


def test_members_share_a_live_topic(room: Room, topic_name: str) -> None:
    other = create(room.cluster, f"{topic_name}-other", 2)
    create(room.cluster, topic_name, 2)
    writer, second = NumberedWriter(room.cluster, topic_name), NumberedWriter(room.cluster, other, keys=5)
    members = [room.member(topic_name, other) for _ in range(3)]

    def has(count: int) -> bool:
        return sum(len(member.messages) for member in members) >= count

    with writer.under_load(), second.under_load():
        for count in (5, 2):
            change(room.cluster, topic_name, count)
            goal = writer.written + second.written + 200
            read_until(members, partial(has, goal), "the load")
    found: dict[tuple[str, int], dict[int, Message]] = {}

    def done() -> bool:
        for member in members:
            for message in member.messages:
                tp = (cast(str, message.topic()), cast(int, message.partition()))
                found.setdefault(tp, {})[cast(int, message.offset())] = message
        return sum(map(len, found.values())) >= writer.written + second.written

    read_until(members, done, "not all was delivered")
    assert sum(map(len, found.values())) == writer.written + second.written


def test_keys_are_handed_over_before_they_are_read_elsewhere(room: Room, topic_name: str) -> None:
    create(room.cluster, topic_name, 2)
    writer = NumberedWriter(room.cluster, topic_name)
    writer.write()
    story: list[Any] = []
    members = [room.member(topic_name, listener=Recorder(story), enable_auto_commit=False) for _ in range(3)]

    def all_read(*, commit: bool) -> bool:
        for member in members:
            if commit:
                member.consumer.commit()
        return distinct(members) == writer.written

    read_until(members, lambda: all_read(commit=True), "the first records")
    # Unread when the layout changes, so that the owner of partition 0, whoever that is then, comes to its boundary.
    writer.write()
    change(room.cluster, topic_name, 3)
    writer.write()
    # Whoever has nothing unprocessed lets go by itself, and the split partition opens.
    read_until(members, lambda: all_read(commit=True), "the second records")
    settle(members, 3)
    writer.write()
    read_until(members, lambda: all_read(commit=False), "the third records")
    change(room.cluster, topic_name, 2)
    writer.write()
    owner = next(member for member in members if 0 in member.partitions)
    holder = next(member for member in members if 2 in member.partitions)
    assert owner is not holder
    # The records of partition 2 are not committed, so partition 0 stays closed, and is paused rather than buffered.
    deadline = time.monotonic() + TIMEOUT
    while not progress_in(owner.consumer, topic_name, 0).paused:
        assert time.monotonic() < deadline, "the gate did not close"
        owner.read()
    assert held_by(owner.consumer) == 0
    assert ("assigned", [0]) not in story
    read_until(members, lambda: all_read(commit=True), "the last records")
    assert story.index(("revoked", [0])) < story.index(("assigned", [2]))
    assert story.index(("revoked", [2])) < story.index(("assigned", [0]))


@pytest.mark.long
def test_partitions_are_spread_evenly_in_both_halves(room: Room, topic_name: str) -> None:
    shapes = [(1, 1), (1, 2), (3, 7), (5, 9), (2, 8), (4, 4)]
    topics = {}
    for number, (live, all_) in enumerate(shapes):
        topic = create(room.cluster, f"{topic_name}-{number}", live)
        if all_ > live:
            change(room.cluster, topic, all_)
            change(room.cluster, topic, live)
        topics[topic] = (live, all_)
    members = [room.member(*topics) for _ in range(3)]

    def shares() -> list[set[tuple[str, int]]]:
        return [{(one.topic, one.partition) for one in member.consumer.assignment()} for member in members]

    total = sum(all_ for _, all_ in shapes)
    read_until(members, lambda: sum(map(len, shares())) == total and all(shares()), "nobody has them")
    assert len(set().union(*shares())) == total
    for topic, (live, all_) in topics.items():
        for half in (range(live), range(live, all_)):
            spread = [sum((topic, p) in share for p in half) for share in shares()]
            assert max(spread) - min(spread) <= 1, (topic, half, spread)


class Refusing(PartitionKeyRebalanceListener):
    def on_partition_key_maybe_revoked(self, partitions: list[TopicPartition]) -> None:
        raise ZeroDivisionError("flush failed")


class Unable(PartitionKeyRebalanceListener):
    def on_partition_key_assigned(self, partitions: list[TopicPartition]) -> None:
        raise ZeroDivisionError("load failed")


@pytest.mark.parametrize("listener", [Refusing(), Unable()], ids=["flush", "load"])
def test_a_listener_that_raises_stops_the_consumer_and_loses_nothing(
    room: Room, topic_name: str, listener: PartitionKeyRebalanceListener
) -> None:
    writer = written_through(room.cluster, topic_name, 1, 3)
    member = room.member(topic_name, listener=listener)
    with pytest.raises(ZeroDivisionError):
        read_until([member], lambda: False, "the listener was not told")
    for call in (member.consumer.poll, member.consumer.commit):
        with pytest.raises(ZeroDivisionError):
            call()
    member.consumer.close()
    successor = room.member(topic_name)
    everything: set[tuple[Any, Any]] = set()

    def done() -> bool:
        for message in member.messages + successor.messages:
            everything.add((message.partition(), message.offset()))
        return len(everything) == writer.written

    read_until([successor], done, "records were lost")
    # Delivered again at most, and still in order.
    report = check(*numbers(successor.messages))
    assert (report.out_of_order, report.duplicated) == (0, 0), report


def test_what_may_be_committed(room: Room, topic_name: str) -> None:
    create(room.cluster, topic_name, 1)
    writer = NumberedWriter(room.cluster, topic_name)
    writer.write()
    member = room.member(topic_name, enable_auto_commit=False)
    read_until([member], lambda: len(member.messages) >= 50, "records")
    consumer, tenth = member.consumer, member.messages[9]
    (position,) = consumer.position([TopicPartition(topic_name, 0)])
    assert position.offset == len(member.messages)
    done = consumer.commit(message=tenth)
    assert done is not None
    assert [one.offset for one in done] == [10]
    assert committed(room, topic_name, 1) == [10]
    assert consumer.commit(offsets=[TopicPartition(topic_name, 0, 5)], asynchronous=True) is None
    assert committed(room, topic_name, 1) == [5]
    for wrong, words in (
        (TopicPartition(topic_name, 0, 1000), "what was delivered"),
        (TopicPartition(topic_name, 7, 0), "only assigned"),
        (TopicPartition(topic_name, 0, 1, metadata="mine"), "consumer's own"),
    ):
        with pytest.raises(ConfigError, match=words):
            consumer.commit(offsets=[wrong])
    with pytest.raises(ConfigError, match="not both"):
        consumer.commit(message=tenth, offsets=[])
    read_until([member], lambda: len(member.messages) == writer.written, "all records")
    behind_the_marker = writer.written + 1
    read_until(
        [member],
        lambda: consumer.commit() is not None and committed(room, topic_name, 1) == [behind_the_marker],
        "the marker of the transaction is not passed",
    )


def test_what_was_not_processed_is_delivered_again(room: Room, topic_name: str) -> None:
    create(room.cluster, topic_name, 1)
    writer = NumberedWriter(room.cluster, topic_name)
    writer.write()
    seen: list[Message] = []

    def fail() -> None:
        # While the group takes long to begin, an interval ends that would commit the first records on the way.
        with OrderedConsumer(conf(room.cluster, room.group, auto_commit_interval_ms=3_600_000)) as consumer:
            consumer.subscribe([topic_name])
            while len(seen) < 20:
                seen.extend(consumer.consume(10, 1.0))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    member = room.member(topic_name)
    read_until([member], lambda: len(member.messages) == writer.written, "the records")
    exact(member.messages, writer.written)


def test_the_end_of_a_partition_is_shown_on_request(room: Room, topic_name: str) -> None:
    create(room.cluster, topic_name, 1)
    NumberedWriter(room.cluster, topic_name, keys=3, step=1).write()
    # Before the marker of the transaction, the end is where it begins.
    await_stable(room.cluster, topic_name)
    consumer = room.member(topic_name, enable_partition_eof=True).consumer
    found = consumer.consume(4, TIMEOUT)
    error = found[-1].error()
    assert error is not None
    assert (error.code(), found[-1].offset()) == (KafkaError._PARTITION_EOF, 4)
    assert [message.error() is None for message in found[:-1]] == [True] * 3


def test_offsets_of_a_lost_partition_do_not_go_into_a_transaction(room: Room, topic_name: str) -> None:
    create(room.cluster, topic_name, 2)
    writer = NumberedWriter(room.cluster, topic_name)
    writer.write()
    first = room.member(topic_name, enable_auto_commit=False)
    read_until([first], lambda: len(first.messages) == writer.written, "records")
    sent = first.consumer.transaction_offsets()
    assert {(one.partition, one.offset > 0) for one in sent.offsets} == {(0, True), (1, True)}
    second = room.member(topic_name, enable_auto_commit=False)
    settle([first, second], 2)
    with pytest.raises(RebalancedError):
        first.consumer.transaction_offsets()
    first.consumer.transaction_aborted()
    first.messages.clear()
    read_until([first, second], lambda: distinct([first, second]) >= writer.written, "again")
    assert first.consumer.transaction_offsets().offsets


def test_use_before_and_after(cluster: LocalCluster, room: Room, topic_name: str) -> None:
    create(cluster, topic_name, 1)
    consumer = room.member().consumer
    assert consumer.poll(0) is None
    assert consumer.assignment() == []
    for topics, words in (
        ("orders", "a list of topic names"),
        ([], "a list of topic names"),
        (["^orders(.*"], "not a regular expression"),
        (["no such/name"], "a topic name has"),
    ):
        with pytest.raises(ConfigError, match=words):
            consumer.subscribe(topics)
    with pytest.raises(RequestError) as refused:
        consumer.subscribe([topic_name, "not-managed"])
    assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert "not-managed" in str(refused.value)
    with pytest.raises(ConfigError, match="num_messages"):
        consumer.consume(-1)
    consumer.subscribe([topic_name])
    consumer.unsubscribe()
    consumer.close()
    consumer.close()
    for call in (
        consumer.poll,
        consumer.commit,
        consumer.assignment,
        lambda: consumer.subscribe([topic_name]),
    ):
        with pytest.raises(ClosedError):
            call()


def test_without_a_controller_nothing_new_is_delivered(
    cluster: LocalCluster, room: Room, topic_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(UnavailableError):
        room.member(topic_name, controller_url="http://127.0.0.1:1")
    create(cluster, topic_name, 1)
    writer = NumberedWriter(cluster, topic_name)
    writer.write()
    member = room.member(topic_name)
    read_until([member], lambda: len(member.messages) == writer.written, "the first records")
    directory = directory_of(member.consumer)
    nowhere = Connection({"bootstrap.servers": cluster.bootstrap_servers}, "http://127.0.0.1:1")
    with Layouts(nowhere, timeout=1.0, retry_for=0.0) as gone:
        present, directory.client = directory.client, gone
        writer.write()
        deadline = time.monotonic() + TIMEOUT
        while "no progress" not in caplog.text:
            assert time.monotonic() < deadline, "no warning"
            assert member.read() == []
        directory.client = present
    read_until([member], lambda: len(member.messages) == writer.written, "the records after")
    exact(member.messages, writer.written)
