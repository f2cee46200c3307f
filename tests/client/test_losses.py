"""What a consumer makes of positions that a log does not hold: by offsets, by leader epochs, with records in hand."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from spark_ordered_kafka.client.delivery import Delivery
from spark_ordered_kafka.client.layout_answers import PositionCheck, Truncations, TruncationView
from spark_ordered_kafka.client.losses import INTERVAL, Losses
from spark_ordered_kafka.client.options import Reset
from spark_ordered_kafka.client.partition_progress import Progress
from spark_ordered_kafka.client.progress import TopicProgress
from spark_ordered_kafka.client.topic_layouts import TopicLayouts
from spark_ordered_kafka.errors import DataLossError, UnavailableError
from spark_ordered_kafka.kafka.misrouted import MisroutedFilter
from spark_ordered_kafka.ordering import Layout, LayoutHistory
from spark_ordered_kafka.ordering.handover import LastRead, Release
from spark_ordered_kafka.ordering.routing import Routing


def layouts(*starts: list[int]) -> TopicLayouts:
    """One partition at first, then as many as the layout has starts; a removed one has a start, too."""
    history = LayoutHistory(
        1, [Layout(epoch, max(1, epoch % 2 * 2), one) for epoch, one in enumerate(starts)]
    )
    return TopicLayouts(
        "t", "id", history, tuple(Routing("murmur3", 1, one.count) for one in history.layouts)
    )


def records(*offsets: int) -> list[Message]:
    return [Message(topic="t", partition=0, offset=at, key=b"k", value=b"v") for at in offsets]


class Log:
    """Partition 0 as its leader tells of it: ``ends`` has where the records of leader epochs end."""

    def __init__(self, low: int, high: int, **ends: int) -> None:
        self.low, self.high = low, high
        self.ends = {int(epoch.removeprefix("epoch_")): end for epoch, end in ends.items()}
        self.client = self
        self.unanswered = ""
        self.leader_epochs: Mapping[str, int] = defaultdict(lambda: 6)
        self.has_leader = True
        self.asked: list[str] = []

    def list_topics(self, _topic: str, _timeout: float) -> None:
        pass

    def get_watermark_offsets(self, _place: TopicPartition, _timeout: float) -> tuple[int, int]:
        return self.low, self.high

    def offsets_for_times(self, places: list[TopicPartition], _timeout: float) -> list[TopicPartition]:
        if not self.has_leader:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return [
            TopicPartition(one.topic, one.partition, self.high, leader_epoch=self.leader_epochs[one.topic])
            for one in places
        ]

    def truncations(self, topic: str, checks: list[PositionCheck], _partitions: list[int]) -> Truncations:
        self.asked.append(topic)
        if topic == self.unanswered:
            raise UnavailableError("no controller answered")
        beyond = [one for one in checks if self.ends.get(one.leader_epoch, one.offset) < one.offset]
        rows = [
            TruncationView(one.partition, one.offset, one.leader_epoch, self.ends[one.leader_epoch])
            for one in beyond
        ]
        # A layout's start that was lost is no position.
        return Truncations(topic, "id", [*rows, TruncationView(0, 10_000, 0, 1, layout_epoch=1)])


class Reader:
    """Has read partition 0 to ``position`` under leader epoch 5, and has the rest of 100 records in hand.

    A layout ``begins`` there.
    """

    def __init__(self, log: Log, reset: Reset, position: int = 100, begins: int = 80) -> None:
        self.now = 0.0
        self.log = log
        self.own = Progress.starting(0, Release(0, 0), 0)
        self.topics = {"t": TopicProgress(layouts([0], [begins, 0]), {0: self.own}, {}, 0, keeps_state=False)}
        self.delivery = Delivery(self.topics, MisroutedFilter("warn"))
        directory: Any = log
        self.losses = Losses(directory, directory, self.topics, self.delivery, reset, lambda: self.now)
        self.see(100)
        self.receive(*range(100))
        self.delivery.take(position, lambda *_: None)
        self.own.last = LastRead(position, 5)

    def see(self, end: int) -> None:
        """The log's end was seen, and the layouts asked for."""
        self.own.validated = max(self.own.validated, end)
        self.topics["t"].gate()

    def receive(self, *offsets: int) -> None:
        self.delivery.receive(records(*offsets))
        self.delivery.sort()

    def found(self) -> bool:
        return self.losses.find_range("t", 0)


