"""Copy a stream of keyed records from one ordered topic to another, optionally under another key.

Run it with spark-submit; everything is set by Spark conf (see conf/ordered_copy.properties)::

    spark-submit --properties-file conf/ordered_copy.properties jobs/ordered_copy.py

Conf: ``spark.ordered-kafka.*`` are the options of source and sink, and of the job itself:

* ``spark.ordered_copy.checkpoint`` (required): checkpoint directory,
* ``spark.ordered_copy.key``: SQL expression over the source's columns that gives the new key, never null; by default the
  key stays,
* ``spark.ordered_copy.value``: SQL expression that gives the new value; by default the value stays,
* ``spark.ordered_copy.tasks`` (default 4): tasks that write re-keyed rows; fixed for the life of a checkpoint,
* ``spark.ordered_copy.trigger`` (default ``1 second``): ``availableNow`` or a processing-time interval.
"""

from job_settings import CHECKPOINT, TRIGGER, Setting, plain, run, settings, start
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from spark_ordered_kafka.parsing import positive
from spark_ordered_kafka.spark.options import sink_options, stream_options

JOB = "ordered_copy"
SETTINGS = {
    "checkpoint": CHECKPOINT,
    "key": Setting(plain),
    "value": Setting(plain, "value"),
    "tasks": Setting(positive, 4),
    "trigger": TRIGGER,
}


def rekeyed(rows: DataFrame, key: str | None, value: str, tasks: int) -> DataFrame:
    """Rows with key and value as the expressions say.

    A new key needs a shuffle, so that all rows of one key reach one task. The number of tasks is fixed: it must not
    change between two attempts of a batch. The shuffle keeps the order of the rows of each of its input partitions.
    A record for which the expression gives null ends the query: it would be written without order, silently.
    """
    if key is None:
        return rows.select("key", fn.expr(value).alias("value"))
    new = fn.expr(key)
    keyless = fn.format_string(
        f"spark.{JOB}.key is null for %s-%d, offset %d: records without a key have no order. Give an expression that has a "
        "value for every record, such as coalesce(<expression>, CAST(key AS STRING))",
        *(fn.col(name) for name in ("topic", "partition", "offset")),
    )
    checked = fn.coalesce(new, fn.raise_error(keyless)).alias("key")
    return rows.select(checked, fn.expr(value).alias("value")).repartition(tasks, "key")


def main() -> None:
    """Start the query and wait for its end."""
    spark = SparkSession.builder.appName("ordered-copy").getOrCreate()
    found = settings(spark, JOB, SETTINGS, stream_options, sink_options)
    source = spark.readStream.format("ordered-kafka").load()
    rows = rekeyed(source, found["key"], found["value"], found["tasks"])
    start(rows.writeStream.format("ordered-kafka"), found)


if __name__ == "__main__":
    run(main)
