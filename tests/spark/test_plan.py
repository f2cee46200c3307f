"""Planning of tasks, on snapshots made by hand."""

import json
from collections.abc import Mapping
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from spark_ordered_kafka.client.topic_layouts import TopicLayouts, TopicSnapshot
from spark_ordered_kafka.kafka.segments import Segment
from spark_ordered_kafka.ordering import Layout, LayoutHistory
from spark_ordered_kafka.ordering.offsets import SourceOffset, TopicOffset
from spark_ordered_kafka.ordering.routing import Routing
from spark_ordered_kafka.spark.options import Splitting
from spark_ordered_kafka.spark.plan import (
    SegmentsPartition,
    batch_tasks,
    segments_of,
    shared_tasks,
    split,
    stream_tasks,
    unordered_tasks,
    with_cuts,
)

HISTORY = LayoutHistory(2, [Layout(0, 2, (0, 0)), Layout(1, 3, (10, 20, 0)), Layout(2, 2, (15, 20, 7))])
ROUTINGS = tuple(Routing("murmur3", 2, count) for count in HISTORY.counts)
LAYOUTS = TopicLayouts("t", "id", HISTORY, ROUTINGS)
SNAPSHOT = TopicSnapshot(LAYOUTS, {0: 0, 1: 4, 2: 0}, {0: 30, 1: 20, 2: 7}, {0: 1, 1: 1, 2: 1})


def test_segments_are_cut_at_the_boundaries() -> None:
    assert segments_of(LAYOUTS, {0: 5}, {0: 30, 1: 20, 2: 7}) == [
        Segment("t", 0, 0, 5, 10, ROUTINGS[0]),
        Segment("t", 0, 1, 10, 15, ROUTINGS[1]),
        Segment("t", 0, 2, 15, 30, ROUTINGS[2]),
        Segment("t", 1, 0, 0, 20, ROUTINGS[0]),
        Segment("t", 2, 1, 0, 7, ROUTINGS[1]),
    ]


END = TopicOffset("id", 2, (12, 3), (7, 8))


def test_a_stream_has_a_task_per_partition() -> None:
    tasks = stream_tasks(LAYOUTS, END, None, {})
    assert [[(s.partition, s.start, s.end, s.leader_epoch) for s in task.segments] for task in tasks] == [
        [(0, 0, 10, 7), (0, 10, 12, 7)],
        [(1, 0, 3, 8)],
    ]


def test_tasks_keep_their_numbers_whatever_is_left_of_them() -> None:
    gone = stream_tasks(None, END, None, {})
    assert [task.segments for task in gone] == [(), ()]
    (first, second) = stream_tasks(LAYOUTS, END, None, {0: 12, 1: 2})
    assert (first.segments, [s.start for s in second.segments]) == ((), [2])


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=4),
    st.integers(1, 12),
    st.integers(1, 50),
)
def test_tasks_follow_from_the_offsets_alone(
    ranges: list[tuple[int, int]], min_partitions: int, max_records: int
) -> None:
    """Without order, too: splits are in the offset, so that other options later, or no topic, change nothing."""
    begin = {"t": TopicOffset("id", 0, tuple(min(one) for one in ranges))}
    end = {"t": TopicOffset("id", 2, tuple(max(one) for one in ranges))}
    planned = with_cuts(end, begin, {"t": LAYOUTS}, Splitting(min_partitions, max_records))
    read = SourceOffset.from_json(json.loads(json.dumps(SourceOffset(planned).to_json()))).topics
    assert read == planned
    whole = segments_of(LAYOUTS, dict(enumerate(begin["t"].positions)), dict(enumerate(end["t"].positions)))
    expected = [[one] for one in split(whole, Splitting(min_partitions, max_records))]
    tasks = stream_tasks(LAYOUTS, read["t"], begin["t"], {})
    assert [[replace(s, leader_epoch=-1) for s in task.segments] for task in tasks] == expected
    assert len(stream_tasks(None, read["t"], begin["t"], {})) == len(tasks)


