"""Which output modes there are for aggregations, and that the advice for those there are not can be followed."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import window

from spark_ordered_kafka.local import LocalCluster
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
    found = {message.key(): message.value() for message in raw_records(cluster, target, 1)}
    assert found == {f"k{key}".encode(): b"5" for key in range(5)}
