"""A history without the epochs that every log has outlived answers as the whole one, and never more than it."""

from __future__ import annotations

from typing import Any, cast

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from hypothesis.stateful import initialize, precondition, rule

from spark_ordered_kafka.client.topic_layouts import TopicLayouts
from spark_ordered_kafka.controller.state.records import LayoutRecord
from spark_ordered_kafka.controller.topics.folding import foldable
from spark_ordered_kafka.ordering import LayoutHistory, blockers, readable
from spark_ordered_kafka.ordering.handover import Release, released
from spark_ordered_kafka.ordering.routing import Routing
from tests.properties.group_model import Group, Member
from tests.properties.model import Reader, Topic
from tests.properties.test_gate_model import FRACTIONS, ReadingAcrossChanges, offsets_around, topics
from tests.properties.test_group_model import Consuming
from tests.seeds import examples


def record(topic: Topic, epoch: int, ordered: bool = True) -> LayoutRecord:
    layout = topic.layouts[epoch]
    return LayoutRecord(
        undeleted_partition_count=layout.count,
        starts=list(layout.starts),
        leader_epochs=[0] * len(layout.starts),
        committed_at=0.0,
        ordered_delivery=ordered,
    )


def first_epoch(topic: Topic) -> int:
    """Where the controller would let the history begin."""
    records = {epoch: record(topic, epoch) for epoch in range(len(topic.layouts))}
    return foldable(records, dict(enumerate(topic.log_starts)))


def folded(topic: Topic, first: int) -> LayoutHistory:
    return LayoutHistory(topic.initial, topic.layouts[first:])


@st.composite
def retained(draw: st.DrawFn) -> Topic:
    """A topic whose old records are gone, by retention that is its own in every partition."""
    topic = draw(topics())
    epoch = draw(st.integers(0, len(topic.layouts) - 1))
    for partition, log in enumerate(topic.logs):
        boundary = topic.layouts[epoch].start(partition)
        # Mostly so far that something can be folded, and now and then one that is a record short of it.
        by = draw(st.sampled_from([-1, 0, 0, 0, 0, 1, 5]))
        topic.delete_records(partition, max(0, min(boundary + by, len(log))))
    return topic


@settings(max_examples=examples(400), deadline=None)
@given(retained(), st.data())
def test_behind_the_log_starts_the_gate_answers_as_before(topic: Topic, data: st.DataObject) -> None:
    partitions = range(len(topic.logs))
    positions = {p: topic.log_starts[p] for p in partitions}
    for p, at in offsets_around(cast(st.DrawFn, data.draw), topic, partitions).items():
        positions[p] = max(positions[p], at)
    ends = offsets_around(cast(st.DrawFn, data.draw), topic, partitions)
    whole, part = topic.history, folded(topic, first_epoch(topic))
    assert readable(part, positions, ends) == readable(whole, positions, ends)
    assert blockers(part, positions) == blockers(whole, positions)
    for p, at in positions.items():
        assert part.epoch_of(p, at) == whole.epoch_of(p, at)
        assert part.segments(p, at, at + 9) == whole.segments(p, at, at + 9)


@pytest.mark.long
@settings(max_examples=examples(400), deadline=None)
@given(retained(), st.data())
def test_anywhere_else_it_lets_through_no_more_than_before(topic: Topic, data: st.DataObject) -> None:
    partitions = range(len(topic.logs) + 1)
    positions, ends = (offsets_around(cast(st.DrawFn, data.draw), topic, partitions) for _ in range(2))
    # The controller may also know less than all there was to fold.
    first = data.draw(st.integers(0, first_epoch(topic)))
    whole, part = topic.history, folded(topic, first)
    before, after = readable(whole, positions, ends), readable(part, positions, ends)
    assert all(after[p] <= before[p] for p in ends)
    waiting = blockers(part, positions)
    for p in ends:
        at = positions.get(p, 0)
        if p < part.partition_count and at < part.first_offset(p):
            assert after[p] == at, "nobody knows the epoch of what lies there"
        if p in positions and p < part.partition_count and at < ends[p]:
            assert (after[p] == at) == (p in waiting)
    # Whoever is waited for can get there: by its own log start, or by reading.
    for p, waits in waiting.items():
        assert all(positions.get(q, 0) < needed for q, needed in waits), (p, waits)


@pytest.mark.long
@settings(max_examples=examples(500), deadline=None)
@given(retained(), st.data())
def test_what_a_group_has_not_let_go_stays_held(topic: Topic, data: st.DataObject) -> None:
    """Offsets behind the log start whose metadata names a folded epoch: their owner may still hold the keys."""
    newest, first = len(topic.layouts) - 1, data.draw(st.integers(0, first_epoch(topic)))
    releases = {}
    for p, log in enumerate(topic.logs):
        near = st.sampled_from([layout.start(p) for layout in topic.layouts])
        offset = data.draw(near | st.integers(0, len(log)))
        releases[p] = Release(offset, data.draw(st.integers(-1, newest)))
    whole, part = topic.history, folded(topic, first)
    ends = topic.ends()
    before = readable(whole, released(whole, releases), ends)
    after = readable(part, released(part, releases), ends)
    for p, release in releases.items():
        # Whoever reads p reads on from its offset, not from the one that stands for it.
        assert max(after[p], release.offset) <= max(before[p], release.offset)
        if release.layout_epoch == newest and release.offset >= part.first_offset(p):
            assert released(part, {p: release}) == released(whole, {p: release})


