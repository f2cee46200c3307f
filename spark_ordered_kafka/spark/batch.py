"""The batch source: everything between two offsets, each key in order within one task."""

from __future__ import annotations

import logging
from collections.abc import Collection

from pyspark.sql.datasource import DataSourceReader, InputPartition

from spark_ordered_kafka.client.topic_layouts import TopicSnapshot
from spark_ordered_kafka.client.topics import TopicDirectory
from spark_ordered_kafka.kafka.property_checks import check_reader
from spark_ordered_kafka.kafka.segments import Segment
from spark_ordered_kafka.ordering.offsets import TopicOffset
from spark_ordered_kafka.parsing import EARLIEST
from spark_ordered_kafka.spark.bounds import check_order, check_whole, resolve
from spark_ordered_kafka.spark.loss import LossGuard
from spark_ordered_kafka.spark.options import Bound, Limits
from spark_ordered_kafka.spark.plan import batch_tasks, segments_of, unordered_tasks
from spark_ordered_kafka.spark.reading import TaskReader
from spark_ordered_kafka.spark.subscription import Subscriber

_LOG = logging.getLogger(__name__)


class OrderedBatchReader(TaskReader, DataSourceReader):
    """Spark's batch reader."""

    def partitions(self) -> list[InputPartition]:
        """As many tasks as order allows, or under ``ordering=none`` one per segment or piece of one."""
        options = self._options
        check_reader(options.connection)
        if options.limits != Limits():
            _LOG.warning(
                "options of a trigger (maxOffsetsPerTrigger and the like) are ignored in batch queries"
            )
        directory = TopicDirectory(options.connection)
        try:
            losses = LossGuard(directory, options.fail_on_data_loss)
            subscriber = Subscriber(directory, options)
            snapshots = subscriber.select(subscriber.observe(), known=(), lost=losses.report)
            segments = [
                segment
                for snapshot in snapshots.values()
                for segment in self._segments(directory, losses, snapshot, snapshots)
            ]
        finally:
            directory.close()
        if options.ordering == "none":
            return list(unordered_tasks(segments, options.splitting))
        return list(batch_tasks(segments, {topic: one.layouts for topic, one in snapshots.items()}))

    def _segments(
        self,
        directory: TopicDirectory,
        losses: LossGuard,
        snapshot: TopicSnapshot,
        topics: Collection[str],
    ) -> list[Segment]:
        options, offsets_at = self._options, directory.ranges.offsets_at
        starting = Bound("startingOffsets", EARLIEST) if options.starting is None else options.starting
        directory.require(snapshot.layouts, snapshot.absent, {})
        strict = options.fail_on_data_loss
        start = resolve(starting, snapshot, topics, offsets_at, options.no_match, fail_on_data_loss=strict)
        end = resolve(options.ending, snapshot, topics, offsets_at, "latest", fail_on_data_loss=strict)
        check_order(options.ending, starting, snapshot.topic, start, end)
        beginning = TopicOffset.of(snapshot.topic_id, 0, start)
        surviving, _, positions = losses.surviving(snapshot, beginning)
        # An end given as a time leaves out what is later, by intention.
        if options.ordering == "key" and surviving.layouts.ordered and not options.ending.by_time:
            check_whole(options.ending, surviving.layouts, positions, end)
        return segments_of(surviving.layouts, positions, end, snapshot.leader_epochs)
