"""Columns of the source and the sink: those of Spark's own ``kafka`` format, and ``layout_epoch``."""

from __future__ import annotations

import logging
from functools import partial

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.parsing import together

_LOG = logging.getLogger(__name__)
HEADERS = ArrayType(StructType().add("key", StringType()).add("value", BinaryType()))
_SINK_TYPES: dict[str, tuple[type[DataType], ...]] = {
    "key": (BinaryType, StringType),
    "value": (BinaryType, StringType),
    "topic": (StringType,),
    "headers": (ArrayType,),
}
_TIMESTAMP = "timestamp"


def source_schema(include_headers: bool) -> StructType:
    """The source's columns."""
    schema = (
        StructType()
        .add("key", BinaryType())
        .add("value", BinaryType())
        .add("topic", StringType())
        .add("partition", IntegerType())
        .add("offset", LongType())
        .add("timestamp", TimestampType())
        .add("timestampType", IntegerType())
    )
    if include_headers:
        schema = schema.add("headers", HEADERS)
    return schema.add("layout_epoch", IntegerType())


def check_sink_schema(schema: StructType, topic: str | None, *, timestamps: bool = False) -> None:
    """Raises ConfigError for all columns of a wrong type and all that are missing.

    Other columns are ignored, as by Spark's own sink: what the source reads can be written back. So is ``partition``, with
    a warning, since there it names the partition, unless ``layout_epoch`` shows that the rows are this source's: each
    micro-batch is checked. A name that differs by case alone is refused. ``timestamps``: the column of that name is written,
    too.
    """
    names = schema.fieldNames()
    absent = _SINK_TYPES.keys() - set(names)
    if "partition" in names and "layout_epoch" not in names:
        _LOG.warning("the column partition is ignored: the layout decides the partition of a key")
    together(
        {field.name: partial(_check_type, field) for field in schema.fields if field.name in _SINK_TYPES},
        *(partial(_refuse_case, name) for name in names if name.lower() in absent),
        partial(
            _check_there, "value" in names, "column value", "the sink needs it, of type binary or string"
        ),
        partial(
            _check_there,
            topic is not None or "topic" in names,
            "option topic",
            "set it, or give every row a column topic",
        ),
        *((partial(_check_timestamp, schema),) if timestamps else ()),
    )


def _check_timestamp(schema: StructType) -> None:
    is_there = _TIMESTAMP in schema.fieldNames()
    found = schema[_TIMESTAMP].dataType if is_there else None
    if not isinstance(found, TimestampType):
        shown = None if found is None else found.simpleString()
        raise ConfigError(f"column {_TIMESTAMP}", shown, "must be timestamp: option keepTimestamps writes it")


def _check_there(is_there: bool, name: str, hint: str) -> None:
    if not is_there:
        raise ConfigError(name, None, hint)


def _refuse_case(name: str) -> None:
    # In SQL it is the same name, and without a key rows have no order.
    raise ConfigError("column name", name, f"must be {name.lower()}, in lower case: it would not be written")


def _check_type(field: StructField) -> None:
    found = field.dataType.simpleString()
    if field.name == "headers":
        is_right, right = found == HEADERS.simpleString(), HEADERS.simpleString()
    else:
        kinds = _SINK_TYPES[field.name]
        is_right, right = (
            isinstance(field.dataType, kinds),
            " or ".join(kind().simpleString() for kind in kinds),
        )
    if not is_right:
        raise ConfigError(f"column {field.name}", found, f"must be {right}")
