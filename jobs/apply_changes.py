"""Apply a stream of changes (change data capture) to a Parquet table: the newest row of each key, exactly once.

Run it with spark-submit; everything is set by Spark conf (see conf/apply_changes.properties)::

    spark-submit --properties-file conf/apply_changes.properties jobs/apply_changes.py

Record key: the row's key, as text. Record value: the row as a JSON object, or null where it was deleted; with
``format=debezium`` Debezium's envelope (``op`` and ``after``, with or without ``payload`` around them).

The table is a directory. ``current`` in it is a file that names the newest version, a directory of Parquet files beside it with the
column ``key`` and those of ``columns``. Each micro-batch writes a new version, and then replaces ``current`` in one step:
readers see all of a batch or nothing. The last few versions stay, for readers that are under way.

Conf: ``spark.ordered-kafka.*`` are the options of the source, and of the job itself:

* ``spark.apply_changes.checkpoint`` (required): checkpoint directory,
* ``spark.apply_changes.table`` (required): the table's directory, on a file system that driver and all executors have mounted,
* ``spark.apply_changes.columns`` (required): the row's columns in SQL, such as ``name STRING, age INT``,
* ``spark.apply_changes.format`` (default ``row``): ``row`` or ``debezium``,
* ``spark.apply_changes.trigger`` (default ``1 minute``): ``availableNow`` or a processing-time interval.
"""

import os
import platform
import re
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from job_settings import CHECKPOINT, Setting, literally, run, settings, start, trigger
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import StringType, StructField, StructType

from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.parsing import one_of
from spark_ordered_kafka.spark.options import TopicNames, stream_options
from spark_ordered_kafka.spark.schema import source_schema

KEPT_VERSIONS = 3
TABLE = "spark.apply_changes.table"
SHARED = "driver and executors need one directory that all have mounted under this path"
_VERSION = re.compile(r"[0-9a-f-]{36}-\d+")
_CORRUPT = "_not_json_of_the_columns"


def directory(name: str, value: str) -> Path:
    """A local or mounted directory."""
    if "://" in value or value.startswith("file:"):
        raise ConfigError(
            name, value, "the path of a directory that driver and executors have mounted, without a scheme"
        )
    return Path(value).absolute()


def columns(name: str, value: str) -> StructType:
    """Columns in SQL; needs a Spark session."""
    expected = "columns in SQL such as name STRING, age INT"
    try:
        found = StructType.fromDDL(value)
        if not isinstance(found, StructType) or not found.names:
            raise ConfigError(name, value, expected)
        # A name that is there twice, and a type that JSON cannot have, would end the first batch.
        changes(
            SparkSession.active().createDataFrame([], source_schema(include_headers=False)),
            found,
            envelope=False,
        )
    except AnalysisException as error:
        raise ConfigError(name, value, f"{expected} ({str(error).strip().splitlines()[0]})") from None
    if taken := {"key", _CORRUPT} & {column.lower() for column in found.names}:
        raise ConfigError(
            name, value, f"another name for {', '.join(sorted(taken))}, which the job has itself"
        )
    return found


def one_topic(own: Mapping[str, str], defaults: Mapping[str, str]) -> None:
    """The source's options; raises ConfigError where they name several topics: between those there is no order."""
    subscription = stream_options(own, defaults).subscription
    if not isinstance(subscription, TopicNames) or len(subscription.names) != 1:
        raise ConfigError("option subscribe", str(subscription), "one topic: a table has the rows of one")


SETTINGS = {
    "checkpoint": CHECKPOINT,
    "table": Setting(directory, hint="set it to a directory for the table"),
    "columns": Setting(columns, hint="set it to the row's columns in SQL, such as name STRING, age INT"),
    "format": Setting(partial(one_of, names=("row", "debezium")), "row"),
    "trigger": Setting(trigger, {"processingTime": "1 minute"}),
}


def changes(records: DataFrame, schema: StructType, envelope: bool) -> DataFrame:
    """``key``, ``row`` (null where it was deleted) and the place of each record; a record that is none of these is an error."""
    key, value = fn.col("key").cast("string"), fn.col("value").cast("string")
    fields = [StructField("op", StringType()), StructField("after", schema)]
    form = StructType([*fields, StructField("payload", StructType(fields))]) if envelope else schema
    # As a member of an object: of a value with more behind its first object Spark would read that one alone.
    text = fn.concat(fn.lit('{"change":'), value, fn.lit("}"))
    whole = StructType([StructField("change", form), StructField(_CORRUPT, StringType())])
    json = fn.from_json(text, whole, {"columnNameOfCorruptRecord": _CORRUPT})
    rows = records.select("*", json.alias("json"))
    broken = fn.col("json.change").isNull() | fn.col(f"json.{_CORRUPT}").isNotNull()
    # Spark would put other characters in the place of what is no text.
    broken |= ~fn.is_valid_utf8(value)
    if envelope:
        change = fn.coalesce("json.change.payload", fn.struct("json.change.op", "json.change.after"))
        op, after = fn.coalesce(change["op"], fn.lit("")), change["after"]
        deleted = op == "d"
        broken |= ~(deleted | (op.isin("c", "r", "u") & after.isNotNull()))
        row = fn.when(~deleted, after)
    else:
        row = fn.struct(*(fn.col(f"json.change.{quoted(name)}") for name in schema.names))
    return rows.select(
        fn.when(key.isNull(), failure("there is no key"))
        .when(~fn.is_valid_utf8(key), failure("the key is no text in UTF-8"))
        .otherwise(key)
        .alias("key"),
        fn.when(fn.col("value").isNull(), None)
        .when(broken, failure("the value is no change of the given format and columns"))
        .otherwise(row)
        .alias("row"),
        "layout_epoch",
        "offset",
    )


