"""A driver that logs all it can, and prints what users look at: plans, progress, errors; run by test_no_secrets.py.

``python -m tests.integration.telling_driver OPTIONS TOPIC DIRECTORY``; OPTIONS is a JSON file, so that no secret is in the arguments.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import spark_ordered_kafka
from spark_ordered_kafka import OrderedConsumer, OrderedProducer
from spark_ordered_kafka.errors import OrderedKafkaError

FORMAT = "ordered-kafka"


def main() -> None:
    """Prints and logs."""
    given: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text())
    topic, directory = sys.argv[2], Path(sys.argv[3])
    logging.basicConfig(level=logging.DEBUG, stream=sys.stderr)
    # Every call into the JVM, with its arguments: of Spark itself, and said in docs/security.md.
    logging.getLogger("py4j").setLevel(logging.INFO)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("DEBUG")
    spark_ordered_kafka.register(session)
    right: dict[str, str] = given["right"]
    rows = session.range(50).selectExpr("CAST(id % 5 AS STRING) AS key", "CAST(id AS STRING) AS value")
    rows.repartition(2, "key").write.format(FORMAT).options(**right, topic=topic).mode("append").save()
    read = session.read.format(FORMAT).options(**right, subscribe=topic).load()
    read.explain(True)
    print(read, read.schema.simpleString(), read.count())
    stream = (
        session.readStream.format(FORMAT).options(**right, subscribe=topic, startingOffsets="earliest").load()
    )
    copied = stream.select("key", "value").writeStream.format(FORMAT).options(**right, topic=topic)
    query = (
        copied.option("checkpointLocation", str(directory / "checkpoint")).trigger(availableNow=True).start()
    )
    query.awaitTermination()
    query.explain(True)
    print(query.lastProgress, query.status, query.exception())
    for wrong in given["wrong"]:
        try:
            session.read.format(FORMAT).options(**(right | wrong), subscribe=topic).load().count()
            print("librdkafka takes:", sorted(wrong))
        except (PySparkException, OrderedKafkaError) as error:
            print(f"{error}\n{error!r}")
        except Exception as error:  # noqa: BLE001 - py4j's own
            print(f"{type(error)}: {error}")
    try:
        wrong = right | given["wrong"][0]
        rows.write.format(FORMAT).options(**wrong, topic=topic).mode("append").save()
        print("the write was done")
    except PySparkException as error:
        print(f"{error}\n{error!r}")
    clients(given["clients"], topic)
    session.stop()


def clients(given: dict[str, Any], topic: str) -> None:
    """What the plain clients show."""
    with OrderedProducer(given["right"] | {"debug": "security,broker,conf"}) as producer:
        producer.produce(topic, key="k", value="v")
        producer.flush(30)
        print(producer, repr(producer), vars(producer))
    with OrderedConsumer(given["right"] | {"group.id": topic, "auto.offset.reset": "earliest"}) as consumer:
        consumer.subscribe([topic])
        consumer.poll(5)
        print(consumer, repr(consumer), vars(consumer))
    for wrong in given["wrong"]:
        try:
            with OrderedProducer(given["right"] | wrong) as producer:
                producer.produce(topic, key="k", value="v")
                producer.flush(10)
            print("librdkafka takes:", sorted(wrong))
        except OrderedKafkaError as error:
            print(f"{error}\n{error!r}")


if __name__ == "__main__":
    main()
