"""A consumer that takes long for its records, with a backlog: it keeps few in memory, and the group does not wait for it."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from spark_ordered_kafka import OrderedConsumer
from spark_ordered_kafka.client.layout_answers import LayoutHistoryView
from spark_ordered_kafka.client.layouts import Layouts
from spark_ordered_kafka.errors import RequestError
from tests.integration.members import Member, Room, all_of, conf, read_until
from tests.servers import TIMEOUT
from tests.streams import NumberedWriter, create

CALLS = 100


class Slow(Member):
    """Works for more than a second, by its clock, after each call."""

    def __init__(self, room: Room, topic: str, count: int) -> None:
        self.worked = 0.0
        self.peak = 0
        self._count = count
        super().__init__(OrderedConsumer(conf(room.cluster, room.group), clock=self._clock))
        self.consumer.subscribe([topic])

    def call(self) -> None:
        self.read(count=self._count)
        delivery = self.consumer._assignment.delivery
        self.peak = max(self.peak, delivery.ready + delivery.held)
        self.worked += 1.1

    def _clock(self) -> float:
        return time.monotonic() + self.worked


@pytest.mark.parametrize("count", [pytest.param(1, marks=pytest.mark.long), 100])
def test_a_backlog_stays_in_kafka_until_its_turn(room: Room, topic_name: str, count: int) -> None:
    create(room.cluster, topic_name, 2)
    writer = NumberedWriter(room.cluster, topic_name, keys=20, step=2_000)
    writer.write()
    slow = Slow(room, topic_name, count)
    deadline = time.monotonic() + 4 * TIMEOUT
    with slow.consumer:
        while len(slow.messages) < CALLS * count and len(slow.messages) < writer.written // 2:
            assert time.monotonic() < deadline, len(slow.messages)
            slow.call()
        assert slow.peak <= 1_000
        # Its turn in a rebalance comes before the records that librdkafka has for it.
        other = room.member(topic_name)
        while len(slow.partitions) != 1 or len(other.partitions) != 1:
            assert time.monotonic() < deadline, (slow.partitions, other.partitions)
            slow.call()
            other.read()


def test_a_look_at_idle_topics_holds_up_no_records(
    room: Room, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long it takes: here ten seconds of the consumer's clock for each question to the controller."""
    names = [create(room.cluster, f"{topic_name}-{number}", 1) for number in range(4)]
    asked: list[str] = []
    ask = Layouts.layouts

    def slowly(self: Layouts, questions: Sequence[tuple[str, int]]) -> list[LayoutHistoryView | RequestError]:
        asked.extend(topic for topic, _ in questions)
        return ask(self, questions)

    monkeypatch.setattr(Layouts, "layouts", slowly)
    consumer = OrderedConsumer(
        conf(room.cluster, room.group), clock=lambda: time.monotonic() + 10 * len(asked)
    )
    with consumer:
        member = Member(consumer)
        consumer.subscribe(names)
        # Each at the subscription, where the member joins, and by the look.
        read_until([member], lambda: min(map(asked.count, names)) >= 3, "a look at all topics")
        writer = NumberedWriter(room.cluster, names[0])
        writer.write()
        all_of(member, writer.written)
