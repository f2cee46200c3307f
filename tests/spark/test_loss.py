"""What a truncation, or folding, does to a layout history."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_ordered_kafka.client.layout_answers import PositionCheck, TruncationView
from spark_ordered_kafka.client.topic_layouts import TopicLayouts, TopicSnapshot
from spark_ordered_kafka.client.topics import TopicDirectory
from spark_ordered_kafka.errors import DataLossError
from spark_ordered_kafka.ordering import Layout, LayoutHistory
from spark_ordered_kafka.ordering.offsets import TopicOffset
from spark_ordered_kafka.ordering.routing import Routing
from spark_ordered_kafka.spark.loss import LossGuard, lower
from spark_ordered_kafka.spark.plan import stream_tasks


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


WHOLE = LayoutHistory(
    1, [Layout(0, 1, (0,)), Layout(1, 2, (10, 0)), Layout(2, 2, (20, 5)), Layout(3, 1, (20, 9))]
)
FOLDED = TopicLayouts(
    "t", "id", LayoutHistory(1, WHOLE.layouts[2:]), (Routing("murmur3", 1, 2), Routing("murmur3", 1, 1))
)


def guard(fail: bool) -> LossGuard:
    """Nothing here asks a server."""
    return LossGuard(cast(TopicDirectory, None), fail)


def test_a_controller_that_has_folded_tells_of_a_start_at_a_later_layout() -> None:
    """A reader that knows the layouts before it has the same start earlier, and it must not be left behind the later."""
    assert [layout.starts for layout in lower(WHOLE, {(3, 0): 17}).layouts] == [
        (0,),
        (10, 0),
        (17, 5),
        (17, 9),
    ]
    assert [layout.starts for layout in lower(FOLDED.history, {(2, 0): 17}).layouts] == [(17, 5), (17, 9)]
    assert lower(FOLDED.history, {(1, 0): 3, (7, 1): 3}) == FOLDED.history


def test_reading_begins_at_the_first_layout_where_a_broker_forgot_the_log_start() -> None:
    snapshot = TopicSnapshot(FOLDED, {0: 3, 1: 7}, {0: 40, 1: 12}, {})
    assert snapshot.starts == {0: 20, 1: 7}
    # A log that ends before it was truncated, which is told elsewhere, and its starts are lowered.
    cut = replace(snapshot, ends={0: 17, 1: 12})
    assert cut.starts == {0: 17, 1: 7}
    lowered = replace(snapshot, layouts=replace(FOLDED, history=lower(FOLDED.history, {(2, 0): 17})))
    assert lowered.starts == {0: 17, 1: 7}


def test_a_micro_batch_is_read_again_behind_what_was_folded() -> None:
    start, end = TopicOffset("id", 0, (3, 6)), TopicOffset("id", 3, (30, 12))
    with pytest.raises(
        DataLossError,
        match=r"the micro-batch are gone, and what is known of them: t-0: offsets 3 to 19 \(set failOnDataLoss",
    ):
        guard(True).left(FOLDED, end, start)
    left = guard(False).left(FOLDED, end, start)
    first, second = (task.segments for task in stream_tasks(FOLDED, end, start, left))
    assert [(s.partition, s.epoch, s.start, s.end) for s in first] == [(0, 3, 20, 30)]
    assert [(s.partition, s.epoch, s.start, s.end) for s in second] == [(1, 2, 6, 9), (1, 3, 9, 12)]
    assert [s.routing for s in (*first, *second)] == [FOLDED.routings[1], *FOLDED.routings]


def test_a_micro_batch_of_folded_layouts_alone_has_nothing_left() -> None:
    early = FOLDED.until(1)
    assert (early.history.layouts, early.routings) == (WHOLE.layouts[2:3], FOLDED.routings[:1])
    start, end = TopicOffset("id", 0, (3,)), TopicOffset("id", 1, (12, 2))
    tasks = stream_tasks(early, end, start, guard(False).left(early, end, start))
    assert [task.segments for task in tasks] == [(), ()], "tasks keep their numbers"
    with pytest.raises(DataLossError, match="t-0: offsets 3 to 11; t-1: offsets 0 to 1"):
        guard(True).left(early, end, start)
    assert guard(True).left(early, end, end) == {}, "nothing was to be read"


def test_a_topic_that_is_read_for_the_first_time_has_lost_nothing() -> None:
    end = TopicOffset("id", 3, (30, 12))
    assert guard(True).left(FOLDED, end, None) == {0: 20, 1: 5}
    whole = TopicLayouts("t", "id", WHOLE, (None,) * 4)
    assert guard(True).left(whole, end, None) == {}


ONE_LAYOUT = TopicLayouts("t", "id", LayoutHistory(2, [Layout(0, 2, (0, 0))]), (Routing("murmur3", 2, 2),))


def lenient(*answers: list[TruncationView]) -> LossGuard:
    """A guard whose controller knows these truncations, each time that it is asked."""
    left = iter(answers)
    client = SimpleNamespace(truncations=lambda *_: SimpleNamespace(truncations=next(left)))
    return LossGuard(cast(TopicDirectory, SimpleNamespace(client=client)), fail_on_data_loss=False)


def test_a_log_that_was_cut_is_so_until_the_offset_says_it() -> None:
    """What was planned may not have come about, as when another topic's leader was away."""
    snapshot = TopicSnapshot(ONE_LAYOUT, {0: 0, 1: 0}, {0: 110, 1: 7}, {0: 2, 1: 1})
    guard = lenient([TruncationView(0, 100, leader_epoch=1, end_offset=80)])
    before = TopicOffset("id", 0, (100, 7), (1, 1))
    for _ in range(3):
        assert guard.surviving(snapshot, before)[2] == {0: 80, 1: 7}
    after = TopicOffset("id", 0, (110, 7), (2, 1), resumed={0: 80})
    assert guard.surviving(snapshot, after)[2] == {0: 110, 1: 7}


