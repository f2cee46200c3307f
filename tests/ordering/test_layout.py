from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_ordered_kafka.errors import ConfigError, DataLossError
from spark_ordered_kafka.ordering import Layout, LayoutHistory

GROWN = LayoutHistory(
    2,
    [
        Layout(0, 2, [0, 0]),
        Layout(1, 4, [10, 20]),
        Layout(2, 3, [15, 20, 5, 0]),
        Layout(3, 4, [15, 30, 6, 1]),
    ],
)


def test_layouts_are_values() -> None:
    assert Layout(1, 2, [3, 4]) == Layout(1, 2, (3, 4)) == Layout(1, 2, np.array([3, 4]))  # type: ignore[arg-type]
    assert len({GROWN, LayoutHistory(2, list(GROWN.layouts))}) == 1
    assert GROWN.current is GROWN.layouts[3]
    assert type(Layout(1, 1, np.array([3])).starts[0]) is int  # type: ignore[arg-type]


def test_the_callers_list_is_not_shared() -> None:
    starts = [0, 0]
    layout = Layout(0, 2, starts)
    starts[0] = 7
    assert layout.starts == (0, 0)


def test_pickling_leaves_the_cached_arrays_behind() -> None:
    assert GROWN.bounds.shape == (5, 4)
    copy = pickle.loads(pickle.dumps(GROWN))
    assert copy == GROWN
    assert "bounds" not in vars(copy)
    assert copy.epoch_of(0, 12) == 1


def test_a_partition_that_did_not_exist_starts_at_0() -> None:
    assert Layout(1, 4, [10, 20]).start(3) == 0
    assert GROWN.epoch_of(9, 0) == 3
    assert GROWN.segments(9, 0, 4) == [(3, 0, 4)]


def test_epoch_of_takes_the_largest_epoch_where_segments_are_empty() -> None:
    assert [GROWN.epoch_of(0, at) for at in (0, 9, 10, 14, 15, 99)] == [0, 0, 1, 1, 3, 3]
    assert [GROWN.epoch_of(1, at) for at in (19, 20, 29, 30)] == [0, 2, 2, 3]
    assert GROWN.epoch_of(3, 0) == 2


def test_segments_cut_a_range_at_the_boundaries() -> None:
    assert GROWN.segments(0, 4, 40) == [(0, 4, 10), (1, 10, 15), (3, 15, 40)]
    assert GROWN.segments(0, 10, 15) == [(1, 10, 15)]
    assert GROWN.segments(0, 12, 12) == []
    assert GROWN.segments(0, 12, 3) == []


@given(st.integers(0, 4), st.integers(0, 40), st.integers(0, 40))
def test_segments_cover_the_range_with_the_epoch_of_every_offset(
    partition: int, start: int, end: int
) -> None:
    pieces = GROWN.segments(partition, start, end)
    assert [at for _, low, high in pieces for at in range(low, high)] == list(range(start, end))
    assert all(low < high for _, low, high in pieces)
    for epoch, low, high in pieces:
        assert {GROWN.epoch_of(partition, at) for at in range(low, high)} == {epoch}


