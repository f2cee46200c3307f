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
from tests.properties.model import hashes_of, start_of, universe
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


# Partition 0 has an unread record of layout 1, whose keys never lie in partition 6. The gate, which goes by the end of a
# layout and not by its records, keeps partition 6 closed for the end of layout 3 there, where that has none.
_EMPTY_LAYOUT = LayoutHistory(
    1,
    [
        Layout(0, 1, (0,)),
        Layout(1, 3, (0, 0, 0)),
        Layout(2, 1, (1, 0, 0)),
        Layout(3, 1, (1, 0, 0)),
        Layout(4, 7, (1, 0, 0, 0, 0, 0, 0)),
        Layout(5, 1, (1, 0, 0, 0, 0, 0, 1)),
    ],
)


@settings(max_examples=examples(200))
@given(places())
@example((_EMPTY_LAYOUT, {partition: int(partition == 6) for partition in range(7)}))
def test_overtaken_are_records_before_which_later_ones_of_their_keys_were_read(
    place: tuple[LayoutHistory, dict[int, int]],
) -> None:
    history, positions = place
    late: dict[tuple[int, int], int] = {}
    for epoch, layout in enumerate(history.layouts):
        for partition in range(layout.count):
            start, end = segment(history, epoch, partition)
            if start < min(end, positions[partition]):
                for other, needed in unread_before(history, positions, epoch, partition).items():
                    late[other, partition] = max(late.get((other, partition), 0), needed)
    found = overtaken(history, positions)
    assert bool(found) == bool(late)
    for one in found:
        assert one.start == positions[one.partition]
        assert one.start < one.end <= late[one.partition, one.by]


def segment(history: LayoutHistory, epoch: int, partition: int) -> tuple[int, int]:
    """Offsets [start, end) of a layout's records in a partition."""
    last = epoch == len(history.layouts) - 1
    return start_of(history, epoch, partition), 2**63 if last else start_of(history, epoch + 1, partition)


def unread_before(
    history: LayoutHistory, positions: dict[int, int], epoch: int, partition: int
) -> dict[int, int]:
    """Other partitions that have unread records of earlier layouts and of keys in common, and where those end."""
    found: dict[int, int] = {}
    counts = [layout.count for layout in history.layouts]
    hashes = universe(history.initial_count, *counts)
    own = hashes_of(partition, history.initial_count, counts[epoch], hashes)
    for past in range(epoch):
        for other in set(range(counts[past])) - {partition}:
            start, end = segment(history, past, other)
            if max(start, positions[other]) < end and own & hashes_of(
                other, history.initial_count, counts[past], hashes
            ):
                found[other] = max(found.get(other, 0), end)
    return found


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
