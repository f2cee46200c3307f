"""The streaming source: micro-batches whose ends the gate has let through."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaException, TopicPartition
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from spark_ordered_kafka.config import LATEST, SourceOptions
from spark_ordered_kafka.errors import OrderedKafkaError
from spark_ordered_kafka.kafka.clients import check_properties, consumer_properties, translate
from spark_ordered_kafka.kafka.reader import ReadSettings, Segment, read_segments
from spark_ordered_kafka.ordering import LayoutHistory, blockers, readable
from spark_ordered_kafka.ordering.offsets import SourceOffset, TopicOffset, admit
from spark_ordered_kafka.spark.plan import (
    SegmentsPartition,
    resolve,
    segments_of,
    stream_tasks,
    surviving,
    unordered_tasks,
)
from spark_ordered_kafka.spark.schema import source_schema
from spark_ordered_kafka.spark.topics import TopicDirectory, TopicSnapshot

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Reading:
    """A topic as the next micro-batch is planned: its snapshot, its offset, and the positions that follow from both."""

    snapshot: TopicSnapshot
    offset: TopicOffset
    positions: dict[int, int]
    is_new: bool

    @property
    def ends(self) -> dict[int, int]:
        """Log ends, never behind the positions."""
        return {p: max(end, self.positions[p]) for p, end in self.snapshot.ends.items()}

    def at(self, positions: Mapping[int, int]) -> TopicOffset:
        """The offset with these positions."""
        epoch = max(self.offset.layout_epoch, self.snapshot.history.current.epoch)
        return TopicOffset.of(self.snapshot.topic_id, epoch, positions)

    def moved(self, positions: Mapping[int, int]) -> TopicOffset:
        """The offset with these positions, or the one there is if nothing moved.

        A new layout alone is no progress: otherwise every change would cost an empty micro-batch.
        """
        reached = self.at(positions)
        unmoved = reached.positions == self.offset.positions and not self.is_new
        return self.offset if unmoved else reached


class OrderedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark's streaming reader. Contacts servers on first use, never in the constructor: Spark pickles it for tasks."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._opened: TopicDirectory | None = None
        self._target: dict[str, TopicSnapshot] | None = None
        self._newest: SourceOffset | None = None
        self._group: Consumer | None = None
        self._stalled = False
        self._told: set[tuple[str, int]] = set()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_opened": None, "_target": None, "_newest": None, "_group": None}

    # -- offsets ------------------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:
        """``startingOffsets`` as an offset; latest by default."""
        wanted = LATEST if self._options.starting is None else self._options.starting
        topics = self._options.topics
        offset = {}
        for topic, snapshot in self._snapshots().items():
            start = resolve("startingOffsets", wanted, snapshot, topics, missing=LATEST)
            offset[topic] = TopicOffset.of(snapshot.topic_id, snapshot.history.current.epoch, start)
        return SourceOffset(offset).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """``maxOffsetsPerTrigger``."""
        limit = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Ends first, layout second, then the gate, then the limit. No server, no progress: ``start`` again."""
        begin = SourceOffset.from_json(start)
        starting = self._opened is None
        try:
            snapshots = self._snapshots() if self._target is None else self._target
        except OrderedKafkaError as error:
            # At its start a query tells the user; a running one waits, for its order cannot be known.
            if starting or not error.retriable:
                raise
            self._warn_stalled(error)
            return start
        self._stalled = False
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        end = self._end(begin, snapshots, rows)
        return end.to_json()

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the ends, and the layouts below them: nothing later is read by this run."""
        self._target = self._snapshots()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The log ends seen last: what Spark shows as ``latestOffset`` in the query's progress."""
        return None if self._newest is None else self._newest.to_json()

    def _end(
        self, begin: SourceOffset, snapshots: dict[str, TopicSnapshot], rows: int | None
    ) -> SourceOffset:
        readings = {topic: self._reading(begin, snapshot) for topic, snapshot in snapshots.items()}
        self._newest = SourceOffset({topic: reading.at(reading.ends) for topic, reading in readings.items()})
        ranges = {
            (topic, p): (reading.positions[p], end)
            for topic, reading in readings.items()
            for p, end in self._gate(reading).items()
        }
        admitted = admit(ranges, rows)
        ends: dict[str, dict[int, int]] = {
            topic: dict(reading.positions) for topic, reading in readings.items()
        }
        for (topic, p), end in admitted.items():
            ends[topic][p] = end
        moved = {topic: reading.moved(ends[topic]) for topic, reading in readings.items()}
        return SourceOffset({**begin.topics, **moved})

    def _reading(self, begin: SourceOffset, snapshot: TopicSnapshot) -> _Reading:
        known = begin.topics.get(snapshot.topic)
        # A topic that was not read before is read from its start, like a new partition.
        offset = TopicOffset.of(snapshot.topic_id, 0, snapshot.starts) if known is None else known
        offset, positions = surviving(snapshot, offset, self._options.fail_on_data_loss)
        return _Reading(snapshot, offset, positions, is_new=known is None)

    def _gate(self, reading: _Reading) -> dict[int, int]:
        if self._options.ordering == "none":
            return reading.ends
        until = readable(reading.snapshot.history, reading.positions, reading.ends)
        self._warn_held(reading, until)
        return until

    def _warn_held(self, reading: _Reading, until: Mapping[int, int]) -> None:
        """Say once which partitions hold records that no layout explains: nothing will ever unblock them."""
        history, topic = reading.snapshot.history, reading.snapshot.topic
        removed = range(history.current.count, len(reading.ends))
        held = [p for p in removed if until[p] == reading.positions[p] < reading.ends[p]]
        held = [p for p in held if (topic, p) not in self._told]
        if held:
            waiting = blockers(history, reading.positions)
            held = [p for p in held if p not in waiting]
        if held:
            _LOG.warning(
                "%s: partitions %s were removed, but something that is no ordered writer has written to them since;"
                " those records are not read",
                topic,
                ", ".join(map(str, held)),
            )
            self._told.update((topic, p) for p in held)

    def _warn_stalled(self, error: OrderedKafkaError) -> None:
        if not self._stalled:
            _LOG.warning("no progress until the layout is known again: %s", error)
        self._stalled = True

    # -- tasks --------------------------------------------------------------------------------------------------

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Tasks of a micro-batch; depends on its offsets and the immutable layouts below ``end`` alone."""
        begin, until = SourceOffset.from_json(start), SourceOffset.from_json(end)
        segments: list[Segment] = []
        for topic, offset in until.topics.items():
            before = begin.topics.get(topic)
            if before is not None and before.topic_id != offset.topic_id:
                before = None
            history = self._history_of(topic, offset)
            size = len(offset.positions)
            segments += segments_of(
                topic, history, {} if before is None else before.as_mapping(size), offset.as_mapping(size)
            )
        tasks = stream_tasks(segments) if self._options.ordering == "key" else unordered_tasks(segments)
        return list(tasks)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task, as Arrow batches."""
        return read_task(self._options, partition)

    # -- life cycle ---------------------------------------------------------------------------------------------

    def commit(self, end: dict[str, Any]) -> None:
        """Commit the processed offsets to ``kafka.group.id``, so that every lag tool sees the query."""
        group = self._options.connection.kafka.get("group.id")
        if group is None:
            return
        offsets = [
            TopicPartition(topic, partition, position)
            for topic, offset in SourceOffset.from_json(end).topics.items()
            for partition, position in enumerate(offset.positions)
        ]
        if not offsets:
            return
        if self._group is None:
            self._group = Consumer(consumer_properties(self._options.connection.kafka))
        try:
            self._group.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            # The checkpoint, not the group, says where to go on: a lag tool shows an older position for a while.
            _LOG.warning("%s", translate(error.args[0], f"committing offsets to group {group!r}"))

    def stop(self) -> None:
        """Close connections."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None
        if self._group is not None:
            self._group.close()
            self._group = None

    def _directory(self) -> TopicDirectory:
        if self._opened is None:
            check_properties(self._options.connection)
            self._opened = TopicDirectory(self._options.connection)
        return self._opened

    def _snapshots(self) -> dict[str, TopicSnapshot]:
        directory = self._directory()
        return {topic: directory.snapshot(topic) for topic in self._options.topics}

    def _history_of(self, topic: str, offset: TopicOffset) -> LayoutHistory:
        history = self._directory().history_until(topic, offset.layout_epoch)
        if offset.layout_epoch == history.current.epoch:
            return history
        return LayoutHistory(history.initial_count, history.layouts[: offset.layout_epoch + 1])


def read_task(options: SourceOptions, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """The rows of a task of a batch or a stream."""
    if not isinstance(partition, SegmentsPartition):
        # Spark makes a task without content for a read that has none.
        return iter(())
    schema = to_arrow_schema(source_schema(options.include_headers), timezone="UTC")
    settings = ReadSettings(options.connection, options.include_headers, options.fail_on_data_loss)
    return read_segments(settings, partition.segments, schema)