def test_a_micro_batch_is_not_read_again_because_its_topic_was_adopted_again() -> None:
    snapshot = TopicSnapshot(ONE_LAYOUT, {0: 50, 1: 0}, {0: 100, 1: 7}, {})
    read = TopicOffset("id", 2, (100, 7), resumed={0: 50}, cuts={0: (70,)})
    _, offset, positions = lenient([]).surviving(snapshot, read)
    assert positions == {0: 100, 1: 7}
    assert offset.layout_epoch == 0
    assert offset.ranges_since(read) == []


class Asked:
    """A controller that knows of no truncation, and what it was asked for."""

    def __init__(self) -> None:
        self.checks: list[list[tuple[int, int, int]]] = []

    def truncations(self, _topic: str, checks: list[PositionCheck], _partitions: object) -> object:
        self.checks.append([(one.partition, one.offset, one.leader_epoch) for one in checks])
        return SimpleNamespace(truncations=[])


def asked(
    layouts: TopicLayouts, offset: TopicOffset, leader_epochs: dict[int, int]
) -> list[list[tuple[int, int, int]]]:
    snapshot = TopicSnapshot(layouts, {0: 0, 1: 0}, {0: 100, 1: 7}, leader_epochs)
    client = Asked()
    guard = LossGuard(cast(TopicDirectory, SimpleNamespace(client=client)), fail_on_data_loss=True)
    assert guard.surviving(snapshot, offset)[2] == dict(enumerate(offset.positions))
    return client.checks


def test_a_controller_is_asked_of_what_another_leader_may_have_lost() -> None:
    read = TopicOffset("id", 0, (90, 7), (3, 1))
    assert asked(ONE_LAYOUT, read, {0: 3, 1: 1}) == []
    assert asked(ONE_LAYOUT, TopicOffset("id", 0, (0, 0)), {0: 3, 1: 1}) == []
    assert asked(ONE_LAYOUT, read, {0: 3, 1: 2}) == [[(1, 7, 1)]]
    assert asked(ONE_LAYOUT, read, {1: 1}) == [[(0, 90, 3)]], "what is not known may be another one"
    changed = replace(
        ONE_LAYOUT,
        history=LayoutHistory(1, [Layout(0, 1, (0,)), Layout(1, 2, (80, 0))]),
        routings=(None, None),
    )
    assert asked(changed, replace(read, layout_epoch=1), {0: 3, 1: 1}) == [[]], "a layout's start may be lost"
