"""``furthest`` against brute force: behind the positions lies, of every key, the end of its records, without a gap."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spark_ordered_kafka.ordering import LayoutHistory, readable
from spark_ordered_kafka.ordering.linear import bucket
from spark_ordered_kafka.ordering.resetting import furthest
from tests.properties.test_seeking import HASHES, histories

Places = list[tuple[int, int]]


def logs(data: st.DataObject, history: LayoutHistory) -> tuple[dict[int, int], dict[int, int]]:
    """Starts and ends: retention has taken the beginning of some logs."""
    everything = range(history.partition_count)
    ends = {p: history.current.start(p) + data.draw(st.integers(0, 3)) for p in everything}
    if data.draw(st.booleans()):
        return dict.fromkeys(everything, 0), ends
    return {p: data.draw(st.integers(0, ends[p])) for p in everything}, ends


def read_some(
    data: st.DataObject, history: LayoutHistory, starts: dict[int, int], ends: dict[int, int]
) -> dict[int, int]:
    """Where an ordered reader stands at some point."""
    positions = dict(starts)
    for _ in range(data.draw(st.integers(0, 8))):
        allowed = readable(history, positions, ends)
        positions = {p: data.draw(st.integers(positions[p], allowed[p])) for p in positions}
    return positions


def records(history: LayoutHistory, value: int, starts: dict[int, int], ends: dict[int, int]) -> Places:
    """Where the records of a hash may lie, (partition, offset) in the order of writing."""
    places: Places = []
    for epoch in range(len(history.layouts)):
        p = bucket(value, history.initial_count, history.count(epoch))
        for segment, low, high in history.segments(p, starts[p], ends[p]):
            if segment == epoch:
                places += [(p, offset) for offset in range(low, high)]
    return places


@given(st.data())
def test_what_is_left_of_each_key_is_its_end_without_a_gap(data: st.DataObject) -> None:
    history = data.draw(histories())
    starts, ends = logs(data, history)
    wanted = {p: data.draw(st.integers(0, end)) for p, end in ends.items()}
    found = furthest(history, starts, wanted)
    assert all(starts[p] <= at <= max(wanted[p], starts[p]) for p, at in found.items())
    for value in HASHES:
        left = [offset >= found[p] for p, offset in records(history, value, starts, ends)]
        assert left == sorted(left), (value, found)
    assert furthest(history, starts, found) == found


@given(st.data())
def test_where_a_reader_stands_may_be_taken_as_it_is(data: st.DataObject) -> None:
    history = data.draw(histories())
    starts, ends = logs(data, history)
    positions = read_some(data, history, starts, ends)
    assert furthest(history, starts, positions) == positions
    assert furthest(history, starts, starts) == starts
    assert furthest(history, starts, ends) == ends


@given(st.data())
def test_nothing_is_taken_back_without_need(data: st.DataObject) -> None:
    """No position that a reader can have lies between the result and what was wanted."""
    history = data.draw(histories())
    starts, ends = logs(data, history)
    wanted = {p: data.draw(st.integers(0, end)) for p, end in ends.items()}
    found = furthest(history, starts, wanted)
    for _ in range(3):
        other = read_some(data, history, starts, ends)
        if all(other[p] <= max(wanted[p], starts[p]) for p in other):
            assert all(other[p] <= found[p] for p in other)


@given(st.data())
def test_a_reader_goes_on_in_order_from_there(data: st.DataObject) -> None:
    history = data.draw(histories())
    starts, ends = logs(data, history)
    wanted = {p: data.draw(st.integers(0, end)) for p, end in ends.items()}
    positions = furthest(history, starts, wanted)
    delivered: dict[tuple[int, int], int] = {}
    while positions != ends:
        allowed = readable(history, positions, ends)
        assert allowed != positions, "the reader is stuck"
        for p, end in allowed.items():
            for offset in range(positions[p], end):
                delivered[p, offset] = len(delivered)
        positions = allowed
    for value in HASHES:
        order = [delivered[place] for place in records(history, value, starts, ends) if place in delivered]
        assert order == sorted(order)
