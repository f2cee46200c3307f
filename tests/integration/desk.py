"""A source that a test reads, and a target that it writes what was read to."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from confluent_kafka import Message

from spark_ordered_kafka import OrderedProducer
from spark_ordered_kafka.checker import Report
from spark_ordered_kafka.client.sending import OpenTransaction
from tests.integration.members import Member, Room
from tests.queries import await_stable
from tests.servers import TIMEOUT, await_true
from tests.streams import NumberedWriter, create, judged, raw_records

MANUAL: dict[str, Any] = {"enable_auto_commit": False}


class Desk:
    """A source with records, a target, and a producer that commits on request."""

    def __init__(self, room: Room, name: str, stack: ExitStack) -> None:
        self.room = room
        self.source = create(room.cluster, name, 2)
        self.target = create(room.cluster, f"{name}-out", 1)
        self.writer = NumberedWriter(room.cluster, self.source, keys=8, step=5)
        self.writer.write()
        self.stack = stack

    def producer(self) -> OrderedProducer:
        """Dropped at the end of the test."""
        conf = {
            "bootstrap.servers": self.room.cluster.bootstrap_servers,
            "controller.url": self.room.cluster.controller_url,
            "commit.interval.ms": 0,
        }
        producer = OrderedProducer(conf)
        # As if the test had raised: dropped, if it is not closed by then.
        self.stack.callback(producer.__exit__, AssertionError, None, None)
        return producer

    def member(self, **more: Any) -> Member:
        return self.room.member(self.source, **(MANUAL | more))

    def copy(self, member: Member, producer: OrderedProducer, count: int = 10) -> list[Message]:
        """Read and produce ``count`` records, one call at a time."""
        found: list[Message] = []

        def some() -> list[Message]:
            taken = member.read(count=count - len(found))
            for message in taken:
                producer.produce(self.target, message.value(), message.key())
            found.extend(taken)
            return found

        await_true(lambda: len(some()) >= count, f"{count} records")
        return found

    def copy_rest(self, producer: OrderedProducer, *members: Member) -> None:
        """Until the copy has everything, or more; where that does not come, says what is missing and where members stand."""
        rounds = 0

        def done() -> bool:
            nonlocal rounds
            rounds += 1
            found = [self._some(member, producer) for member in members]
            return not any(found) and self.copied() >= self.writer.written

        try:
            await_true(done, "everything copied")
        finally:
            standing = [
                (len(one.messages), one.consumer.position(one.consumer.assignment())) for one in members
            ]
            assert self._report().violations == 0, (self._report(), f"{rounds} rounds", standing)

    def take(self, member: Member, producer: OrderedProducer) -> bool:
        """Read and produce what there is."""
        found = member.read()
        for message in found:
            producer.produce(self.target, message.value(), message.key())
        return bool(found)

    def _some(self, member: Member, producer: OrderedProducer) -> bool:
        found = self.take(member, producer)
        producer.send_offsets(member.consumer)
        producer.commit()
        return found

    def copied(self) -> int:
        return len(self.records())

    def _report(self) -> Report:
        return judged(self.records(), self.writer.written)

    def records(self) -> list[Message]:
        await_stable(self.room.cluster, self.target)
        return list(raw_records(self.room.cluster, self.target, 1))


@contextmanager
def held(name: str, topic: str | None = None) -> Iterator[None]:
    """No ``commit`` or ``abort``, of the topic if given, begins before the end of the block, however fast the servers are."""
    step, released = getattr(OpenTransaction, name), threading.Event()

    def hold(self: OpenTransaction, *arguments: Any) -> Any:
        if topic is None or self._topic == topic:
            assert released.wait(TIMEOUT), f"nobody released the {name}"
        return step(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OpenTransaction, name, hold)
        try:
            yield
        finally:
            released.set()