@pytest.mark.parametrize("high", [60, 130])
def test_a_log_that_was_truncated_is_known_by_its_leader_epochs_however_far_it_has_grown(high: int) -> None:
    with pytest.raises(DataLossError, match="offsets 60 to 99 of t-0"):
        Reader(Log(0, high, epoch_5=60), "error").found()
    lenient = Reader(Log(0, high, epoch_5=60), "earliest")
    assert lenient.found()
    assert (lenient.own.position, lenient.own.received) == (60, 60)
    # Nobody waits for a boundary that was lost; one that is reached again is none.
    assert lenient.own.lost_to == (80 if high == 60 else 0)


@pytest.mark.parametrize(("log", "position"), [(Log(0, 60, epoch_5=60), 100), (Log(90, 100), 50)])
def test_a_boundary_that_was_lost_is_waited_for_while_something_before_it_is_not_processed(
    log: Log, position: int
) -> None:
    """The log was truncated, or retention has deleted its beginning."""
    reader = Reader(log, "earliest", position)
    assert reader.found()
    topic = reader.topics["t"]
    assert topic.release(0, 49).reached == 49
    assert topic.release(0).reached >= 80


def test_without_a_leader_epoch_a_former_leader_may_have_answered() -> None:
    log = Log(0, 60)
    reader = Reader(log, "error")
    assert not reader.found()
    log.high = 130
    reader.now = INTERVAL / 3
    assert reader.found()
    assert reader.own.received == 100
    log.high = 60
    reader.now = 10 * INTERVAL
    assert not reader.found()
    reader.now += INTERVAL
    with pytest.raises(DataLossError, match="offsets 60 to 99"):
        reader.found()


def test_after_a_rebalance_a_short_answer_is_not_believed_at_once() -> None:
    reader = Reader(Log(0, 60), "error")
    assert not reader.found()
    reader.losses.forget([("t", 0)])
    reader.now = 10 * INTERVAL
    assert not reader.found()


class Successor(Reader):
    """Takes partition 0 up at offset 100, behind a marker; others have read the record at 98 under leader epoch 5."""

    def __init__(self, log: Log, reset: Reset) -> None:
        super().__init__(log, reset, begins=10)
        self.own = Progress.starting(100, Release(100, 0, last=LastRead(99, 5)), 0)
        self.topics["t"].own[0] = self.own
        self.losses.assigned()


@pytest.mark.parametrize("end", [60, 99, 100])
def test_what_others_have_read_is_looked_for_once_something_comes(end: int) -> None:
    successor = Successor(Log(0, 130, epoch_5=end), "earliest")
    # Its leader may be away.
    assert not successor.losses.has_begun()
    successor.receive(*range(100, 130))
    assert successor.losses.has_begun()
    assert successor.losses.check_begun() == (end < 99)
    assert not successor.losses.has_begun()
    assert successor.own.received == (60 if end < 99 else 130)
    if end < 99:
        assert successor.topics["t"].uncommitted()[0].offset == 60
        strict = Successor(Log(0, 130, epoch_5=end), "error")
        strict.receive(*range(100, 130))
        with pytest.raises(DataLossError, match="offsets 60 to 99"):
            strict.losses.check_begun()


@pytest.mark.parametrize(("offset", "epoch", "is_kept"), [(100, 5, True), (98, 5, False), (100, 6, False)])
def test_nothing_is_asked_where_a_record_of_the_last_leader_follows(
    offset: int, epoch: int, is_kept: bool
) -> None:
    log = Log(0, 130)
    successor = Successor(log, "earliest")
    successor.receive(*range(100, 130))
    successor.losses.received(Message(topic="t", partition=0, offset=offset, leader_epoch=epoch))
    assert successor.losses.has_begun() != is_kept
    assert not successor.losses.check_begun()
    assert log.asked == ([] if is_kept else ["t"])


@pytest.mark.parametrize("has_leader", [True, False])
def test_of_many_topics_leaders_are_asked_before_controllers(has_leader: bool) -> None:
    """A log is truncated by elections only, and each has another leader epoch."""
    log = Log(0, 130, epoch_5=60)
    log.leader_epochs, log.has_leader = defaultdict(lambda: 5, t3=6), has_leader
    successor = Successor(log, "earliest")
    names = [f"t{number}" for number in range(10)]
    for name in names:
        own = Progress.starting(100, Release(100, 0, last=LastRead(99, 5)), 0)
        own.end = 130
        successor.topics[name] = TopicProgress(layouts([0], [10, 0]), {0: own}, {}, 0, keeps_state=False)
    successor.losses.assigned()
    assert successor.losses.check_begun()
    assert log.asked == (["t3"] if has_leader else names)
    assert successor.topics["t3"].own[0].received == 60
    assert successor.topics["t4"].own[0].received == (100 if has_leader else 60)
    assert not successor.losses.has_begun()


