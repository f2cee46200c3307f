"""A data source without Kafka: it yields rows from memory, and its sink drops what it gets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

FORMAT = "bench-memory"

_BATCH_ROWS = 10_000
_MICRO_ROWS = 1_000


class MemorySource(DataSource):
    """Options: ``tasks``; ``records`` of each task of a batch read; ``batches``: micro-batches of a stream."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return FORMAT

    def schema(self) -> str:
        """The columns of Spark's kafka format."""
        return (
            "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp,"
            " timestampType int"
        )

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reader of a batch query."""
        return _Reader(int(self.options["tasks"]), int(self.options["records"]))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Reader of a stream."""
        return _StreamReader(int(self.options["tasks"]), int(self.options["batches"]))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """Writer of a stream."""
        return _Writer()


def stream(spark: SparkSession, tasks: int, batches: int) -> DataFrame:
    """A stream of so many micro-batches, of so many tasks each."""
    spark.dataSource.register(MemorySource)
    return spark.readStream.format(FORMAT).option("tasks", tasks).option("batches", batches).load()


@dataclass
class _Task(InputPartition):
    number: int


class _Reader(DataSourceReader):
    def __init__(self, tasks: int, records: int) -> None:
        self._tasks = tasks
        self._records = records

    def partitions(self) -> Sequence[InputPartition]:
        return [_Task(number) for number in range(self._tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        batch = _rows(_BATCH_ROWS)
        for begin in range(0, self._records, _BATCH_ROWS):
            yield batch.slice(0, min(_BATCH_ROWS, self._records - begin))


class _StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, tasks: int, batches: int) -> None:
        self._tasks = tasks
        self._batches = batches

    def initialOffset(self) -> dict[str, Any]:
        return {"batch": 0}

    def prepareForTriggerAvailableNow(self) -> None:
        """The end is known from the start."""

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        return {"batch": min(start["batch"] + 1, self._batches)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [_Task(number) for number in range(self._tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield _rows(_MICRO_ROWS // self._tasks)


class _Writer(DataSourceStreamArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing is kept."""


def _rows(count: int) -> pa.RecordBatch:
    columns = {
        "key": pa.array([b"key-%d" % number for number in range(count)], pa.binary()),
        "value": pa.array([b"%0100d" % number for number in range(count)], pa.binary()),
        "topic": pa.array(["bench-0123456789"] * count, pa.string()),
        "partition": pa.array([0] * count, pa.int32()),
        "offset": pa.array(range(count), pa.int64()),
        "timestamp": pa.array([1_700_000_000_000_000] * count, pa.timestamp("us", tz="UTC")),
        "timestampType": pa.array([0] * count, pa.int32()),
    }
    return pa.RecordBatch.from_pydict(columns)
