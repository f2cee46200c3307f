"""``format("ordered-kafka")``: the entry Spark calls for reading and writing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.types import StructType

from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.spark.address_space import share_arenas
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
from spark_ordered_kafka.spark.versions import SameVersion

if TYPE_CHECKING:
    from spark_ordered_kafka.spark.batch import OrderedBatchReader
    from spark_ordered_kafka.spark.sink import OrderedBatchWriter, OrderedStreamWriter
    from spark_ordered_kafka.spark.stream import OrderedStreamReader

# Readers and writers are imported where they are made: a task has the data source, too, and needs few of them (D-214).

FORMAT = "ordered-kafka"
CONF_PREFIX = "spark.ordered-kafka."
# Before each option of a table, which Spark gives once without it, too.
_TABLE_OPTION = "option."
_ADVICE = "call spark_ordered_kafka.register(spark) before the first read or write"
_NO_TABLE = f"Spark forgets the options of a table of this format: use CREATE TEMPORARY VIEW ... USING `{FORMAT}` OPTIONS (...)"
_Options = TypeVar("_Options", SourceOptions, SinkOptions)


class OrderedKafkaDataSource(SameVersion, DataSource):
    """Spark's data source: names, defaults and columns are those of Spark's own ``kafka`` format."""

    # From Spark conf; None: register was not called, so they are not known (D-252).
    defaults: ClassVar[Mapping[str, str] | None] = None

    def __init__(self, options: MutableMapping[str, str]) -> None:
        share_arenas()
        super().__init__(dict(options))
        _check_table(self.options)
        self._plans = True
        if self.defaults is None:
            _check_unread(self.options)

    def __getstate__(self) -> dict[str, Any]:
        # To commit or abort, Spark makes another writer with a pickled data source, which must not ask anything (D-072).
        return self.__dict__ | {"_plans": False}

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return FORMAT

    def schema(self) -> StructType:
        """The source's columns; called when a read is planned."""
        return source_schema(self._parsed(source_options).include_headers)

    def reader(self, schema: StructType) -> OrderedBatchReader:
        """Reader of a batch query."""
        from spark_ordered_kafka.spark.batch import OrderedBatchReader

        return OrderedBatchReader(_fitting(schema, self._parsed(batch_options)))

    def streamReader(self, schema: StructType) -> OrderedStreamReader | RefusedStreamReader:
        """Reader of a streaming query."""
        from spark_ordered_kafka.spark.stream import OrderedStreamReader

        try:
            return OrderedStreamReader(_fitting(schema, self._parsed(stream_options)))
        except ConfigError as error:
            return RefusedStreamReader(error)

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
        options = self._parsed(sink_options)
        check_sink_schema(schema, options.topic, timestamps=options.keep_timestamps)
        return options

    def _parsed(self, parse: Callable[[Mapping[str, str], Mapping[str, str] | None], _Options]) -> _Options:
        try:
            return parse(self.options, self.defaults)
        except ConfigError as error:
            if self.defaults is None and "is missing" in str(error):
                error.add_note(
                    f"Options set in Spark conf ({CONF_PREFIX}<option>) are not read yet: {_ADVICE}."
                )
            if not self.options:
                error.add_note(_NO_TABLE)
            raise


class RefusedStreamReader(DataSourceStreamReader):
    """Raises why there is no reader at its first use: what :meth:`DataSource.streamReader` raises, PySpark 4.3 ends with an
    UnboundLocalError of its own."""

    def __init__(self, error: ConfigError) -> None:
        self._error = error

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise self._error.with_traceback(None)

    initialOffset = latestOffset = partitions = read = _refuse  # noqa: N815 -- PySpark's names


def _check_table(options: Mapping[str, str]) -> None:
    """Raises ConfigError for the definition of a table: Spark 4 keeps no options of one whose format is written in Python,
    so that it could never be read."""
    if not {"owner", "provider"} <= options.keys():
        return
    doubled = sorted(name for name in options if name.lower().startswith(_TABLE_OPTION))
    given = ", ".join(name[len(_TABLE_OPTION) :] for name in doubled)
    raise ConfigError("CREATE TABLE", given or "no options", _NO_TABLE)


def _check_unread(options: Mapping[str, str]) -> None:
    """Raises ConfigError for options in Spark conf that would be ignored."""
    # Imported here: tasks have this module, too.
    from spark_ordered_kafka.spark.launch_conf import names_at_launch

    given = {name.lower() for name in options}
    unread = [
        name for name in names_at_launch(CONF_PREFIX) if name.removeprefix(CONF_PREFIX).lower() not in given
    ]
    if unread:
        raise ConfigError(
            "Spark conf",
            ", ".join(unread),
            f"this session does not read it: {_ADVICE}, or give these as options",
        )


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
