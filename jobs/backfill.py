"""Write a dataset (Parquet, JSON, …) into an ordered topic: each key in the order of a column, each record once.

Run it with spark-submit; everything is set by Spark conf (see conf/backfill.properties)::

    spark-submit --properties-file conf/backfill.properties jobs/backfill.py

The dataset is cut into batches by ranges of the order, which are noted in the checkpoint before the first is written. A job that
was killed continues with the batch it was in: of that, only what is not committed yet is written. The dataset must stay as it is
until the job has ended. Rows of a key that are equal in the order are written in any.

Conf: ``spark.ordered-kafka.*`` are the options of the sink, and of the job itself:

* ``spark.backfill.checkpoint`` (required): checkpoint directory,
* ``spark.backfill.path`` (required): the dataset, and ``spark.backfill.format`` (default ``parquet``) its format,
* ``spark.backfill.order`` (required): SQL expression that orders the rows of a key: a number, date or timestamp, never null,
* ``spark.backfill.key`` (default ``key``) and ``spark.backfill.value`` (default ``value``): SQL expressions of text or bytes; the
  key is never null,
* ``spark.backfill.batchRecords`` (default 100000): about as many records has a batch, each task's part of which is one transaction,
* ``spark.backfill.tasks`` (default 4): tasks that write a batch; fixed for the life of a checkpoint.
"""

import uuid
from collections.abc import Mapping
from functools import partial
from typing import Any

from job_settings import CHECKPOINT, Setting, literally, plain, run, settings, start, under
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import DateType, NumericType, TimestampNTZType, TimestampType

from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.parsing import positive
from spark_ordered_kafka.spark.datasource import CONF_PREFIX
from spark_ordered_kafka.spark.options import sink_options
from spark_ordered_kafka.spark.schema import check_sink_schema

# Ranks are found to one in so many rows.
_ACCURACY = 100_000
ORDER = "_order"
TIME_ZONE = "spark.sql.session.timeZone"
SETTINGS = {
    "checkpoint": CHECKPOINT,
    "path": Setting(plain, hint="set it to the files or the directory of the dataset"),
    "format": Setting(plain, "parquet"),
    "order": Setting(
        plain, hint="set it to an SQL expression such as created_at, which orders the rows of a key"
    ),
    "key": Setting(plain, "key"),
    "value": Setting(plain, "value"),
    "batchRecords": Setting(positive, 100_000),
    "tasks": Setting(positive, 4),
}


def records(spark: SparkSession, found: Mapping[str, Any]) -> DataFrame:
    """The dataset as ``key``, ``value`` and the order. Raises ConfigError for what does not fit it."""
    try:
        rows = spark.read.format(found["format"]).load(found["path"])
        made = rows.select(
            needed(fn.expr(found["key"]), "key"),
            fn.expr(found["value"]).alias("value"),
            needed(fn.expr(found["order"]), ORDER),
        )
    except AnalysisException as error:
        shown = ", ".join(found[name] for name in ("path", "format", "key", "value", "order"))
        why = str(error).strip().splitlines()[0]
        names = "spark.backfill.path, format, key, value, order"
        raise ConfigError(names, shown, f"a dataset and expressions over its columns ({why})") from None
    kind = made.schema[ORDER].dataType
    if not isinstance(kind, NumericType | DateType | TimestampType | TimestampNTZType):
        expected = f"a number, date or timestamp, not {kind.simpleString()}"
        raise ConfigError("spark.backfill.order", found["order"], expected)
    return made


def needed(column: Column, name: str) -> Column:
    """Ends the job where it is null: such a row would have no order."""
    setting = name.removeprefix("_")
    null = fn.raise_error(fn.lit(f"spark.backfill.{setting} is null for a row, which would have no order"))
    return fn.coalesce(column, null).alias(name)


