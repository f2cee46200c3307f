"""A driver under given settings of Spark: copies a topic by a batch write and, in small micro-batches, by a stream.

Run as a process of its own: ``settings_driver.py BOOTSTRAP CONTROLLER SOURCE BY_BATCH BY_STREAM DIRECTORY SETTINGS``, the last a
JSON object.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.servers import start_spark
from tests.streams import FORMAT


def main(
    bootstrap: str, controller: str, source: str, by_batch: str, by_stream: str, directory: str, settings: str
) -> None:
    """Copy twice in a Spark session of this process's own."""
    spark = start_spark(Path(directory), json.loads(settings))
    servers = {"kafka.bootstrap.servers": bootstrap, "controller.url": controller}
    reading = servers | {"subscribe": source, "startingOffsets": "earliest"}
    rows = spark.read.format(FORMAT).options(**reading).load().select("key", "value")
    rows.write.format(FORMAT).options(**servers, topic=by_batch).mode("append").save()
    stream = spark.readStream.format(FORMAT).options(**reading, maxOffsetsPerTrigger="300").load()
    query = (
        stream.select("key", "value")
        .writeStream.format(FORMAT)
        .options(**servers, topic=by_stream, checkpointLocation=f"{directory}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
