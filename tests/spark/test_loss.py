"""What a truncation does to a layout history."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spark_ordered_kafka.ordering import Layout, LayoutHistory
from spark_ordered_kafka.spark.loss import lower


def test_starts_beyond_the_cut_are_lowered_to_it() -> None:
    history = LayoutHistory(1, [Layout(0, 1, (0,)), Layout(1, 2, (10, 0)), Layout(2, 3, (20, 5, 0))])
    cut = lower(history, {(1, 0): 8, (2, 0): 8})
    assert [layout.starts for layout in cut.layouts] == [(0,), (8, 0), (8, 5, 0)]
    assert cut.epoch_of(0, 8) == 2


def test_a_start_that_was_there_before_is_lowered_with_the_first() -> None:
    """The controller tells of a start once, for the first layout that has it."""
    history = LayoutHistory(1, [Layout(0, 1, (0,)), Layout(1, 2, (10, 0)), Layout(2, 1, (10, 7))])
    assert [layout.starts for layout in lower(history, {(1, 0): 6}).layouts] == [(0,), (6, 0), (6, 7)]


@given(st.lists(st.integers(0, 20), min_size=1, max_size=6), st.integers(0, 100))
def test_lowered_starts_never_decrease_and_stay_below_the_cut(growth: list[int], end: int) -> None:
    """A log that was cut at ``end``: every start beyond is told, once for those that repeat."""
    starts = [0]
    for records in growth:
        starts.append(starts[-1] + records)
    history = LayoutHistory(1, [Layout(epoch, 1, (start,)) for epoch, start in enumerate(starts)])
    told = {
        (epoch, 0): end
        for epoch, start in enumerate(starts)
        if start > end and (epoch == 0 or start != starts[epoch - 1])
    }
    lowered = lower(history, told)
    assert [layout.start(0) for layout in lowered.layouts] == [min(start, end) for start in starts]
