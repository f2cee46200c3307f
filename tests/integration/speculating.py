"""A job for spark-submit: a batch write whose first task stands still until Spark runs a copy of it beside it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

from spark_ordered_kafka import register

KEYS, NUMBERS, TASKS = 30, 20, 3
_DEADLINE = 240.0


def main(servers: str, controller: str, topic: str, mark: str) -> None:
    """The copy makes the file ``mark`` when it is in the middle of its rows; both then go on."""

    def held(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = TaskContext.get()
        assert task is not None
        slow, is_copy, copied = task.partitionId() == 0, task.attemptNumber() > 0, Path(mark)
        for number, batch in enumerate(batches):
            yield batch
            if not slow or number:
                continue
            if is_copy:
                copied.touch()
            deadline = time.monotonic() + _DEADLINE
            while not copied.exists():
                assert time.monotonic() < deadline, f"no copy of the task within {_DEADLINE:g} s"
                # Not a wait for an event: it bounds how often a file is looked for.
                time.sleep(0.02)

    spark = SparkSession.builder.getOrCreate()
    register(spark)
    key = f"concat('k', id div {NUMBERS})"
    rows = spark.range(0, KEYS * NUMBERS, 1, TASKS).selectExpr(
        f"{key} AS key", f"concat({key}, ':', id % {NUMBERS}) AS value"
    )
    writer = rows.mapInArrow(held, "key STRING, value STRING").write.format("ordered-kafka")
    options = {"kafka.bootstrap.servers": servers, "controller.url": controller, "topic": topic}
    writer.options(**options).mode("append").save()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
