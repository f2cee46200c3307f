"""A driver to be killed: copies a topic to another under a new key, in small micro-batches, until all is copied.

Run as a process of its own: ``copy_driver.py BOOTSTRAP CONTROLLER SOURCE TARGET CHECKPOINT``. Where :data:`GATE` names a
directory in the environment, it makes the file ``ready`` beside the checkpoint when Spark runs, and begins with the file
``go`` in that directory.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from tests.servers import await_true, start_spark

GATE = "COPY_DRIVER_GATE"


def copy(
    spark: SparkSession, servers: Mapping[str, str], source: str, target: str, checkpoint: str
) -> StreamingQuery:
    """Begin to copy with ``Trigger.AvailableNow``: ends when the source as it was at the start is copied."""
    rows = (
        spark.readStream.format("ordered-kafka")
        .options(**servers, subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="400")
        .load()
        .selectExpr("concat('group-', crc32(key) % 7) AS key", "value")
        .repartition(3, "key")
    )
    return (
        rows.writeStream.format("ordered-kafka")
        .options(**servers, topic=target, checkpointLocation=checkpoint)
        .trigger(availableNow=True)
        .start()
    )


def main(bootstrap: str, controller: str, source: str, target: str, checkpoint: str) -> None:
    """Copy in a Spark session of this process's own."""
    home = Path(checkpoint).parent
    spark = start_spark(home)
    gate = os.environ.get(GATE)
    if gate is not None:
        (home / "ready").touch()
        await_true((Path(gate) / "go").exists, "the test lets it begin", 240)
    servers = {"kafka.bootstrap.servers": bootstrap, "controller.url": controller}
    copy(spark, servers, source, target, checkpoint).awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
