"""Planning of reads: from offsets to tasks. Pure but for the snapshots handed in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql.datasource import InputPartition

from spark_ordered_kafka.client.topics import TopicLayouts
from spark_ordered_kafka.config import Splitting
from spark_ordered_kafka.kafka.segments import Segment


@dataclass
class SegmentsPartition(InputPartition):
    """One Spark task: segments read one after another, in this order."""

    segments: tuple[Segment, ...]


def segments_of(layouts: TopicLayouts, start: Mapping[int, int], end: Mapping[int, int]) -> list[Segment]:
    """The segments between two positions, by partition, then by epoch."""
    return [
        Segment(layouts.topic, partition, epoch, first, last, layouts.routing(epoch))
        for partition in sorted(end)
        for epoch, first, last in layouts.history.segments(partition, start.get(partition, 0), end[partition])
    ]


def stream_tasks(segments: Sequence[Segment]) -> list[SegmentsPartition]:
    """One task per partition of Kafka: what the gate lets through needs no order between partitions."""
    groups: dict[tuple[str, int], list[Segment]] = {}
    for segment in segments:
        groups.setdefault((segment.topic, segment.partition), []).append(segment)
    return [SegmentsPartition(tuple(group)) for group in groups.values()]


def batch_tasks(segments: Sequence[Segment], initial_counts: Mapping[str, int]) -> list[SegmentsPartition]:
    """One task per initial bucket, segments in the order of epochs.

    Keys never leave their bucket modulo the initial count, so no key is in two tasks; segments of one epoch hold
    disjoint keys, so their order among each other is free.
    """
    groups: dict[tuple[str, int], list[Segment]] = {}
    for segment in segments:
        bucket = segment.partition % initial_counts[segment.topic]
        groups.setdefault((segment.topic, bucket), []).append(segment)
    return [
        SegmentsPartition(tuple(sorted(group, key=lambda s: (s.epoch, s.partition))))
        for group in groups.values()
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