def test_what_is_dropped_unchecked_is_fetched_again_wherever_the_gate_is() -> None:
    reader = Reader(Log(0, 200), "earliest", begins=10)
    reader.see(200)
    reader.delivery.receive(records(*range(100, 120)))
    assert reader.delivery.close_unknown() == {("t", 0)}
    assert (reader.own.received, reader.own.limit, reader.own.reached) == (100, 200, 100)
    reader.receive(*range(100, 200))
    assert [one.offset() for one in reader.delivery.take(100, lambda *_: None)] == list(range(100, 200))


def test_nothing_is_moved_before_all_topics_are_asked_about() -> None:
    successor = Successor(Log(0, 130, epoch_5=60), "earliest")
    other = Progress.starting(100, Release(100, 0, last=LastRead(99, 5)), 0)
    successor.topics["u"] = TopicProgress(layouts([0], [10, 0]), {0: other}, {}, 0, keeps_state=False)
    successor.losses.assigned()
    other.end = 100
    successor.receive(*range(100, 130))
    successor.log.unanswered = "u"
    with pytest.raises(UnavailableError):
        successor.losses.check_begun()
    assert successor.own.received == 130
    successor.log.unanswered = ""
    assert successor.losses.check_begun()
    assert successor.own.received == 60


def test_a_partition_that_is_gone_is_not_looked_for() -> None:
    successor = Successor(Log(0, 130, epoch_5=60), "earliest")
    successor.losses.forget([("t", 0)])
    del successor.topics["t"]
    assert not successor.losses.has_begun()


def test_records_in_hand_that_were_lost_are_not_delivered_and_what_replaces_them_is() -> None:
    reader = Reader(Log(0, 60, epoch_5=60), "earliest", position=50)
    assert reader.found()
    assert reader.delivery.ready == 0
    assert (reader.own.position, reader.own.received, reader.own.pending) == (50, 50, 0)
    reader.see(80)
    reader.receive(*range(50, 80))
    assert [one.offset() for one in reader.delivery.take(100, lambda *_: None)] == list(range(50, 80))
    topic = reader.topics["t"]
    topic.committed(topic.uncommitted())
    assert (reader.own.committed.offset, reader.own.dirty) == (80, False)


def test_the_group_does_not_stay_behind_a_truncation() -> None:
    reader = Reader(Log(0, 130, epoch_5=60), "earliest", begins=10)
    topic = reader.topics["t"]
    topic.committed(topic.uncommitted())
    assert topic.uncommitted() == {}
    assert reader.found()
    # Who takes the partition over would begin at 100, which the log has again.
    assert topic.uncommitted()[0].offset == 60
    topic.committed(topic.uncommitted())
    assert topic.uncommitted() == {}


def test_what_was_said_to_be_processed_ends_with_the_log() -> None:
    reader = Reader(Log(0, 60, epoch_5=60), "earliest")
    reader.own.stored = 90
    assert reader.found()
    assert (reader.own.stored, reader.own.position) == (60, 60)


def test_behind_a_truncation_the_gate_is_closed_again() -> None:
    own = Progress.starting(0, Release(0, 1), 0)
    topic = TopicProgress(layouts([0], [5, 0]), {0: own}, {1: Release(10, 1)}, 0, keeps_state=False)
    delivery = Delivery({"t": topic}, MisroutedFilter("warn"))
    own.validated = 100
    topic.gate()
    delivery.receive(records(*range(100)))
    delivery.sort()
    assert len(delivery.take(100, lambda *_: None)) == 100
    topic.cut(0, 60, 60)
    # From offset 70 on keys lie here whose records in partition 1 were read to 10 of 20.
    topic.follow(layouts([0], [5, 0], [70, 20]))
    own.validated = 90
    topic.gate()
    delivery.receive(records(*range(60, 90)))
    delivery.sort()
    assert [one.offset() for one in delivery.take(100, lambda *_: None)] == list(range(60, 70))
    assert topic.waits() == {0: [(1, 20)]}
