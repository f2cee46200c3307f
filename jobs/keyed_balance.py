"""Keep a running balance per account with Spark's keyed state, and write every balance to a topic, in order.

Run it with spark-submit; everything is set by Spark conf (see conf/keyed_balance.properties)::

    spark-submit --properties-file conf/keyed_balance.properties jobs/keyed_balance.py

Record key: the account. Record value: the amount to add, a whole number as text. For each record a record with the same
key is written whose value is JSON: ``{"balance":70,"records":3}``, the account's balance after its third record.

Conf: ``spark.ordered-kafka.*`` are the options of source and sink, and of the job itself:

* ``spark.keyed_balance.checkpoint`` (required): checkpoint directory, which has the state, too,
* ``spark.keyed_balance.trigger`` (default ``1 second``): ``availableNow`` or a processing-time interval.

``spark.sql.shuffle.partitions`` is the number of tasks that keep state; Spark fixes it for the life of a checkpoint. State in
Python needs protobuf: ``pip install 'spark-ordered-kafka[state]'``.
"""

import json
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from job_settings import CHECKPOINT, TRIGGER, run, settings, start
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.spark.options import sink_options, stream_options

SETTINGS = {"checkpoint": CHECKPOINT, "trigger": TRIGGER}
# The only store of Spark's that has the state of Python.
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class Balance(StatefulProcessor):
    """An account's balance, and of how many records it is made."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called by each task."""
        self._state = handle.getValueState("balance", "balance BIGINT, records BIGINT")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Add the account's records of this micro-batch, in the order in which they were written."""
        balance, records = self._state.get() or (0, 0)
        # The shuffle that brings an account's records to one task may mix them.
        for row in sorted(rows, key=lambda row: (row.topic, row.layout_epoch, row.offset)):
            balance, records = balance + amount(row), records + 1
            value = json.dumps({"balance": balance, "records": records}, separators=(",", ":"))
            yield Row(key=row.key, value=value)
        self._state.update((balance, records))

    def close(self) -> None:
        """Nothing to close."""


def amount(row: Row) -> int:
    """A record's amount; raises ValueError, which ends the query, for a record that is no payment."""
    place = f"{row.topic}-{row.partition}, offset {row.offset}"
    if row.key is None:
        raise ValueError(f"{place}: the record has no key, which would be the account")
    try:
        return int(row.value)
    except (TypeError, ValueError):
        raise ValueError(f"{place}: the value {row.value!r} is no amount, a whole number as text") from None


def balances(payments: DataFrame) -> DataFrame:
    """A row for each payment, ordered per account: state and sink are one task."""
    rows = payments.select("key", "value", "topic", "partition", "offset", "layout_epoch").groupBy("key")
    return rows.transformWithState(Balance(), "key BINARY, value STRING", "Append", "None")


def check_protobuf() -> None:
    """Raises ConfigError where a task would fail to import what keyed state needs."""
    try:
        import_module("pyspark.sql.streaming.proto.StateMessage_pb2")
    except ImportError as error:
        hint = f"keyed state in Python needs it: pip install 'spark-ordered-kafka[state]' ({error})"
        raise ConfigError("protobuf", None, hint) from None


def main() -> None:
    """Start the query and wait for its end."""
    spark = SparkSession.builder.appName("keyed-balance").getOrCreate()
    found = settings(spark, "keyed_balance", SETTINGS, stream_options, sink_options)
    check_protobuf()
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
    payments = spark.readStream.format("ordered-kafka").load()
    start(balances(payments).writeStream.format("ordered-kafka"), found)


if __name__ == "__main__":
    run(main)
