"""Members of a consumer group in the test's own process, and what they deliver."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, cast

import numpy as np
from confluent_kafka import OFFSET_INVALID, KafkaException, Message, TopicPartition

from spark_ordered_kafka import OrderedConsumer, PartitionKeyRebalanceListener
from spark_ordered_kafka.checker import check
from spark_ordered_kafka.local import LocalCluster
from tests import streams
from tests.servers import COORDINATOR_BEGINS, TIMEOUT, unique_name


def conf(cluster: LocalCluster, group: str, **more: Any) -> dict[str, Any]:
    # None is to be taken for dead while the machine stands still: members that are closed leave by themselves.
    session = min(30_000, more.get("max_poll_interval_ms", 30_000))
    own = {"auto.offset.reset": "earliest", "session.timeout.ms": session, "heartbeat.interval.ms": 200}
    return (
        streams.conf(cluster, group_id=group)
        | own
        | {
            name if name == "on_commit" or name.endswith("_cb") else name.replace("_", "."): value
            for name, value in more.items()
        }
    )


class Recorder(PartitionKeyRebalanceListener):
    """Notes what it is told, in order, with whatever else the test notes."""

    def __init__(self, story: list[Any]) -> None:
        self.story = story

    def on_partition_key_maybe_revoked(self, partitions: list[TopicPartition]) -> None:
        self.story.append(("revoked", sorted(one.partition for one in partitions)))

    def on_partition_key_assigned(self, partitions: list[TopicPartition]) -> None:
        self.story.append(("assigned", sorted(one.partition for one in partitions)))


class Member:
    """A consumer and all it has delivered."""

    def __init__(self, consumer: OrderedConsumer) -> None:
        self.consumer = consumer
        self.messages: list[Message] = []

    def read(self, timeout: float = 0.05, count: int = 100) -> list[Message]:
        found = self.consumer.consume(count, timeout)
        self.messages += found
        return found

    def poll(self, timeout: float = 0.05, count: int = 100) -> list[Message]:
        """The same, one by one: those that came before an error are kept."""
        before = len(self.messages)
        while len(self.messages) < before + count and (message := self.consumer.poll(timeout)) is not None:
            self.messages.append(message)
        return self.messages[before:]

    @property
    def partitions(self) -> list[int]:
        return sorted(one.partition for one in self.consumer.assignment())


class Room:
    """Opens consumers of one group and closes them at the end."""

    def __init__(self, cluster: LocalCluster, stack: ExitStack) -> None:
        self.cluster = cluster
        self.group = unique_name("group")
        self._stack = stack

    def member(self, *topics: str, listener: Any = None, **more: Any) -> Member:
        consumer = OrderedConsumer(conf(self.cluster, self.group, **more))
        self._stack.callback(consumer.close)
        if topics:
            consumer.subscribe(list(topics), partition_key_listener=listener)
        return Member(consumer)


def read_until(members: Sequence[Member], done: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 4 * TIMEOUT
    while not done():
        assert time.monotonic() < deadline, what
        for member in members:
            member.read()


def begun(
    room: Room, topic: str, partitions: int, steps: int = 1
) -> tuple[streams.NumberedWriter, list[Message]]:
    """The writer of a new topic, and its records, which a member of the group has read, committed, and left."""
    streams.create(room.cluster, topic, partitions)
    writer = streams.NumberedWriter(room.cluster, topic)
    writer.write(steps)
    first = room.member(topic)
    read_until([first], lambda: len(first.messages) == writer.written, "the first records")
    first.consumer.close()
    return writer, first.messages


def settle(members: Sequence[Member], partitions: int) -> None:
    """Until all partitions are assigned, some to everyone."""

    def settled() -> bool:
        shares = [member.partitions for member in members]
        return sum(map(bool, shares)) == min(len(members), partitions) and sorted(
            p for share in shares for p in share
        ) == list(range(partitions))

    read_until(members, settled, f"{partitions} partitions are not assigned")


def distinct(members: Sequence[Member]) -> int:
    """Records delivered, those again after a rebalance counted once."""
    return len({(m.topic(), m.partition(), m.offset()) for member in members for m in member.messages})


def numbers(messages: Sequence[Message]) -> tuple[Any, Any]:
    rows = [cast(bytes, message.value()).decode().split(":") for message in messages]
    return np.array([key for key, _ in rows]), np.array([int(number) for _, number in rows])


def exact(messages: Sequence[Message], written: int) -> None:
    report = check(*numbers(messages), written)
    assert report.violations == 0, report


def committed(room: Room, topic: str, partitions: int) -> list[int]:
    """What the group has committed, by partition; OFFSET_INVALID where nothing, or while its coordinator begins."""
    with OrderedConsumer(conf(room.cluster, room.group, enable_auto_commit=False)) as consumer:
        try:
            found = consumer.committed([TopicPartition(topic, p) for p in range(partitions)])
        except KafkaException as error:
            if error.args[0].code() not in COORDINATOR_BEGINS:
                raise
            return [OFFSET_INVALID] * partitions
    return [one.offset for one in found]


def partitions_of(topic: str, *partitions: int) -> list[TopicPartition]:
    return [TopicPartition(topic, p) for p in partitions]


def at(topic: str, partition: int, offset: int) -> TopicPartition:
    return TopicPartition(topic, partition, offset)


def of_partition(messages: list[Message], partition: int) -> list[int]:
    return [cast(int, one.offset()) for one in messages if one.partition() == partition]


def all_of(member: Member, count: int) -> None:
    read_until([member], lambda: len(member.messages) >= count, f"{count} records")


def in_order(messages: list[Message]) -> None:
    """Each key's numbers ascend."""
    last: dict[bytes, int] = {}
    for message in messages:
        key, number = cast(bytes, message.value()).split(b":")
        assert int(number) > last.get(key, -1), (key, number)
        last[key] = int(number)


def idle(member: Member, rounds: int = 20) -> list[Message]:
    """What comes while everything has had the time to come."""
    return [message for _ in range(rounds) for message in member.read()]
