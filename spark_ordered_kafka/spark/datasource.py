"""``format("ordered-kafka")``: the entry Spark calls for reading and writing."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.spark.options import (
    SinkOptions,
    SourceOptions,
    batch_options,
    check_defaults,
    sink_options,
    source_options,
    stream_options,
)
from spark_ordered_kafka.spark.schema import check_sink_schema, source_schema

if TYPE_CHECKING:
    from spark_ordered_kafka.spark.batch import OrderedBatchReader
    from spark_ordered_kafka.spark.sink import OrderedBatchWriter, OrderedStreamWriter
    from spark_ordered_kafka.spark.stream import OrderedStreamReader

# Readers and writers are imported where they are made: a task has the data source, too, and needs few of them (D-214).

FORMAT = "ordered-kafka"
CONF_PREFIX = "spark.ordered-kafka."


class OrderedKafkaDataSource(DataSource):
    """Spark's data source: names, defaults and columns are those of Spark's own ``kafka`` format."""

    defaults: ClassVar[Mapping[str, str]] = {}

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(dict(options))
        self._plans = True

    def __getstate__(self) -> dict[str, Any]:
        # To commit or abort, Spark makes another writer with a pickled data source, which must not ask anything (D-072).
        return self.__dict__ | {"_plans": False}

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return FORMAT

    def schema(self) -> StructType:
        """The source's columns; called when a read is planned."""
        return source_schema(source_options(self.options, self.defaults).include_headers)

    def reader(self, schema: StructType) -> OrderedBatchReader:
        """Reader of a batch query."""
        from spark_ordered_kafka.spark.batch import OrderedBatchReader

        return OrderedBatchReader(_fitting(schema, batch_options(self.options, self.defaults)))

    def streamReader(self, schema: StructType) -> OrderedStreamReader:
        """Reader of a streaming query."""
        from spark_ordered_kafka.spark.stream import OrderedStreamReader

        return OrderedStreamReader(_fitting(schema, stream_options(self.options, self.defaults)))

    def writer(self, schema: StructType, overwrite: bool) -> OrderedBatchWriter:
        """Writer of a batch query, or inside ``foreachBatch``."""
        from spark_ordered_kafka.spark.sink import OrderedBatchWriter
        from spark_ordered_kafka.spark.targets import check_target, leased_name

        if overwrite:
            raise ConfigError("save mode", "overwrite", 'Kafka only appends: use mode("append")')
        options = self._sink_options(schema)
        check_target(options.connection, options.topic, once=options.writer is not None)
        return OrderedBatchWriter(options, None if options.writer is not None else leased_name(options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> OrderedStreamWriter:
        """Writer of a streaming query."""
        from spark_ordered_kafka.spark.sink import OrderedStreamWriter

        if overwrite:
            # Spark 4.3 refuses outputMode("update") for every sink that is written in Python.
            raise ConfigError(
                "output mode",
                "complete",
                'Kafka only appends: use outputMode("append"), for which an aggregation needs a watermark, or'
                ' outputMode("update") with foreachBatch, a batch write in it and the option writer',
            )
        options = self._sink_options(schema)
        if self._plans:
            from spark_ordered_kafka.spark.targets import check_target

            check_target(options.connection, options.topic, once=True)
        return OrderedStreamWriter(options)

    def _sink_options(self, schema: StructType) -> SinkOptions:
        options = sink_options(self.options, self.defaults)
        check_sink_schema(schema, options.topic)
        return options


def _fitting(schema: StructType, options: SourceOptions) -> SourceOptions:
    """The options; raises ConfigError where Spark was given another schema than they make."""
    fixed = source_schema(options.include_headers)
    if schema != fixed:
        raise ConfigError("schema", schema.simpleString(), f"the source's columns are {fixed.simpleString()}")
    return options


def register(spark: SparkSession) -> None:
    """Register the format with defaults from the session's conf: ``spark.ordered-kafka.<option>``.

    An option given to a read or a write wins. Raises ConfigError for a conf entry that is no option.
    """
    entries = {
        name[len(CONF_PREFIX) :]: str(value)
        for name, value in spark.conf.getAll.items()
        if name.startswith(CONF_PREFIX)
    }
    check_defaults(entries)
    spark.dataSource.register(type("DefaultSource", (OrderedKafkaDataSource,), {"defaults": entries}))
