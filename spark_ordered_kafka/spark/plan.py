"""Planning of reads: from offsets to tasks. Pure but for the snapshots handed in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from spark_ordered_kafka.kafka.segments import Segment
from spark_ordered_kafka.ordering.offsets import TopicOffset
from spark_ordered_kafka.ordering.trees import Root, roots
from spark_ordered_kafka.spark.options import Splitting

if TYPE_CHECKING:
    from spark_ordered_kafka.client.topic_layouts import TopicLayouts


@dataclass
class SegmentsPartition(InputPartition):
    """One Spark task: segments read one after another, in this order; none where nothing is left of it."""

    segments: tuple[Segment, ...]


def segments_of(
    layouts: TopicLayouts,
    start: Mapping[int, int],
    end: Mapping[int, int],
    leader_epochs: Mapping[int, int] | None = None,
) -> list[Segment]:
    """The segments between two positions, by partition, then by epoch. ``leader_epochs``: those of the ends."""
    known = leader_epochs or {}
    return [
        Segment(
            layouts.topic, partition, epoch, first, last, layouts.routing(epoch), known.get(partition, -1)
        )
        for partition in sorted(end)
        for epoch, first, last in layouts.history.segments(partition, start.get(partition, 0), end[partition])
    ]


def stream_tasks(
    layouts: TopicLayouts | None, offset: TopicOffset, before: TopicOffset | None, left: Mapping[int, int]
) -> list[SegmentsPartition]:
    """The ranges of a topic in the micro-batch from ``before`` to ``offset``, a task each; their number follows from these
    two offsets.

    A task whose records are gone stays as an empty one, so that those behind it keep their numbers: by these the sink
    knows whether a task has been written (D-045). One task per partition of Kafka keeps the order, since what the
    gate lets through needs none between partitions.

    Args:
        layouts: None for a topic that has vanished.
        left: where the records of a partition begin that are still there, if that is later.
    """
    epochs = dict(enumerate(offset.leader_epochs))
    tasks = []
    for p, low, high in offset.ranges_since(before):
        begin = max(low, left.get(p, low))
        segments = [] if layouts is None else segments_of(layouts, {p: begin}, {p: high}, epochs)
        tasks.append(SegmentsPartition(tuple(segments)))
    return tasks


def shared_tasks(tasks: Sequence[SegmentsPartition], counts: Sequence[int]) -> list[SegmentsPartition]:
    """The tasks with as many as ``counts`` says, one after another, made one; without counts, and beyond them, as they are.

    Tasks run at the same time, so that it does not matter either in which order one task does the work of several.
    """
    left = iter(tasks)
    some = [
        SegmentsPartition(tuple(segment for task in islice(left, count) for segment in task.segments))
        for count in counts
    ]
    return [*some, *left]


def with_cuts(
    moved: Mapping[str, TopicOffset],
    begin: Mapping[str, TopicOffset],
    layouts: Mapping[str, TopicLayouts],
    splitting: Splitting,
) -> dict[str, TopicOffset]:
    """The offsets with the cuts that :func:`split` makes in the micro-batch from ``begin``, of all topics together."""
    whole = {topic: replace(offset, cuts={}) for topic, offset in moved.items() if offset != begin.get(topic)}
    segments = [
        segment
        for topic, offset in whole.items()
        for task in stream_tasks(layouts[topic], offset, begin.get(topic), {})
        for segment in task.segments
    ]
    cuts: dict[str, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for before, piece in pairwise(split(segments, splitting)):
        if (before.topic, before.partition) == (piece.topic, piece.partition):
            cuts[piece.topic][piece.partition].append(piece.start)
    found = {
        topic: replace(offset, cuts={p: tuple(at) for p, at in cuts[topic].items()})
        for topic, offset in whole.items()
    }
    return {**moved, **found}


def batch_tasks(segments: Sequence[Segment], layouts: Mapping[str, TopicLayouts]) -> list[SegmentsPartition]:
    """As many tasks as order allows, segments in the order of epochs: a task per tree of segments that keys connect.

    Spark runs tasks in any order, so segments that can hold a key in common share one (D-049); those of one epoch hold
    disjoint keys, so their order among each other is free. Of a topic that is unordered now, tasks are partitions, as
    in a stream.
    """
    by_topic: dict[str, list[Segment]] = defaultdict(list)
    for segment in segments:
        by_topic[segment.topic].append(segment)
    tasks: dict[tuple[str, Root], list[Segment]] = defaultdict(list)
    for topic, members in by_topic.items():
        history = layouts[topic].history
        found = (
            roots(history.initial_count, [(one.partition, history.count(one.epoch)) for one in members])
            if layouts[topic].ordered
            else [(0, one.partition) for one in members]
        )
        for root, segment in zip(found, members, strict=True):
            tasks[topic, root].append(segment)
    return [
        SegmentsPartition(tuple(sorted(members, key=lambda s: (s.epoch, s.partition))))
        for members in tasks.values()
    ]


def unordered_tasks(segments: Sequence[Segment], splitting: Splitting) -> list[SegmentsPartition]:
    """One task per segment or piece of one (``ordering=none``): ``layout_epoch`` and ``offset`` restore the order."""
    return [SegmentsPartition((segment,)) for segment in split(segments, splitting)]


def split(segments: Sequence[Segment], splitting: Splitting) -> list[Segment]:
    """Segments cut as Spark's ``KafkaOffsetRangeCalculator`` cuts ranges.

    First into pieces of at most ``max_records`` offsets; if these are fewer than ``min_partitions``, then into about
    as many, the large ones in proportion to their size and the small ones not at all.
    """
    found = list(segments)
    if splitting.max_records is not None:
        limit = splitting.max_records
        found = [piece for one in found for piece in _pieces(one, -(-_size(one) // limit))]
    wanted = splitting.min_partitions
    if wanted is None or len(found) >= wanted:
        return found
    total = sum(map(_size, found))
    small = [one for one in found if _share(_size(one), total, wanted) == 1]
    rest = total - sum(map(_size, small))
    parts = max(wanted - len(small), 1)
    kept = set(small)
    return [
        piece
        for one in found
        for piece in _pieces(one, 1 if one in kept else _share(_size(one), rest, parts))
    ]


def _size(segment: Segment) -> int:
    return segment.end - segment.start


def _share(size: int, total: int, parts: int) -> int:
    """How many of ``parts`` are due to ``size`` of ``total``: half is rounded up, as by Java's ``Math.round``."""
    return max((2 * size * parts + total) // (2 * total), 1)


def _pieces(segment: Segment, parts: int) -> Iterator[Segment]:
    """The segment in ``parts`` of equal size, the remainder going to the last ones."""
    start = segment.start
    for left in range(parts, 0, -1):
        end = start + (segment.end - start) // left
        if end > start:
            yield replace(segment, start=start, end=end)
        start = end
