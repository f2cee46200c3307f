"""Keyed state behind the source: ``transformWithState`` in Python, which needs the ``state`` extra."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import IntegerType, LongType, StringType, StructType

from spark_ordered_kafka.local import LocalCluster
from tests.queries import await_stable
from tests.streams import FORMAT, NumberedWriter, change, create, options

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class InOrder(StatefulProcessor):
    """Keeps the newest place of each key, and counts the records that lie before it."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        schema = StructType().add("epoch", IntegerType()).add("offset", LongType()).add("late", LongType())
        self._newest = handle.getValueState("newest", schema)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        epoch, offset, late = self._newest.get() or (-1, -1, 0)
        # The shuffle before may mix the rows of a batch; what is checked is that no batch is before another.
        for row in sorted(rows, key=lambda row: (row.layout_epoch, row.offset)):
            late += (row.layout_epoch, row.offset) <= (epoch, offset)
            epoch, offset = row.layout_epoch, row.offset
        self._newest.update((epoch, offset, late))
        yield Row(key=key[0].decode(), late=late)

    def close(self) -> None:
        pass


@pytest.fixture
def _rocksdb(spark: SparkSession) -> Iterator[None]:
    """State of Python needs RocksDB; one store is enough."""
    wanted = {PROVIDER: ROCKSDB, "spark.sql.shuffle.partitions": "1"}
    before = {name: spark.conf.get(name) or "" for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    yield
    for name, value in before.items():
        spark.conf.set(name, value)


def test_what_python_needs_for_keyed_state_is_installed() -> None:
    """PySpark asks for protobuf, of a certain version at least, and does not bring it."""
    assert import_module("pyspark.sql.streaming.proto.StateMessage_pb2").StateRequest().version == 0


@pytest.mark.long
@pytest.mark.usefixtures("_rocksdb")
def test_transform_with_state_keeps_a_key_in_order_through_a_change(
    cluster: LocalCluster, spark: SparkSession, topic_name: str, tmp_path: Any
) -> None:
    """Two runs, so that state is also read back; the topic grows between them."""
    topic = create(cluster, topic_name, 1)
    writer = NumberedWriter(cluster, topic, keys=5)
    result = StructType().add("key", StringType()).add("late", LongType())
    for partitions in (None, 3):
        if partitions is not None:
            change(cluster, topic, partitions)
        writer.write(2)
        await_stable(cluster, topic)
        rows = (
            spark.readStream.format(FORMAT)
            .options(**options(cluster, subscribe=topic, startingOffsets="earliest"))
            .load()
        )
        states = rows.groupBy("key").transformWithState(InOrder(), result, "Update", "None")
        found: list[Row] = []
        query = (
            states.writeStream.foreachBatch(lambda batch, _: found.extend(batch.collect()))  # noqa: B023
            .outputMode("update")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        assert {row.key for row in found} == {f"k{number}" for number in range(writer.keys)}
        assert {row.late for row in found} == {0}
