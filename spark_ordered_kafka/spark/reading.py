"""What a reading task does. Each worker process imports this before its first row, so what only planning needs is elsewhere,
and what few tasks need is imported by those.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema

from spark_ordered_kafka.client.misrouted import report_misrouted
from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.errors import ErrorCode, RequestError
from spark_ordered_kafka.kafka.reader import ReadSettings, read_segments
from spark_ordered_kafka.kafka.segments import Segment
from spark_ordered_kafka.spark.options import SourceOptions
from spark_ordered_kafka.spark.plan import SegmentsPartition
from spark_ordered_kafka.spark.schema import source_schema
from spark_ordered_kafka.spark.versions import carried


class TaskReader:
    """Reads the rows of tasks. Readers that plan are no more than this once Spark has pickled them for a task."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def __reduce__(self) -> tuple[Any, ...]:
        return carried(TaskReader, {"_options": self._options})

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task, as Arrow batches."""
        if not isinstance(partition, SegmentsPartition) or not partition.segments:
            # Spark makes a task without content for a read that has none.
            return iter(())
        options = self._options
        settings = ReadSettings(
            options.connection,
            options.include_headers,
            options.fail_on_data_loss,
            options.misrouted,
            options.poll_timeout,
        )
        return read_segments(
            settings,
            partition.segments,
            to_arrow_schema(source_schema(options.include_headers), timezone="UTC"),
            lambda misrouted: report_misrouted(options.connection, misrouted),
            lambda segment: truncated_end(options.connection, segment),
        )


def truncated_end(connection: Connection, segment: Segment) -> int | None:
    """Where the log of the segment's leader epoch ends if that is before the segment's end, by the leader, which the
    controller asks; None where the log is as long as it was, or where no leader epoch is known.

    Raises UnavailableError when the leader or the controller does not answer.
    """
    if segment.leader_epoch < 0:
        return None
    from spark_ordered_kafka.client.layout_answers import PositionCheck
    from spark_ordered_kafka.client.layouts import Layouts

    check = PositionCheck(segment.partition, segment.end, segment.leader_epoch)
    with Layouts(connection, retry_for=0.0) as controller:
        try:
            found = controller.truncations(segment.topic, [check], partitions=[]).truncations
        except RequestError as error:
            if error.code is not ErrorCode.LOG_TRUNCATED:
                raise
            return 0  # the topic was deleted and created again
    return min((one.end_offset for one in found), default=None)
