"""A consumer whose controller goes away: what it cannot deliver stays in Kafka, and comes once a controller answers."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Message, TopicPartition

from spark_ordered_kafka.errors import UnavailableError
from spark_ordered_kafka.local import LocalCluster
from tests.integration.gateway import gateway_to
from tests.integration.members import Member, Room, all_of, at, distinct, exact, idle, read_until, settle
from tests.servers import await_true
from tests.streams import NumberedWriter, change, create

CALLS = 10
PER_CALL = 1_000


def test_what_waits_for_a_layout_waits_in_kafka(room: Room, cluster: LocalCluster, topic_name: str) -> None:
    create(cluster, topic_name, 2)
    writer = NumberedWriter(cluster, topic_name, step=2_000)
    with gateway_to(cluster) as gateway:
        gateway.left = sys.maxsize
        member = room.member(topic_name, controller_url=gateway.url)
        writer.write()
        all_of(member, writer.written)
        gateway.left = 0
        writer.write(2)
        # Several calls may fetch before a question for layouts is due, and none after it was refused.
        calls_without = 0

        def holds_nothing() -> bool:
            nonlocal calls_without
            assert member.read(timeout=0.1, count=PER_CALL) == []
            is_refused = gateway.left < 0 and member.consumer._assignment.delivery.held == 0
            calls_without = calls_without + 1 if is_refused else 0
            return calls_without == CALLS

        await_true(holds_nothing, f"nothing is held after {CALLS} calls in a row")
        gateway.left = sys.maxsize
        all_of(member, writer.written)
    exact(member.messages, writer.written)


def test_partitions_at_their_end_are_read_on(room: Room, cluster: LocalCluster, topic_name: str) -> None:
    """Their end alone came while it was not known whether their logs were truncated."""
    create(cluster, topic_name, 2)
    writer = NumberedWriter(cluster, topic_name, step=20)
    with gateway_to(cluster) as gateway:
        gateway.left = sys.maxsize
        member = room.member(topic_name, controller_url=gateway.url, enable_partition_eof=True)
        writer.write()
        read_until([member], lambda: len(records(member)) == writer.written, "all records")
        gateway.left = 0
        last = records(member)[-1]
        # All partitions are fetched anew.
        member.consumer.seek(at(topic_name, last.partition() or 0, last.offset() or 0))
        idle(member)
        assert gateway.left < 0
        gateway.left = sys.maxsize
        writer.write()
        read_until([member], lambda: len(records(member)) == writer.written, "what was written since")
    exact(records(member), writer.written)


def records(member: Member) -> list[Message]:
    """What it has read, without the ends of partitions, and without what came again."""
    found = [one for one in member.messages if one.error() is None]
    return list({(one.partition(), one.offset()): one for one in found}.values())


@pytest.mark.long
def test_members_come_and_go_while_no_controller_answers(
    room: Room, cluster: LocalCluster, topic_name: str
) -> None:
    """For longer than their sessions. What they have read is committed, and the rest comes once, in order."""
    create(cluster, topic_name, 4)
    writer = NumberedWriter(cluster, topic_name, step=20)
    writer.write()
    with gateway_to(cluster) as gateway:
        gateway.left = sys.maxsize
        session = {"session_timeout_ms": 2000, "controller_url": gateway.url, "auto_commit_interval_ms": 100}
        stays, leaves = (room.member(topic_name, **session) for _ in range(2))
        settle([stays, leaves], 4)
        read_until([stays, leaves], lambda: distinct([stays, leaves]) == writer.written, "all records")
        # Processed, and committed as soon as it can be.
        read = stays.messages + leaves.messages
        for member in (stays, leaves):
            member.read()
        gateway.left = 0
        writer.write()
        change(cluster, topic_name, 6)
        writer.write()
        leaves.consumer.close()
        with pytest.raises(UnavailableError, match="no controller answered"):
            room.member(topic_name, **session)
        # It may ask whether there is such a topic, and no more.
        gateway.left = 1
        late = room.member(topic_name, **session)
        members = [stays, late]
        read_until(members, lambda: stays.partitions != [] != late.partitions, "the group has them both")
        for _ in range(3):
            assert [idle(member) for member in members] == [[], []]
        gateway.left = sys.maxsize
        read_until(members, lambda: distinct([stays, leaves, late]) == writer.written, "everything")
        settle(members, 6)
        for member in members:
            assert idle(member) == []
    exact(read + [one for member in members for one in member.messages if one not in read], writer.written)


@pytest.mark.parametrize("begins", ["subscribe", "pattern", "assign"])
def test_a_consumer_that_begins_amid_a_take_over_waits_for_its_end(
    room: Room, cluster: LocalCluster, topic_name: str, begins: str
) -> None:
    create(cluster, topic_name, 1)
    writer = NumberedWriter(cluster, topic_name, step=20)
    writer.write()
    with gateway_to(cluster) as first, gateway_to(cluster) as second, ThreadPoolExecutor() as pool:
        member = room.member(controller_url=f"{first.url},{second.url}")

        def end_after_two_rounds() -> None:
            await_true(lambda: max(first.left, second.left) < -1, "both controllers have refused twice")
            first.left = second.left = sys.maxsize

        taken_over = pool.submit(end_after_two_rounds)
        if begins == "assign":
            member.consumer.assign([TopicPartition(topic_name, 0)])
        else:
            member.consumer.subscribe([f"^{topic_name}$" if begins == "pattern" else topic_name])
        taken_over.result()
        all_of(member, writer.written)
    exact(member.messages, writer.written)
