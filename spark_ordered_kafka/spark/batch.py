"""The batch source: everything between two offsets, ordered per initial bucket."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from spark_ordered_kafka.config import EARLIEST, LATEST, SourceOptions
from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.kafka.clients import check_properties
from spark_ordered_kafka.kafka.reader import Segment
from spark_ordered_kafka.spark.plan import batch_tasks, resolve, segments_of, unordered_tasks
from spark_ordered_kafka.spark.stream import read_task
from spark_ordered_kafka.spark.topics import TopicDirectory


class OrderedBatchReader(DataSourceReader):
    """Spark's batch reader."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """One task per initial bucket, or per segment under ``ordering=none``."""
        check_properties(self._options.connection)
        directory = TopicDirectory(self._options.connection)
        try:
            segments: list[Segment] = []
            initial_counts = {}
            for topic in self._options.topics:
                segments += self._segments(directory, topic)
                initial_counts[topic] = directory.history(topic).initial_count
        finally:
            directory.close()
        if self._options.ordering == "none":
            return list(unordered_tasks(segments))
        return list(batch_tasks(segments, initial_counts))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task, as Arrow batches."""
        return read_task(self._options, partition)

    def _segments(self, directory: TopicDirectory, topic: str) -> list[Segment]:
        snapshot = directory.snapshot(topic)
        wanted = EARLIEST if self._options.starting is None else self._options.starting
        if wanted == LATEST:
            raise ConfigError(
                "option startingOffsets", "latest", "a batch read starts at earliest or at given offsets"
            )
        topics = self._options.topics
        start = resolve("startingOffsets", wanted, snapshot, topics, missing=EARLIEST)
        end = resolve("endingOffsets", self._options.ending, snapshot, topics, missing=LATEST)
        for partition, last in end.items():
            if last < start[partition]:
                raise ConfigError(
                    "option endingOffsets",
                    f"{topic}-{partition}: {last}",
                    f"must not lie before startingOffsets ({start[partition]})",
                )
        return segments_of(topic, snapshot.history, start, end)
