"""The streaming source: micro-batches whose ends the gate has let through."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    SupportsTriggerAvailableNow,
)

from spark_ordered_kafka.client.topic_layouts import TopicLayouts, TopicSnapshot
from spark_ordered_kafka.client.topics import TopicDirectory
from spark_ordered_kafka.errors import DataLossError, ErrorCode, OrderedKafkaError, RequestError
from spark_ordered_kafka.kafka.clients import new_client, translating, unknown_topic
from spark_ordered_kafka.kafka.properties import consumer_properties
from spark_ordered_kafka.kafka.property_checks import check_reader
from spark_ordered_kafka.ordering import readable
from spark_ordered_kafka.ordering.offsets import SourceOffset, TopicOffset
from spark_ordered_kafka.parsing import EARLIEST, LATEST
from spark_ordered_kafka.spark.bounds import behind_removed, resolve
from spark_ordered_kafka.spark.limits import Admission
from spark_ordered_kafka.spark.logs import show_information
from spark_ordered_kafka.spark.loss import LossGuard
from spark_ordered_kafka.spark.options import Bound, SourceOptions
from spark_ordered_kafka.spark.plan import SegmentsPartition, shared_tasks, stream_tasks, with_cuts
from spark_ordered_kafka.spark.progress import TopicProgress, layout_lines, report
from spark_ordered_kafka.spark.reading import TaskReader
from spark_ordered_kafka.spark.subscription import Observation, Subscriber

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Reading:
    """A topic as the next micro-batch is planned: its snapshot, its offset, and the positions that follow from both.

    ``is_new``: the offset is not the one that Spark knows, which has nothing of the topic (of this id). ``is_first``: the
    offset that Spark knows is not in the checkpoint; Spark asks for another one when it replays the micro-batch (D-334).
    """

    snapshot: TopicSnapshot
    offset: TopicOffset
    positions: dict[int, int]
    is_new: bool
    is_first: bool = False

    @property
    def ends(self) -> dict[int, int]:
        """Log ends, never behind the positions."""
        return {p: max(end, self.positions[p]) for p, end in self.snapshot.ends.items()}

    @property
    def available(self) -> int:
        """Offsets not read yet, those included that the gate holds back."""
        return sum(end - self.positions[p] for p, end in self.ends.items())

    def at(self, positions: Mapping[int, int]) -> TopicOffset:
        """The offset with these positions."""
        epoch = max(self.offset.layout_epoch, self.snapshot.history.current.epoch)
        # A former leader may have answered for a partition that did not move: what was read needs the later epoch.
        leader_epochs = dict(enumerate(self.offset.leader_epochs))
        for p, found in self.snapshot.leader_epochs.items():
            leader_epochs[p] = max(found, leader_epochs.get(p, -1))
        reached = TopicOffset.of(self.snapshot.topic_id, epoch, positions, leader_epochs)
        before = TopicOffset(self.snapshot.topic_id, 0, ()) if self.is_new else self.offset
        resumed = {
            p: at
            for p, at in self.positions.items()
            if at != before.position(p) or (self.is_first and reached.position(p) > 0)
        }
        return replace(reached, resumed=resumed)

    def moved(self, positions: Mapping[int, int]) -> TopicOffset:
        """The offset with these positions, or the one there is if nothing moved.

        A new layout alone is no progress: otherwise every change would cost an empty micro-batch (D-044).
        """
        reached = self.at(positions)
        unmoved = reached.positions == self.offset.positions and not self.is_new
        return self.offset if unmoved else reached


class OrderedStreamReader(TaskReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark's streaming reader. Contacts servers on first use, never in the constructor: Spark makes one for each plan."""

    def __init__(self, options: SourceOptions, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(options)
        self._admission = Admission(options.limits, clock)
        self._opened: TopicDirectory | None = None
        self._followed: Subscriber | None = None
        self._guard: LossGuard | None = None
        self._target: Observation | None = None
        self._initial: dict[str, Any] | None = None
        self._is_initial_kept = True
        self._refusal: OrderedKafkaError | None = None
        self._read: dict[str, frozenset[int]] = {}
        self._met: dict[str, tuple[str, int]] = {}
        self._planned: dict[str, TopicProgress] | None = None
        self._group: Consumer | None = None
        self._stalled: str | None = None

    # -- offsets ------------------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:
        """Where the query starts; at latest by default. Spark asks twice, and again when it replays the first micro-batch."""
        if self._initial is None:
            given = self._options.starting
            bound = Bound("startingOffsets", LATEST) if given is None else given
            self._is_initial_kept = bound.value != LATEST
            # Of Trigger.AvailableNow the target: what came later would be beyond the end of the run.
            seen = self._subscriber().observe() if self._target is None else self._target
            try:
                start = self._start(bound, seen)
            except OrderedKafkaError as error:
                if error.retriable or not self._is_initial_kept:
                    raise
                # A micro-batch that is replayed needs no start: its end says where it began. To plan one is refused.
                self._refusal, start = error, _any_start(bound, seen)
            self._initial = start.to_json()
        return self._initial

    def _start(self, bound: Bound, seen: Observation) -> SourceOffset:
        topics = self._subscriber().select(seen, known=(), lost=self._losses().report)
        offset = {}
        for topic, snapshot in topics.items():
            if bound.value != LATEST:
                self._directory().require(snapshot.layouts, snapshot.absent, {})
            offsets_at = self._directory().ranges.offsets_at
            start = resolve(
                bound,
                snapshot,
                topics,
                offsets_at,
                self._options.no_match,
                fail_on_data_loss=self._options.fail_on_data_loss,
            )
            if bound.value != EARLIEST:
                start = behind_removed(snapshot, start)
            offset[topic] = _offset_at(snapshot, start)
        return SourceOffset(offset)

    def getDefaultReadLimit(self) -> ReadLimit:
        """``maxOffsetsPerTrigger``."""
        return self._admission.default()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Ends first, layout second, then the gate, then the limit. No server, no progress: ``start`` again."""
        if not self._is_initial_kept and start == self._initial:
            # Nothing is to be read of what is there, and the end in the checkpoint is a start that stays (D-052).
            self._is_initial_kept = True
            return start
        begin = SourceOffset.from_json(start)
        starting = self._opened is None
        try:
            seen = self._subscriber().observe() if self._target is None else self._target
            snapshots = self._subscriber().select(seen, begin.topics, self._losses().report)
            if self._refusal is not None and start == self._initial:
                raise self._refusal.with_traceback(None)
            end = self._end(begin, snapshots, limit, is_first=start == self._initial)
        except OrderedKafkaError as error:
            # A query fails at its start; a run to a fixed end would take "no progress" for that end. Any other waits.
            if starting or self._target is not None or not error.retriable:
                raise
            self._warn_stalled(error)
            return start
        self._stalled = None
        return end.to_json()

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the ends, and the layouts below them: nothing later is read by this run."""
        self._target = self._subscriber().observe()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """How far the query is behind the ends of the logs, and why: Spark shows it as ``latestOffset`` in the query's
        progress. What planning has found out, without a request."""
        if self._planned is None and self._stalled is None:
            return None
        return report(self._planned or {}, self._stalled)

    def _end(
        self, begin: SourceOffset, snapshots: Mapping[str, TopicSnapshot], limit: ReadLimit, *, is_first: bool
    ) -> SourceOffset:
        readings = {
            topic: self._reading(begin, snapshot, is_first=is_first) for topic, snapshot in snapshots.items()
        }
        self._read = {topic: frozenset(reading.ends) for topic, reading in readings.items()}
        for topic, reading in readings.items():
            self._log_layouts(reading.snapshot.layouts, begin.topics.get(topic))
        gates = {topic: self._gate(reading) for topic, reading in readings.items()}
        ranges = {
            (topic, p): (readings[topic].positions[p], end)
            for topic, gate in gates.items()
            for p, end in gate.items()
        }
        available = sum(reading.available for reading in readings.values())
        admitted = self._admission.admit(ranges, available, limit, at_once=self._target is not None)
        ends = {topic: dict(reading.positions) for topic, reading in readings.items()}
        for (topic, p), end in admitted.items():
            ends[topic][p] = end
        self._planned = {
            topic: TopicProgress(
                reading.snapshot.layouts, reading.positions, gates[topic], ends[topic], reading.ends
            )
            for topic, reading in readings.items()
        }
        moved = {topic: reading.moved(ends[topic]) for topic, reading in readings.items()}
        if self._options.ordering == "none":
            layouts = {topic: reading.snapshot.layouts for topic, reading in readings.items()}
            moved = with_cuts(moved, begin.topics, layouts, self._options.splitting)
        reached = SourceOffset({**begin.topics, **moved})
        return reached.sharing(begin, self._options.splitting.min_records)

    def _reading(self, begin: SourceOffset, snapshot: TopicSnapshot, *, is_first: bool) -> _Reading:
        known = begin.topics.get(snapshot.topic)
        # A topic that was not read before is read from its start, like a new partition.
        offset = TopicOffset.of(snapshot.topic_id, 0, snapshot.starts) if known is None else known
        is_new = known is None or known.topic_id != snapshot.topic_id
        read = {} if is_new else dict(enumerate(offset.positions))
        self._directory().require(snapshot.layouts, snapshot.absent, read)
        snapshot, offset, positions = self._losses().surviving(snapshot, offset)
        return _Reading(snapshot, offset, positions, is_new, is_first)

    def _gate(self, reading: _Reading) -> dict[int, int]:
        if self._options.ordering == "none" or not reading.snapshot.layouts.ordered:
            return reading.ends
        return readable(reading.snapshot.history, reading.positions, reading.ends)

    def _warn_stalled(self, error: OrderedKafkaError) -> None:
        if self._stalled is None:
            _LOG.warning("no progress until this is known: %s", str(error))
        self._stalled = str(error)

    def _log_layouts(self, layouts: TopicLayouts, begin: TopicOffset | None) -> None:
        """Log each layout once: not those that this reader has seen, nor those that the checkpoint knows."""
        newest = layouts.topic_id, layouts.history.current.epoch
        before = self._met.get(layouts.topic)
        if before == newest:
            return
        self._met[layouts.topic] = newest
        if before is None and self._initial is None and begin is not None:
            before = begin.topic_id, begin.layout_epoch
        known = None if before is None or before[0] != layouts.topic_id else before[1]
        for line in layout_lines(layouts, known):
            _LOG.info("%s", line)

    # -- tasks --------------------------------------------------------------------------------------------------

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Tasks of a micro-batch; depends on its offsets and the immutable layouts below ``end`` alone."""
        begin, until = SourceOffset.from_json(start), SourceOffset.from_json(end)
        tasks: list[SegmentsPartition] = []
        for topic, offset, before in until.moved_since(begin):
            layouts = self._layouts_of(topic, offset)
            left: Mapping[int, int] = {}
            if layouts is not None:
                read = {p for p, _, _ in offset.ranges_since(before)}
                layouts = self._losses().lowered(layouts, read)
                left = self._losses().left(layouts, offset, before)
            tasks += stream_tasks(layouts, offset, before, left)
        return list(shared_tasks(tasks, until.shared))

    def _layouts_of(self, topic: str, offset: TopicOffset) -> TopicLayouts | None:
        """The layouts of a planned micro-batch; None for a topic that has vanished since, if ``failOnDataLoss`` is false."""
        directory = self._directory()
        try:
            # In a micro-batch that is replayed there may be topics that this process has not seen.
            if topic not in self._read and not directory.ranges.exists(topic):
                raise unknown_topic(topic)
            return directory.layouts_until(topic, offset.topic_id, offset.layout_epoch)
        except (DataLossError, RequestError) as error:
            if isinstance(error, RequestError) and error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            self._losses().report(
                f"topic {topic!r} has vanished from a micro-batch that is read again: {error}"
            )
            return None

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
            # Of what is not read, or no more, the group may know better.
            if partition in self._read.get(topic, ())
        ]
        if not offsets:
            return
        try:
            with translating(f"committing offsets to group {group!r}"):
                if self._group is None:
                    self._group = new_client(Consumer, consumer_properties(self._options.connection.kafka))
                self._group.commit(offsets=offsets, asynchronous=False)
        except OrderedKafkaError as error:
            # The query reads by its checkpoint, not by the group: a lag tool shows an older position for a while.
            _LOG.warning("%s", str(error))
            self._close_group()

    def stop(self) -> None:
        """Close connections."""
        if self._opened is not None:
            self._opened.close()
            self._opened = self._followed = self._guard = None
        self._close_group()

    def _close_group(self) -> None:
        if self._group is not None:
            self._group.close()
            self._group = None

    def _directory(self) -> TopicDirectory:
        if self._opened is None:
            show_information()
            check_reader(self._options.connection)
            self._opened = TopicDirectory(self._options.connection)
        return self._opened

    def _subscriber(self) -> Subscriber:
        if self._followed is None:
            self._followed = Subscriber(self._directory(), self._options)
        return self._followed

    def _losses(self) -> LossGuard:
        if self._guard is None:
            self._guard = LossGuard(self._directory(), self._options.fail_on_data_loss)
        return self._guard


def _offset_at(snapshot: TopicSnapshot, positions: Mapping[int, int]) -> TopicOffset:
    return TopicOffset.of(
        snapshot.topic_id, snapshot.history.current.epoch, positions, snapshot.leader_epochs
    )


def _any_start(bound: Bound, seen: Observation) -> SourceOffset:
    """One from which also ends of earlier versions, which do not say where they began, reach as far as they did.

    With those a first micro-batch had records only if it was from the earliest offsets.
    """
    if bound.value == EARLIEST:
        return SourceOffset({})
    return SourceOffset({topic: _offset_at(one, one.ends) for topic, one in seen.snapshots.items()})
