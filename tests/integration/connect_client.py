"""A client of a Spark Connect server, as a process of its own: a classic session and a remote one exclude each other.

``connect_client.py URL BOOTSTRAP CONTROLLER SOURCE TARGET CHECKPOINT`` copies the source to the target in a stream, writes
and reads a batch, and prints what it found in one line of JSON.
"""

from __future__ import annotations

import json
import sys

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from spark_ordered_kafka import register

FORMAT = "ordered-kafka"


def main(url: str, bootstrap: str, controller: str, source: str, target: str, checkpoint: str) -> None:
    """All of it in one session."""
    spark = SparkSession.builder.remote(url).getOrCreate()
    spark.conf.set("spark.ordered-kafka.kafka.bootstrap.servers", bootstrap)
    spark.conf.set("spark.ordered-kafka.controller.url", controller)
    register(spark)
    stream = spark.readStream.format(FORMAT).option("subscribe", source)
    rows = stream.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 300).load()
    writer = rows.select("key", "value").writeStream.format(FORMAT).option("topic", target)
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    ended = query.awaitTermination(240)
    failure = query.exception()

    batch = spark.range(10).selectExpr("CAST(id % 3 AS STRING) AS key", "concat('batch:', id) AS value")
    batch.repartition(2, "key").write.format(FORMAT).option("topic", source).mode("append").save()
    read = spark.read.format(FORMAT).option("subscribe", source).load()
    try:
        spark.read.format(FORMAT).option("subscribe", source).option(
            "startingOffsets", "never"
        ).load().count()
        refusal = ""
    except AnalysisException as error:
        refusal = str(error)
    found = {
        "ended": ended,
        "failure": None if failure is None else str(failure),
        "batch": read.where("CAST(value AS STRING) LIKE 'batch:%'").count(),
        "epochs": sorted(row.layout_epoch for row in read.select("layout_epoch").distinct().collect()),
        "refusal": refusal,
    }
    print(json.dumps(found))  # noqa: T201 - what the test reads
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