@given(st.lists(st.integers(0, 3), max_size=8), st.lists(st.integers(1, 3), max_size=8))
def test_every_segment_is_read_by_one_task_in_its_place(segments: list[int], counts: list[int]) -> None:
    """Also where the counts are not those of the tasks."""
    tasks = [
        SegmentsPartition(tuple(Segment("t", place, 0, n, n + 1) for n in range(length)))
        for place, length in enumerate(segments)
    ]
    shared = shared_tasks(tasks, counts)
    assert [one for task in shared for one in task.segments] == [
        one for task in tasks for one in task.segments
    ]
    # A task whose topic has vanished keeps its place among those that share with it.
    gone = shared_tasks([SegmentsPartition(()) for _ in tasks], counts)
    assert len(gone) == len(shared)
    assert shared_tasks(tasks, ()) == tasks


def batch(
    layouts: TopicLayouts, start: dict[int, int], end: Mapping[int, int]
) -> list[list[tuple[int, int]]]:
    """The tasks of a batch, as epochs and partitions."""
    tasks = batch_tasks(segments_of(layouts, start, end), {"t": layouts})
    return [[(s.epoch, s.partition) for s in task.segments] for task in tasks]


def test_a_batch_has_a_task_per_tree_of_segments_in_the_order_of_epochs() -> None:
    assert batch(LAYOUTS, {}, SNAPSHOT.ends) == [[(0, 0), (1, 0), (1, 2), (2, 0)], [(0, 1)]]
    # Behind the first split, the partitions that it made have no key in common until they are one again.
    assert batch(LAYOUTS, {0: 10}, {0: 15, 1: 20, 2: 7}) == [[(1, 0)], [(0, 1)], [(1, 2)]]
    assert batch(LAYOUTS, {0: 10}, {0: 16, 1: 20, 2: 7}) == [[(1, 0), (1, 2), (2, 0)], [(0, 1)]]


def test_a_batch_of_a_topic_that_is_unordered_now_has_a_task_per_partition() -> None:
    unordered = replace(LAYOUTS, routings=(*ROUTINGS[:2], None))
    assert batch(unordered, {}, SNAPSHOT.ends) == [[(0, 0), (1, 0), (2, 0)], [(0, 1)], [(1, 2)]]


def test_a_batch_behind_the_growth_reads_all_partitions_at_once() -> None:
    """2 -> 64: a task each, or two as long as there are records from before."""
    grown = LayoutHistory(2, [Layout(0, 2, (0, 0)), Layout(1, 64, (10, 10, *[0] * 62))])
    layouts = TopicLayouts("t", "id", grown, tuple(Routing("murmur3", 2, count) for count in (2, 64)))
    ends = dict.fromkeys(range(64), 30)
    assert len(batch(layouts, {0: 10, 1: 10}, ends)) == 64
    assert len(batch(layouts, {0: 10, 1: 9}, ends)) == 33
    assert len(batch(layouts, {}, ends)) == 2


def cut(
    sizes: list[int], min_partitions: int | None = None, max_records: int | None = None
) -> list[list[int]]:
    """Sizes of the pieces of segments of these sizes, which follow each other without a gap."""
    segments = [Segment("t", p, 0, 100, 100 + size) for p, size in enumerate(sizes)]
    pieces = split(segments, Splitting(min_partitions, max_records))
    for p, size in enumerate(sizes):
        own = [piece for piece in pieces if piece.partition == p]
        assert [piece.start for piece in own[1:]] == [piece.end for piece in own[:-1]]
        assert (own[0].start, own[-1].end) == (100, 100 + size)
    return [[piece.end - piece.start for piece in pieces if piece.partition == p] for p in range(len(sizes))]


def test_without_order_segments_are_split_as_spark_splits_ranges() -> None:
    assert cut([5, 1]) == [[5], [1]]
    assert cut([5, 1], min_partitions=2) == [[5], [1]]
    assert cut([5], min_partitions=3) == [[1, 2, 2]]
    assert cut([1], min_partitions=3) == [[1]]
    # The small one stays whole, and is left out of the sum that the others share.
    assert cut([10, 1000, 1000], min_partitions=5) == [[10], [500, 500], [500, 500]]
    assert cut([100, 51, 1], max_records=50) == [[50, 50], [25, 26], [1]]
    assert cut([100, 10], min_partitions=4, max_records=50) == [[25, 25, 25, 25], [10]]


def test_every_piece_is_a_task_of_its_own() -> None:
    tasks = unordered_tasks([Segment("t", 0, 0, 0, 4)], Splitting(max_records=2))
    assert [[(s.start, s.end) for s in task.segments] for task in tasks] == [[(0, 2)], [(2, 4)]]
