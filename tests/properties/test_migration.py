"""Places in a topic's logs against brute force: which of them a reader with a gate could have reached."""

from __future__ import annotations

import json

import hypothesis.strategies as st
from hypothesis import example, given, settings

from spark_ordered_kafka.ordering import Layout, LayoutHistory, readable
from spark_ordered_kafka.ordering.migration import (
    kafka_offset,
    overtaken,
    read_kafka_offset,
    read_ordered_offset,
    unread_layouts,
    wrong_positions,
)
from spark_ordered_kafka.ordering.offsets import SourceOffset, TopicOffset
from tests.properties.model import start_of, waits
from tests.properties.test_gate_model import offsets_around, topics
from tests.seeds import examples

TOPICS = st.text("abz.-_09", min_size=1, max_size=8)
OFFSETS = st.integers(0, 2**63 - 1)


@st.composite
def places(draw: st.DrawFn) -> tuple[LayoutHistory, dict[int, int]]:
    topic = draw(topics())
    history = LayoutHistory(topic.initial, topic.layouts)
    found = offsets_around(draw, topic, range(history.partition_count))
    return history, {p: found.get(p, 0) for p in range(history.partition_count)}


@settings(max_examples=examples(200))
@given(places())
def test_overtaken_are_segments_that_were_read_while_their_gate_was_closed(
    place: tuple[LayoutHistory, dict[int, int]],
) -> None:
    history, positions = place
    newest = len(history.layouts) - 1
    closed: dict[tuple[int, int], int] = {}
    for epoch, layout in enumerate(history.layouts):
        for partition in range(layout.count):
            start = start_of(history, epoch, partition)
            end = positions[partition]
            if epoch < newest:
                end = min(end, start_of(history, epoch + 1, partition))
            if start < end:
                for other, needed in waits(history, positions, epoch, partition).items():
                    closed[other, partition] = max(closed.get((other, partition), 0), needed)
    found = overtaken(history, positions)
    assert bool(found) == bool(closed)
    for one in found:
        assert one.start == positions[one.partition]
        assert one.start < one.end <= closed[one.partition, one.by]


@settings(max_examples=examples(200))
@given(places())
def test_a_reader_with_a_gate_overtakes_nothing_and_leaves_the_earlier_layouts_behind(
    place: tuple[LayoutHistory, dict[int, int]],
) -> None:
    history, ahead = place
    ends = {p: max(ahead[p], history.current.start(p)) for p in ahead}
    positions = dict.fromkeys(ends, 0)
    for _ in range(1000):
        assert overtaken(history, positions) == []
        reached = readable(history, positions, ends)
        if reached == positions:
            break
        positions = reached
    assert positions == ends
    assert unread_layouts(history, positions) == {}


@given(st.dictionaries(TOPICS, st.dictionaries(st.integers(0, 10**6), OFFSETS), min_size=1))
@example({"t": {0: 1, 10: 2, 9: 3}})
def test_offsets_of_sparks_own_source_are_read_as_they_are_written(
    positions: dict[str, dict[int, int]],
) -> None:
    text = kafka_offset(positions)
    assert read_kafka_offset(text) == positions
    assert read_ordered_offset(text) is None
    assert " " not in text


@given(st.dictionaries(TOPICS, st.lists(OFFSETS, max_size=5), max_size=4))
def test_our_offsets_are_taken_for_none_of_theirs(positions: dict[str, list[int]]) -> None:
    offset = SourceOffset({topic: TopicOffset("id", 0, tuple(found)) for topic, found in positions.items()})
    text = json.dumps(offset.to_json())
    assert read_kafka_offset(text) is None
    assert read_ordered_offset(text) == offset.to_json()


@given(st.text(max_size=30))
@example("-")
@example("{}")
@example('{"logOffset": 3}')
@example('{"t": {"0": 1.5}}')
@example('{"t": {"0": true}}')
@example('{"t": {"-1": 1}}')
@example('{"t": {"00": 1}}')
@example('{"t": {"0": -1}}')
@example('{"version": 1}')
def test_what_is_neither_is_neither(text: str) -> None:
    assert read_kafka_offset(text) is None
    assert read_ordered_offset(text) is None


def test_positions_outside_the_logs_are_named() -> None:
    history = LayoutHistory(2, [Layout(0, 2, [0, 0])])
    wrong = wrong_positions("t", history, {0: 4, 1: 9, 2: 0}, {0: 5, 1: 0}, {0: 7, 1: 8})
    assert [line.split(":")[0] for line in wrong] == [
        "no layout has t-2 yet",
        "t-0 is at offset 4, and its log begins at 5",
        "t-1 is at offset 9, and committed records end at 8",
    ]
    assert wrong_positions("t", history, {0: 5, 1: 8}, {0: 5, 1: 0}, {0: 7, 1: 8}) == []
    assert wrong_positions("t", history, {0: 7}, {0: 5, 1: 3}, {0: 7, 1: 8}) == [], "as in Spark"
