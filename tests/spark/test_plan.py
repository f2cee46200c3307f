"""Planning of tasks, on snapshots made by hand."""

from spark_ordered_kafka.client.topics import TopicLayouts, TopicSnapshot
from spark_ordered_kafka.config import Splitting
from spark_ordered_kafka.kafka.segments import Segment
from spark_ordered_kafka.ordering import Layout, LayoutHistory
from spark_ordered_kafka.ordering.routing import Routing
from spark_ordered_kafka.spark.plan import batch_tasks, segments_of, split, stream_tasks, unordered_tasks

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


def test_a_stream_has_a_task_per_partition() -> None:
    tasks = stream_tasks(segments_of(LAYOUTS, {}, {0: 12, 1: 3}))
    assert [[s.partition for s in task.segments] for task in tasks] == [[0, 0], [1]]


def test_a_batch_has_a_task_per_initial_bucket_in_the_order_of_epochs() -> None:
    tasks = batch_tasks(segments_of(LAYOUTS, {}, SNAPSHOT.ends), {"t": 2})
    assert [[(s.epoch, s.partition) for s in task.segments] for task in tasks] == [
        [(0, 0), (1, 0), (1, 2), (2, 0)],
        [(0, 1)],
    ]


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
