"""The streaming source: micro-batches whose ends the gate has let through."""

from __future__ import annotations

import logging
from collections.abc import Iterator
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


class OrderedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark's streaming reader. Contacts servers on first use, never in the constructor: Spark pickles it for tasks."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._opened: TopicDirectory | None = None
        self._target: dict[str, TopicSnapshot] | None = None
        self._newest: SourceOffset | None = None
        self._group: Consumer | None = None
        self._stalled = False

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
        epochs, ranges, newest = {}, {}, {}
        topic_ids, positions_of = {}, {}
        for topic, snapshot in snapshots.items():
            known = begin.topics.get(topic) or TopicOffset.of(snapshot.topic_id, 0, snapshot.starts)
            known, positions = surviving(snapshot, known, self._options.fail_on_data_loss)
            until = self._gate(snapshot, positions)
            ranges.update({(topic, p): (positions[p], end) for p, end in until.items()})
            epochs[topic] = max(known.layout_epoch, snapshot.history.current.epoch)
            topic_ids[topic], positions_of[topic] = known, positions
            newest[topic] = TopicOffset.of(snapshot.topic_id, epochs[topic], snapshot.ends)
        self._newest = SourceOffset(newest)
        admitted = admit(ranges, rows)
        topics = dict(begin.topics)
        for topic, snapshot in snapshots.items():
            ends = positions_of[topic] | {p: end for (name, p), end in admitted.items() if name == topic}
            reached = TopicOffset.of(snapshot.topic_id, epochs[topic], ends)
            # A new layout alone is no progress: without this every change would cost an empty micro-batch.
            unmoved = reached.positions == topic_ids[topic].positions and topic in begin.topics
            topics[topic] = topic_ids[topic] if unmoved else reached
        return SourceOffset(topics)

    def _gate(self, snapshot: TopicSnapshot, positions: dict[int, int]) -> dict[int, int]:
        ends = {p: max(end, positions[p]) for p, end in snapshot.ends.items()}
        if self._options.ordering == "none":
            return ends
        until = readable(snapshot.history, positions, ends)
        if _LOG.isEnabledFor(logging.DEBUG):
            _LOG.debug("%s waits: %s", snapshot.topic, blockers(snapshot.history, positions))
        return until

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
