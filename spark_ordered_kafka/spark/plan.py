"""Planning of reads: from offsets to tasks. Pure but for the snapshots handed in."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from spark_ordered_kafka.config import EARLIEST, LATEST, Positions
from spark_ordered_kafka.errors import ConfigError, DataLossError
from spark_ordered_kafka.kafka.reader import Segment
from spark_ordered_kafka.ordering import LayoutHistory
from spark_ordered_kafka.ordering.offsets import TopicOffset
from spark_ordered_kafka.spark.topics import TopicSnapshot

_LOG = logging.getLogger(__name__)


@dataclass
class SegmentsPartition(InputPartition):
    """One Spark task: segments read one after another, in this order."""

    segments: tuple[Segment, ...]


def resolve(
    option: str, wanted: int | Positions, snapshot: TopicSnapshot, topics: Iterable[str], missing: int
) -> dict[int, int]:
    """The offsets an option such as ``startingOffsets`` means for one topic.

    ``missing`` (EARLIEST or LATEST) is meant for partitions that the JSON does not name. Raises ConfigError for a
    partition that does not exist, an offset outside the log, or a topic that is not subscribed.
    """
    markers = {EARLIEST: snapshot.starts, LATEST: snapshot.ends}
    if isinstance(wanted, int):
        return dict(markers[wanted])
    for topic in wanted:
        if topic not in topics:
            raise ConfigError(f"option {option}", topic, f"the topics read are {', '.join(topics)}")
    given = wanted.get(snapshot.topic, {})
    resolved = dict(markers[missing])
    for partition, offset in given.items():
        if partition not in snapshot.ends:
            raise ConfigError(
                f"option {option}",
                f"{snapshot.topic}-{partition}",
                f"topic {snapshot.topic!r} has the partitions 0 to {len(snapshot.ends) - 1}",
            )
        low, high = snapshot.starts[partition], snapshot.ends[partition]
        value = markers[offset][partition] if offset in markers else offset
        if not low <= value <= high:
            raise ConfigError(
                f"option {option}",
                f"{snapshot.topic}-{partition}: {offset}",
                f"the log holds the offsets {low} to {high}",
            )
        resolved[partition] = value
    return resolved


def surviving(
    snapshot: TopicSnapshot, offset: TopicOffset, fail_on_data_loss: bool
) -> tuple[TopicOffset, dict[int, int]]:
    """The offset checked against the topic as it is now, and its positions lifted to the log starts.

    Raises DataLossError when the topic was recreated or retention has overtaken a position, unless
    ``fail_on_data_loss`` is false: then what is gone is skipped with a warning.
    """
    if offset.topic_id != snapshot.topic_id:
        message = (
            f"topic {snapshot.topic!r} was deleted and created again: the checkpoint knows id {offset.topic_id},"
            f" the topic has {snapshot.topic_id}"
        )
        if fail_on_data_loss:
            raise DataLossError(message)
        _LOG.warning("%s; reading it from its start", message)
        offset = TopicOffset.of(snapshot.topic_id, 0, snapshot.starts)
    positions = offset.as_mapping(len(snapshot.ends))
    lost = {p: start for p, start in snapshot.starts.items() if positions[p] < start}
    # A partition never read before is new: its first offset is 0 unless records were removed from it.
    if lost:
        shown = "; ".join(
            f"{snapshot.topic}-{p}: offsets {positions[p]} to {start - 1}"
            for p, start in sorted(lost.items())[:10]
        )
        message = f"records are gone before they were read: {shown}"
        if fail_on_data_loss:
            raise DataLossError(f"{message} (set failOnDataLoss to false to go on without them)")
        _LOG.warning("%s", message)
        positions.update(lost)
    return offset, positions


def segments_of(
    topic: str, history: LayoutHistory, start: Mapping[int, int], end: Mapping[int, int]
) -> list[Segment]:
    """The segments between two positions, by partition, then by epoch."""
    return [
        Segment(topic, partition, epoch, first, last)
        for partition in sorted(end)
        for epoch, first, last in history.segments(partition, start.get(partition, 0), end[partition])
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


def unordered_tasks(segments: Sequence[Segment]) -> list[SegmentsPartition]:
    """One task per segment (``ordering=none``): ``layout_epoch`` and ``offset`` restore the order."""
    return [SegmentsPartition((segment,)) for segment in segments]