@pytest.mark.parametrize(
    ("initial", "layouts", "message"),
    [
        (1, [], "at least one layout"),
        (1, [(3, 1, [0]), (5, 2, [0])], "layout_epoch has the value 5: .* 4 is missing"),
        (1, [(0, 1, [0]), (2, 2, [0])], "layout_epoch has the value 2: .* 1 is missing"),
        (0, [(0, 1, [0])], "initial_partition_count has the value 0"),
        (2, [(0, 2, [0, 0]), (1, 1, [0, 0])], "undeleted_partition_count has the value 1"),
        (1, [(0, 1, [3])], r"starts\[0\] of layout 0 has the value 3: epoch 0 starts at offset 0"),
        (
            1,
            [(0, 1, [0]), (1, 2, [5, 0]), (2, 2, [4, 0])],
            r"starts\[0\] of layout 2 has the value 4: .* layout 1, 5",
        ),
        (2, [(0, 2, [0, 0]), (1, 4, [5])], "starts of layout 1 .*cover the 2 partitions of layout 0"),
        (2, [(0, 2, []), (1, 3, [1, 1]), (2, 2, [1, 1])], "starts of layout 2 .*cover the 3 partitions"),
    ],
)
def test_a_history_that_leaves_order_unknown_is_refused(
    initial: int, layouts: list[tuple[int, int, list[int]]], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        LayoutHistory(initial, [Layout(*layout) for layout in layouts])


@pytest.mark.parametrize(
    ("epoch", "count", "starts", "message"),
    [
        (-1, 1, [0], "layout_epoch has the value -1"),
        (0, 0, [], "undeleted_partition_count has the value 0"),
        (0, True, [0], "undeleted_partition_count has the value True"),
        (0, 1, [0, -2], r"starts\[1\] of layout 0 has the value -2"),
        (0, 1, [2**63 - 1], r"starts\[0\] of layout 0"),
        (0, 1, [1.5], "starts of layout 0 .*sequence of offsets"),
        (0, 1, "12", "starts of layout 0 .*sequence of offsets"),
        (0, 1, [None], "starts of layout 0 .*sequence of offsets"),
        (0, 1, [[1]], "starts of layout 0 .*sequence of offsets"),
    ],
)
def test_a_layout_with_wrong_numbers_is_refused(
    epoch: int, count: int, starts: list[int], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        Layout(epoch, count, starts)


def test_negative_lookups_are_refused() -> None:
    with pytest.raises(ConfigError, match="offset has the value -1"):
        GROWN.epoch_of(0, -1)
    with pytest.raises(ConfigError, match="partition has the value -1"):
        GROWN.epoch_of(-1, 0)
    with pytest.raises(ConfigError, match="partition has the value -1"):
        GROWN.segments(-1, 0, 1)


FOLDED = LayoutHistory(2, GROWN.layouts[2:])


def test_a_folded_history_keeps_the_numbers_of_its_epochs() -> None:
    assert (FOLDED.first_epoch, FOLDED.current.epoch, FOLDED.count(2), FOLDED.count(3)) == (2, 3, 3, 4)
    assert [FOLDED.epoch_of(0, at) for at in (15, 99)] == [3, 3]
    assert [FOLDED.epoch_of(1, at) for at in (20, 29, 30)] == [2, 2, 3]
    assert FOLDED.segments(1, 20, 40) == GROWN.segments(1, 20, 40) == [(2, 20, 30), (3, 30, 40)]
    assert [FOLDED.epoch_of(2, at) for at in (5, 6)] == [2, 3]
    assert [FOLDED.start(epoch, 1) for epoch in range(4)] == [20, 20, 20, 30]
    assert pickle.loads(pickle.dumps(FOLDED)) == FOLDED


def test_nothing_is_said_of_what_was_folded() -> None:
    assert FOLDED.first_offset(0) == 15
    assert FOLDED.epoch_of(0, 14) == 1
    assert FOLDED.segments(0, 3, 3) == []
    with pytest.raises(DataLossError, match="offsets 3 to 14 of partition 0 lie before layout epoch 2"):
        FOLDED.segments(0, 3, 40)
    with pytest.raises(ConfigError, match="layout_epoch has the value 1: known are those from 2 to 3"):
        FOLDED.count(1)
    with pytest.raises(ConfigError, match="layout_epoch has the value 4"):
        FOLDED.start(4, 0)


def test_a_history_as_it_was_at_an_epoch() -> None:
    assert GROWN.until(1) == LayoutHistory(2, GROWN.layouts[:2])
    assert GROWN.until(3) is GROWN
    assert FOLDED.until(2).layouts == FOLDED.until(0).layouts == GROWN.layouts[2:3]
    assert FOLDED.until(7) is FOLDED
