"""A client of a Spark Connect server, as a process of its own: a classic session and a remote one exclude each other.

``connect_client.py URL BOOTSTRAP CONTROLLER SOURCE TARGET BATCHES CHECKPOINT`` copies the source to the target in a stream and
to another topic by ``foreachBatch``, writes and reads a batch, and prints what it found in one line of JSON.
"""

from __future__ import annotations

import json
import sys
from typing import Any
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from spark_ordered_kafka import OrderedKafkaListener, register
from tests.servers import await_true

FORMAT = "ordered-kafka"
TIMEOUT = 120.0


def watched(spark: SparkSession, rows: DataFrame, checkpoint: str) -> dict[str, Any]:
    """What a running query shows once it has read all: its progress, and what Prometheus gets by the listener."""
    listener = OrderedKafkaListener(port=0, addr="127.0.0.1")
    spark.streams.addListener(listener)
    writer = rows.writeStream.format("noop").queryName("watched").option("checkpointLocation", checkpoint)
    query = writer.trigger(processingTime="1 second").start()

    def scraped() -> dict[str, float]:
        with urlopen(f"http://127.0.0.1:{listener.port}/metrics", timeout=TIMEOUT) as answer:
            families = text_string_to_metric_families(answer.read().decode())
            return {
                sample.name.removeprefix("ordered_kafka_query_"): sample.value
                for family in families
                for sample in family.samples
                if sample.labels.get("query") == "watched"
            }

    try:
        await_true(lambda: scraped().get("offsets_behind_latest") == 0.0, "all is read", TIMEOUT)
        progress = query.lastProgress
        reported = None if progress is None else json.loads(progress.sources[0].latestOffset or "null")
        return {"scraped": scraped(), "progress": reported}
    finally:
        query.stop()
        spark.streams.removeListener(listener)
        listener.close()


def written_in_batches(rows: DataFrame, checkpoint: str, **options: str) -> str:
    """Write all by ``foreachBatch``; the error, if any."""

    def write(batch: DataFrame, _: int) -> None:
        batch.write.format(FORMAT).options(**options).mode("append").save()

    writer = rows.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint)
    query = writer.trigger(availableNow=True).start()
    try:
        query.awaitTermination(240)
    except StreamingQueryException as error:
        return str(error)
    return ""


def main(
    url: str, bootstrap: str, controller: str, source: str, target: str, batches: str, checkpoint: str
) -> None:
    """All of it in one session."""
    spark = SparkSession.builder.remote(url).getOrCreate()
    servers = {"kafka.bootstrap.servers": bootstrap, "controller.url": controller}
    for name, value in servers.items():
        spark.conf.set(f"spark.ordered-kafka.{name}", value)
    register(spark)
    stream = spark.readStream.format(FORMAT).option("subscribe", source)
    rows = stream.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 300).load()
    columns = rows.select("key", "value")
    writer = columns.writeStream.format(FORMAT).option("topic", target)
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
        "watched": watched(spark, rows, f"{checkpoint}-watched"),
        "by name": written_in_batches(
            columns, f"{checkpoint}-named", **servers, topic=target, writer="named"
        ),
        "in batches": written_in_batches(columns, f"{checkpoint}-batches", **servers, topic=batches),
    }
    print(json.dumps(found))  # noqa: T201 - what the test reads
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