def failure(why: str) -> Column:
    """Ends the query with the record's place."""
    place = (fn.col(name) for name in ("topic", "partition", "offset"))
    return fn.raise_error(fn.format_string(f"%s-%d, offset %d: {why}", *place))


def quoted(name: str) -> str:
    """A column's name in SQL."""
    return "`" + name.replace("`", "``") + "`"


def apply(found: Mapping[str, Any], records: DataFrame, batch: int) -> None:
    """Make the table's next version; a batch that the current one has already is left alone."""
    spark, table, schema = records.sparkSession, found["table"], found["columns"]
    # The query's id goes with the checkpoint: batches of another checkpoint count anew.
    version = f"{spark.sparkContext.getLocalProperty('sql.streaming.queryId')}-{batch}"
    pointer = table / "current"
    current = pointer.read_text().strip() if pointer.exists() else None
    if current == version:
        return
    check_continued(table, current, version)
    rows = changes(records, schema, found["format"] == "debezium")
    if current is not None:
        # Columns that the table did not have yet are null.
        with_key = StructType(list(schema)).add("key", "string")
        # Whatever the conf says: what is missing would be lost.
        strict = spark.read.option("ignoreMissingFiles", False).option("ignoreCorruptFiles", False)
        before = strict.schema(with_key).parquet(literally(uri(table / current)))
        row = fn.struct(*map(quoted, schema.names)).alias("row")
        rows = before.select(
            "key", row, fn.lit(-1).alias("layout_epoch"), fn.lit(-1).alias("offset")
        ).unionByName(rows)
    newest = rows.groupBy("key").agg(fn.max_by("row", fn.struct("layout_epoch", "offset")).alias("row"))
    counted = Observation()
    rows = (
        newest.where("row IS NOT NULL").select("key", "row.*").observe(counted, fn.count("*").alias("rows"))
    )
    rows.write.mode("overwrite").parquet(uri(table / version))
    check_all_there(table, version, counted.get["rows"])
    replace(pointer, version)
    for old in outdated(table, version, current):
        shutil.rmtree(old)


def check_shared(spark: SparkSession, table: Path) -> None:
    """Make the table's directory; raises ConfigError where executors do not see it, by those that there are now."""
    try:
        table.mkdir(parents=True, exist_ok=True)
        probe = table / f"seen-by-executors-{uuid.uuid4()}"
        probe.touch()
    except OSError as error:
        raise ConfigError(TABLE, str(table), f"the driver cannot write there: {error}") from error
    path = str(probe)

    def blind(_: Iterable[int]) -> Iterator[str]:
        if not os.path.exists(path):
            yield platform.node()

    context = spark.sparkContext
    tasks = 4 * context.defaultParallelism
    try:
        hosts = sorted(set(context.parallelize(range(tasks), tasks).mapPartitions(blind).collect()))
    finally:
        probe.unlink()
    if hosts:
        raise ConfigError(TABLE, str(table), f"executors on {', '.join(hosts)} do not see it: {SHARED}")


def check_continued(table: Path, current: str | None, version: str) -> None:
    """Raises ConfigError for a table that lacks batches before this version: it is not the one of the batches before, as
    that on the disk of another machine, on which the driver was started before."""
    query, _, batch = version.rpartition("-")
    its_query, _, its_batch = (current or "").rpartition("-")
    if int(batch) > 0 and (its_query != query or int(its_batch) < int(batch) - 1):
        raise ConfigError(
            TABLE,
            str(table),
            f"on {platform.node()} its newest version is {current}, and batch {batch} of query {query} comes now: {SHARED}, as"
            " it was left by the batch before. To begin anew, delete table and checkpoint",
        )


def check_all_there(table: Path, version: str, rows: int) -> None:
    """Raises ConfigError unless the driver finds all rows of a version: an executor may have written to a disk of its own."""
    found = sum(pq.read_metadata(path).num_rows for path in (table / version).glob("*.parquet"))
    if found != rows:
        raise ConfigError(
            TABLE,
            str(table),
            f"executors have written {rows} rows, of which the driver finds {found}: {SHARED}",
        )


def uri(path: Path) -> str:
    """The path for Spark, which would look for it in its default file system. Hadoop decodes nothing, so nothing is encoded."""
    return f"file://{path}"


def outdated(table: Path, current: str, before: str | None) -> list[Path]:
    """The versions to delete: not the current one nor the one before, whatever clocks say of them."""
    query = current.rpartition("-")[0]

    def place(path: Path) -> tuple[bool, int]:
        owner, _, batch = path.name.rpartition("-")
        # Those of other checkpoints are older, and their batches count otherwise.
        return (True, int(batch)) if owner == query else (False, path.stat().st_mtime_ns)

    kept = (current, before)
    others = [path for path in table.iterdir() if _VERSION.fullmatch(path.name) and path.name not in kept]
    return sorted(others, key=place, reverse=True)[KEPT_VERSIONS - len(kept) :]


def replace(pointer: Path, version: str) -> None:
    """Let ``pointer`` name the version, in one step."""
    new = pointer.with_name("current.new")
    with new.open("w") as file:
        file.write(version)
        file.flush()
        os.fsync(file.fileno())
    new.replace(pointer)


def main() -> None:
    """Start the query and wait for its end."""
    spark = SparkSession.builder.appName("apply-changes").getOrCreate()
    found = settings(spark, "apply_changes", SETTINGS, one_topic)
    check_shared(spark, found["table"])
    records = spark.readStream.format("ordered-kafka").load()
    start(records.writeStream.foreachBatch(partial(apply, found)), found)


if __name__ == "__main__":
    run(main)
