"""Columns of the source and the sink: those of Spark's own ``kafka`` format, and ``layout_epoch``."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from spark_ordered_kafka.errors import ConfigError

HEADERS = ArrayType(StructType().add("key", StringType()).add("value", BinaryType()))
_SINK_TYPES: dict[str, tuple[type[DataType], ...]] = {
    "key": (BinaryType, StringType),
    "value": (BinaryType, StringType),
    "topic": (StringType,),
    "headers": (ArrayType,),
}


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


def check_sink_schema(schema: StructType, topic: str | None) -> None:
    """Raises ConfigError for a column the sink does not take, one of a wrong type, or one that is missing."""
    names = schema.fieldNames()
    if "partition" in names:
        raise ConfigError(
            "column partition",
            schema["partition"].dataType.simpleString(),
            "the layout decides the partition of a key; drop the column",
        )
    for field in schema.fields:
        if field.name not in _SINK_TYPES:
            raise ConfigError(
                f"column {field.name}",
                field.dataType.simpleString(),
                f"the sink takes the columns {', '.join(_SINK_TYPES)}; drop or rename it",
            )
        if not isinstance(field.dataType, _SINK_TYPES[field.name]) or (
            field.name == "headers" and field.dataType.simpleString() != HEADERS.simpleString()
        ):
            right = " or ".join(
                kind().simpleString() for kind in _SINK_TYPES[field.name] if kind is not ArrayType
            )
            raise ConfigError(
                f"column {field.name}",
                field.dataType.simpleString(),
                f"must be {right or HEADERS.simpleString()}",
            )
    if "value" not in names:
        raise ConfigError("column value", None, "the sink needs a column value of type binary or string")
    if topic is None and "topic" not in names:
        raise ConfigError("option topic", None, "set it, or give every row a column topic")