@given(topics(), st.data())
def test_other_initial_buckets_are_not_held_back(topic: Topic, data: st.DataObject) -> None:
    """Of an assignment of whole buckets the other partitions are never read."""
    for p, log in enumerate(topic.logs):
        topic.delete_records(p, len(log))
    part = folded(topic, first_epoch(topic))
    bucket = data.draw(st.integers(0, topic.initial - 1))
    positions = {p: len(log) if p % topic.initial == bucket else 0 for p, log in enumerate(topic.logs)}
    ends = {p: at + 1 for p, at in positions.items() if p % topic.initial == bucket}
    known = {p for p in ends if p < part.partition_count}
    assert {p: at for p, at in readable(part, positions, ends).items() if p in known} == {
        p: ends[p] for p in known
    }


@given(topics(), st.lists(st.booleans(), min_size=8, max_size=8))
def test_writers_that_nobody_fenced_keep_their_epoch(topic: Topic, ordered: list[bool]) -> None:
    """What an unordered epoch's writers still write ends where the next ordered epoch begins, not where the next one does."""
    for p, log in enumerate(topic.logs):
        topic.delete_records(p, len(log))
    epochs = range(len(topic.layouts))
    first = foldable({e: record(topic, e, ordered[e]) for e in epochs}, dict(enumerate(topic.log_starts)))
    fenced = [e for e in epochs if e == 0 or ordered[e - 1] or ordered[e]]
    assert first == max(fenced)


class ReadingAcrossFolding(ReadingAcrossChanges):
    """The same reader, of a history that is folded now and then; and logs whose starts go back when a broker is killed."""

    @initialize(initial=st.integers(1, 4))
    def begin(self, initial: int) -> None:
        self.topic = Topic(initial)
        self.first = 0
        self.gone: dict[int, int] = {}

    @rule()
    def fold(self) -> None:
        self.first = max(self.first, first_epoch(self.topic))

    @rule(fraction=FRACTIONS)
    def delete_many_records(self, fraction: float) -> None:
        for partition, log in enumerate(self.topic.logs):
            self.topic.delete_records(partition, int(fraction * len(log)))

    @precondition(lambda self: self.first > 0)
    @rule(data=st.data())
    def begin_anew_after_a_crash(self, data: st.DataObject) -> None:
        """Records that were deleted are back, and somebody reads from the start."""
        partition = data.draw(st.integers(0, len(self.topic.logs) - 1))
        self.topic.log_starts[partition] = data.draw(st.integers(0, self.topic.log_starts[partition]))
        self.reader = Reader()

    def _allowed(self, ends: dict[int, int]) -> dict[int, int]:
        history = folded(self.topic, self.first)
        # As TopicSnapshot.starts and Joining do.
        for partition, start in enumerate(self.topic.log_starts):
            begin = max(start, history.first_offset(partition))
            self.reader.positions[partition] = max(self.reader.positions.get(partition, 0), begin)
        allowed = readable(history, self.reader.positions, ends)
        assert allowed == readable(self.topic.history, self.reader.positions, ends)
        return allowed

    def teardown(self) -> None:
        if hasattr(self, "topic"):
            base = folded(self.topic, self.first)
            for partition, start in enumerate(self.topic.log_starts):
                self.topic.log_starts[partition] = max(start, base.first_offset(partition))
        super().teardown()


TestReadingAcrossFolding: Any = ReadingAcrossFolding.TestCase
TestReadingAcrossFolding.settings = settings(
    max_examples=examples(300), stateful_step_count=40, deadline=None
)


class FoldingGroup(Group):
    """Records that the group has processed are deleted, and their layouts folded."""

    def __init__(self, topic: Topic, keeps_state: bool) -> None:
        self.first = 0
        super().__init__(topic, keeps_state)

    def fold(self) -> None:
        for partition, release in self.committed.items():
            self.topic.delete_records(partition, release.offset)
        self.first = max(self.first, first_epoch(self.topic))


class MemberAcrossFolding(Member):
    """Knows what it was told when it joined, and what came after, unless that was folded meanwhile."""

    known = 0

    def join(self, partitions: set[int]) -> None:
        self.known = self._first
        super().join(partitions)

    def layouts(self) -> TopicLayouts:
        if self.progress is not None and self._first > self.progress.epoch + 1:
            self.known = self._first
        topic = self.group.topic
        routings = tuple(
            Routing("murmur3", topic.initial, layout.count) for layout in topic.layouts[self.known :]
        )
        return TopicLayouts("t", "id", folded(topic, self.known), routings)

    @property
    def _first(self) -> int:
        assert isinstance(self.group, FoldingGroup)
        return self.group.first


FoldingGroup.member = MemberAcrossFolding


class ConsumingAcrossFolding(Consuming):
    """The group of :class:`Consuming`, while histories are folded."""

    group_of = FoldingGroup

    @rule()
    def fold(self) -> None:
        assert isinstance(self.group, FoldingGroup)
        self.group.fold()


TestConsumingAcrossFolding: Any = ConsumingAcrossFolding.TestCase
TestConsumingAcrossFolding.settings = settings(
    max_examples=examples(200), stateful_step_count=50, deadline=None
)
