"""A user's program for tests: reads a topic with options from Spark conf, before and after ``register``.

Arguments: topic, "launched" if Spark conf came with the launch, else the options as JSON, which it sets itself.
"""

import json
import sys

from pyspark.sql import SparkSession

from spark_ordered_kafka import register

FORMAT = "ordered-kafka"
topic, given = sys.argv[1:]
builder = SparkSession.builder.config("spark.ui.enabled", "false")
if given != "launched":
    for name, value in json.loads(given).items():
        builder.config(f"spark.ordered-kafka.{name}", value)
spark = builder.getOrCreate()


def attempt(name: str, **options: str) -> None:
    """Print what a read gives, or the error."""
    try:
        rows = spark.read.format(FORMAT).options(**options).load()
        sys.stdout.write(f"{name}: {rows.count()} rows, {'headers' in rows.columns}\n")
    except Exception as error:  # noqa: BLE001 - judged by the test
        sys.stdout.write(f"{name}: {' '.join(str(error).split())}\n")


conf = {
    name.removeprefix("spark.ordered-kafka."): value
    for name, value in spark.conf.getAll.items()
    if name.startswith("spark.ordered-kafka.")
}
spark.conf.set("spark.ordered-kafka.includeHeaders", "true")
attempt("nothing given")
attempt("one left out", **{name: value for name, value in conf.items() if name != "failOnDataLoss"})
attempt("all given", **{name.upper(): value for name, value in conf.items()})
register(spark)
attempt("registered")
rows = spark.readStream.format(FORMAT).option("startingOffsets", "earliest").load()
rows.writeStream.format("noop").trigger(availableNow=True).start().awaitTermination()
spark.stop()
