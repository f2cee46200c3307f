"""The gate against the brute-force model, and what it is for: every key in order, and a reader that always ends."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
from hypothesis import given, note, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from spark_ordered_kafka.ordering import blockers, readable
from tests.properties.model import Reader, Topic, model_blockers, model_readable
from tests.seeds import examples

MAX_COUNT = 12
# Few enough that keys repeat, enough that every partition of every count has one.
KEYS = st.integers(0, 23)
FRACTIONS = st.floats(0, 1)


@st.composite
def topics(draw: st.DrawFn) -> Topic:
    """A topic after up to 7 changes, with unevenly written partitions and things that are no ordered records."""
    topic = Topic(draw(st.integers(1, 4)))
    for count in draw(st.lists(st.integers(topic.initial, MAX_COUNT), max_size=7)):
        # Few keys, often none: most partitions of most epochs stay empty, which is where gates go wrong.
        for key in draw(st.lists(KEYS, max_size=10)):
            topic.write(key)
        if draw(st.booleans()):
            topic.append_nothing(draw(st.integers(0, len(topic.logs) - 1)))
        topic.change(count)
    for key in draw(st.lists(KEYS, max_size=6)):
        topic.write(key)
    if draw(st.booleans()):
        topic.create_partitions(draw(st.integers(1, MAX_COUNT + 2)))
    return topic


def offsets_around(draw: st.DrawFn, topic: Topic, keys: range) -> dict[int, int]:
    """Offsets of some of the partitions: boundaries, boundaries missed by one, and anything between."""
    offsets = {}
    for partition in keys:
        boundaries = [layout.start(partition) for layout in topic.layouts]
        length = len(topic.logs[partition]) if partition < len(topic.logs) else 0
        near = st.sampled_from(boundaries).flatmap(lambda at: st.integers(max(0, at - 1), at + 1))
        if draw(st.integers(0, 9)) > 0:
            offsets[partition] = draw(near | st.integers(0, length + 2))
    return offsets


@st.composite
def readings(draw: st.DrawFn) -> tuple[Topic, dict[int, int], dict[int, int]]:
    topic = draw(topics())
    partitions = range(len(topic.logs) + 1)
    return topic, offsets_around(draw, topic, partitions), offsets_around(draw, topic, partitions)


@settings(max_examples=examples(1_000), deadline=None)
@given(readings())
def test_agrees_with_the_rule_at_any_positions(reading: tuple[Topic, dict[int, int], dict[int, int]]) -> None:
    topic, positions, ends = reading
    history = topic.history
    assert readable(history, positions, ends) == model_readable(history, positions, ends), (
        "how far each may go"
    )
    assert blockers(history, positions) == model_blockers(history, positions), "what each waits for"


@settings(max_examples=examples(200), deadline=None)
@given(readings())
def test_a_partition_is_held_exactly_while_it_has_a_blocker(
    reading: tuple[Topic, dict[int, int], dict[int, int]],
) -> None:
    topic, positions, ends = reading
    may_read, waiting = readable(topic.history, positions, ends), blockers(topic.history, positions)
    for partition, end in ends.items():
        at = positions.get(partition, 0)
        known = partition in positions and partition < topic.history.partition_count
        if known and at < end:
            assert (may_read[partition] == at) == (partition in waiting)


@settings(max_examples=examples(300), deadline=None)
@given(readings())
def test_where_a_partition_is_stopped_it_has_a_blocker(
    reading: tuple[Topic, dict[int, int], dict[int, int]],
) -> None:
    topic, positions, ends = reading
    for partition, stop in readable(topic.history, positions, ends).items():
        if stop < ends[partition] and partition < topic.history.partition_count:
            there = {**positions, partition: stop}
            waits = blockers(topic.history, there, (partition,))
            assert waits[partition]
            assert waits == {partition: blockers(topic.history, there)[partition]}


class ReadingAcrossChanges(RuleBasedStateMachine):
    """Writers, partition changes, retention and a reader, in any order; at the end the reader must finish."""

    def __init__(self) -> None:
        super().__init__()
        self.reader = Reader()
        self.ends: dict[int, int] = {}

    @initialize(initial=st.integers(1, 4))
    def begin(self, initial: int) -> None:
        self.topic = Topic(initial)

    @rule(keys=st.lists(KEYS, max_size=16))
    def write(self, keys: list[int]) -> None:
        for key in keys:
            self.topic.write(key)

    @rule(by=st.integers(0, MAX_COUNT), writes=st.lists(KEYS, max_size=3))
    def change(self, by: int, writes: list[int]) -> None:
        self.topic.change(self.topic.initial + by)
        for key in writes:
            self.topic.write(key)

    @rule(count=st.integers(1, MAX_COUNT))
    def create_partitions(self, count: int) -> None:
        self.topic.create_partitions(count)

    @rule(data=st.data())
    def append_nothing(self, data: st.DataObject) -> None:
        self.topic.append_nothing(data.draw(st.integers(0, len(self.topic.logs) - 1)))

    @rule(data=st.data(), fraction=FRACTIONS)
    def delete_records(self, data: st.DataObject, fraction: float) -> None:
        partition = data.draw(st.integers(0, len(self.topic.logs) - 1))
        self.topic.delete_records(partition, int(fraction * len(self.topic.logs[partition])))

    @rule()
    def take_ends(self) -> None:
        """A reader takes its end offsets first; the layout it then fetches may be newer."""
        self.ends = self.topic.ends()

    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        """A batch that takes any part of what is readable from every partition."""
        allowed = self._allowed(self.ends)
        self.reader.read(
            self.topic,
            {p: data.draw(st.integers(self.reader.positions.get(p, 0), end)) for p, end in allowed.items()},
        )

    @rule()
    def read_all_that_is_readable(self) -> None:
        self.reader.read(self.topic, self._allowed(self.topic.ends()))

    def _allowed(self, ends: dict[int, int]) -> dict[int, int]:
        self.reader.skip_deleted(self.topic)
        history, positions = self.topic.history, self.reader.positions
        allowed = readable(history, positions, ends)
        assert allowed == model_readable(history, positions, ends)
        assert blockers(history, positions) == model_blockers(history, positions)
        assert all(
            positions.get(p, 0) <= at <= max(ends[p], positions.get(p, 0)) for p, at in allowed.items()
        )
        return allowed

    def teardown(self) -> None:
        if not hasattr(self, "topic"):
            return
        self.reader.skip_deleted(self.topic)
        while self.reader.has_unread(self.topic):
            before = dict(self.reader.positions)
            self.read_all_that_is_readable()
            note(f"positions {self.reader.positions}")
            assert self.reader.positions != before, "unread records, but nothing is readable"


TestReadingAcrossChanges: Any = ReadingAcrossChanges.TestCase
TestReadingAcrossChanges.settings = settings(
    max_examples=examples(600), stateful_step_count=40, deadline=None
)
