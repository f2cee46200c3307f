"""Which save modes, output modes and triggers there are, and that the advice for those there are not can be followed."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException, UnsupportedOperationException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import window

from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.spark.options import sink_options
from spark_ordered_kafka.spark.sink import OrderedStreamWriter
from tests.queries import await_stable, everything
from tests.streams import FORMAT, NumberedWriter, create, options, raw_records


@pytest.mark.long
def test_output_modes_of_an_aggregation(
    spark: SparkSession, cluster: LocalCluster, topic_name: str, tmp_path: Path
) -> None:
    create(cluster, topic_name, 1)
    target = create(cluster, f"{topic_name}-counts", 1)
    NumberedWriter(cluster, topic_name, keys=5).write()
    await_stable(cluster, topic_name)
    read = spark.readStream.format(FORMAT).options(**everything(cluster, topic_name)).load()

    def counts(rows: DataFrame) -> DataFrame:
        return rows.groupBy("key").count().selectExpr("key", "CAST(count AS STRING) AS value")

    def run(rows: DataFrame, mode: str) -> None:
        sink = rows.writeStream.format(FORMAT).options(**options(cluster, topic=target))
        query = sink.option("checkpointLocation", str(tmp_path / mode)).outputMode(mode)
        query.trigger(availableNow=True).start().awaitTermination()

    with pytest.raises(StreamingQueryException, match=r'outputMode\("update"\) with foreachBatch'):
        run(counts(read), "complete")
    with pytest.raises(StreamingQueryException, match="does not support Update mode"):
        run(counts(read), "update")

    windows = (
        read.withWatermark("timestamp", "1 second").groupBy(window("timestamp", "1 second"), "key").count()
    )
    run(windows.selectExpr("key", "CAST(count AS STRING) AS value"), "append")

    def write(batch: DataFrame, _: int) -> None:
        batch.write.format(FORMAT).options(**options(cluster, topic=target, writer="counts")).mode(
            "append"
        ).save()

    query = counts(read).writeStream.outputMode("update").foreachBatch(write)
    query.option("checkpointLocation", str(tmp_path / "batches")).trigger(
        availableNow=True
    ).start().awaitTermination()
    await_stable(cluster, target)
    found = {message.key(): message.value() for message in raw_records(cluster, target, 1)}
    assert found == {f"k{key}".encode(): b"5" for key in range(5)}


REFUSED_BY_SPARK = 'cannot be written in the "{}" mode. Please use either the "Append"'


@pytest.mark.long
@pytest.mark.parametrize(
    ("mode", "refusal"),
    [
        (None, REFUSED_BY_SPARK.format("ErrorIfExists")),
        ("error", REFUSED_BY_SPARK.format("ErrorIfExists")),
        ("ignore", REFUSED_BY_SPARK.format("Ignore")),
        ("overwrite", r"save mode has the value 'overwrite': Kafka only appends: use mode\(\"append\"\)"),
    ],
)
def test_save_modes_that_are_refused_say_what_to_write(
    cluster: LocalCluster, spark: SparkSession, topic_name: str, mode: str | None, refusal: str
) -> None:
    create(cluster, topic_name, 1)
    rows = spark.range(3).selectExpr("CAST(id AS STRING) AS key", "'v' AS value")
    write = rows.write.format(FORMAT).options(**options(cluster, topic=topic_name))
    with pytest.raises(AnalysisException, match=refusal):
        (write if mode is None else write.mode(mode)).save()
    assert list(raw_records(cluster, topic_name, 1)) == []
    write.mode("append").save()
    await_stable(cluster, topic_name)
    assert len(list(raw_records(cluster, topic_name, 1))) == 3


@pytest.mark.long
def test_triggers(cluster: LocalCluster, spark: SparkSession, topic_name: str, tmp_path: Path) -> None:
    create(cluster, topic_name, 1)
    target = create(cluster, f"{topic_name}-copy", 1)
    NumberedWriter(cluster, topic_name, keys=5).write()
    await_stable(cluster, topic_name)
    limited = everything(cluster, topic_name, maxOffsetsPerTrigger=10)
    read = spark.readStream.format(FORMAT).options(**limited).load().select("key", "value")
    sink = read.writeStream.format(FORMAT).options(**options(cluster, topic=target))
    sink = sink.option("checkpointLocation", str(tmp_path))
    with pytest.raises(UnsupportedOperationException, match="does not support continuous processing"):
        sink.trigger(continuous="1 second").start()
    query = sink.trigger(once=True).start()
    query.awaitTermination()
    assert [progress.numInputRows for progress in query.recentProgress] == [25]
    NumberedWriter(cluster, topic_name, keys=5, first=5).write()
    await_stable(cluster, topic_name)
    query = sink.trigger(availableNow=True).start()
    query.awaitTermination()
    assert len([progress for progress in query.recentProgress if progress.numInputRows]) == 3
    await_stable(cluster, target)
    assert len(list(raw_records(cluster, target, 1))) == 50


def test_a_continuous_write_says_in_the_log_that_nothing_is_written(cluster: LocalCluster) -> None:
    """Spark runs no task of it, and asks to commit what it has not got; its query goes on whatever the answer."""
    writer = OrderedStreamWriter(sink_options(options(cluster, topic="t")))
    with pytest.raises(
        ConfigError, match="trigger has the value 'continuous': nothing is written; use another"
    ):
        writer.commit([None], 0)