def plan(rows: DataFrame, found: Mapping[str, Any]) -> DataFrame:
    """The batches: ``batch``, counted from 0, has the rows above ``after`` up to ``upto``; null: there is no bound.

    Beside them in each row: how many there are, a name for the writer, and the settings that must stay.
    """
    batches = -(-rows.count() // found["batchRecords"])
    if batches == 0:
        raise ConfigError("spark.backfill.path", found["path"], "a dataset that has rows")
    ranks = fn.array(*(fn.lit(number / batches) for number in range(1, batches + 1)))
    ends = rows.select(fn.array_distinct(fn.percentile_approx(ORDER, ranks, _ACCURACY)).alias("ends"))
    kept = fixed(rows.sparkSession, found)
    return ends.selectExpr(
        """inline(transform(ends, (end, i) -> named_struct(
            'batch', i, 'after', IF(i = 0, NULL, ends[i - 1]), 'upto', IF(i = size(ends) - 1, NULL, end),
            'batches', size(ends))))""",
    ).select("*", fn.lit(f"backfill-{uuid.uuid4()}").alias("writer"), fn.lit(kept).alias("settings"))


def fixed(spark: SparkSession, found: Mapping[str, Any]) -> str:
    """What must not change while batches are being written."""
    names = ("path", "format", "order", "key", "value", "tasks", "topic")
    # In another zone a time that is text is another instant, and so its row may be in another batch (D-357).
    kept = {name: found[name] for name in names} | {TIME_ZONE: spark.conf.get(TIME_ZONE)}
    return ", ".join(f"{name}={value}" for name, value in kept.items())


def planned(rows: DataFrame, found: Mapping[str, Any]) -> DataFrame:
    """The plan in the checkpoint, made if there is none; a file for each batch. Raises ConfigError if it is another job's."""
    spark, path = rows.sparkSession, f"{found['checkpoint']}/plan"
    try:
        noted = spark.read.parquet(literally(path))
        ends = noted.select("batches", "settings").collect()
    except AnalysisException:  # there is none
        ends = []
    # A job that was killed while it noted its plan has written nothing else.
    if not ends or len(ends) < ends[0]["batches"]:
        plan(rows, found).coalesce(1).write.option("maxRecordsPerFile", 1).mode("overwrite").parquet(path)
        return spark.read.parquet(literally(path))
    if (before := ends[0]["settings"]) != (now := fixed(spark, found)):
        hint = f"the checkpoint was begun with {before}; keep that, or set another checkpoint"
        raise ConfigError("spark.backfill.*", now, hint)
    return noted


def write(rows: DataFrame, batches: DataFrame, tasks: int, _trigger: DataFrame, batch: int) -> None:
    """Write a batch, in the order of its keys."""
    bounds = batches.where(fn.col("batch") == batch)
    inside = f"(after IS NULL OR {ORDER} > after) AND (upto IS NULL OR {ORDER} <= upto)"
    part = rows.join(fn.broadcast(bounds.select("after", "upto")), fn.expr(inside))
    ordered = part.select("key", "value", ORDER).repartition(tasks, "key").sortWithinPartitions(ORDER)
    (name,) = (row["writer"] for row in bounds.collect())
    ordered.drop(ORDER).write.format("ordered-kafka").option("writer", name).mode("append").save()


def main() -> None:
    """Write all batches that are not written yet."""
    spark = SparkSession.builder.appName("backfill").getOrCreate()
    topic = under(spark, CONF_PREFIX).get("topic")
    found = settings(spark, "backfill", SETTINGS, sink_options) | {"topic": topic}
    rows = records(spark, found)
    check_sink_schema(rows.schema, topic)
    batches = planned(rows, found)
    # Its files count the micro-batches, whose numbers are those of the batches.
    files = spark.readStream.schema(batches.schema).option("maxFilesPerTrigger", 1)
    triggers = files.parquet(literally(f"{found['checkpoint']}/plan")).writeStream
    query = {"checkpoint": f"{found['checkpoint']}/query", "trigger": {"availableNow": True}}
    start(triggers.foreachBatch(partial(write, rows, batches, found["tasks"])), query)


if __name__ == "__main__":
    run(main)
