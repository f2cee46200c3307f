"""What columns the sink takes."""

import io

import pyarrow as pa
import pytest
from pyspark.sql.types import ArrayType, DoubleType, StringType, StructField, StructType

from spark_ordered_kafka.errors import ConfigError, ConfigErrors
from spark_ordered_kafka.spark.schema import HEADERS, check_sink_schema, source_schema
from spark_ordered_kafka.spark.sink import by_topic


def test_what_the_source_reads_can_be_written_back(caplog: pytest.LogCaptureFixture) -> None:
    assert source_schema(include_headers=True).fieldNames()[-2:] == ["headers", "layout_epoch"]
    check_sink_schema(source_schema(include_headers=True), None)
    assert caplog.text == ""
    batch = pa.RecordBatch.from_pydict({"value": ["1"], "partition": [7], "offset": [3], "more": [1.5]})
    assert [rows.schema.names for _, rows in by_topic(batch, "t")] == [["key", "value"]]


def test_a_partition_that_another_source_names_is_ignored_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    check_sink_schema(StructType().add("value", "string").add("partition", "integer"), "t")
    assert "the column partition is ignored" in caplog.text


def test_all_wrong_columns_are_named_at_once() -> None:
    with pytest.raises(ConfigErrors) as caught:
        check_sink_schema(StructType().add("key", "integer").add("headers", "string"), None)
    assert [error.option for error in caught.value.errors] == [
        "column value",
        "option topic",
        "column key",
        "column headers",
    ]


@pytest.mark.parametrize(
    ("schema", "topic", "message"),
    [
        (
            StructType().add("value", "string").add("key", DoubleType()),
            "t",
            "column key has the value 'double': must be",
        ),
        (StructType().add("key", "string"), "t", "column value is missing"),
        (StructType().add("value", "string"), None, "option topic is missing"),
        (
            StructType().add("value", "string").add("headers", ArrayType(StringType())),
            "t",
            "must be array<struct<key:string",
        ),
        (StructType().add("value", "string").add("topic", "integer"), None, "column topic .* must be string"),
    ],
)
def test_wrong_columns(schema: StructType, topic: str | None, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_sink_schema(schema, topic)


@pytest.mark.parametrize("name", ["Key", "VALUE", "Headers", "Topic"])
def test_a_column_is_not_ignored_for_the_case_of_its_name(name: str) -> None:
    """A key would be lost with it, and the order of its rows."""
    given = [column for column in ("key", "value", "topic") if column != name.lower()]
    schema = StructType([StructField(column, StringType()) for column in (*given, name)])
    with pytest.raises(ConfigError, match=f"column name has the value '{name}': must be {name.lower()}"):
        check_sink_schema(schema, None)
    # With spark.sql.caseSensitive they are two columns.
    both = StructType(list(schema)).add(name.lower(), "string" if name != "Headers" else HEADERS)
    check_sink_schema(both, None)


def test_timestamps_to_keep_must_be_there() -> None:
    with pytest.raises(ConfigError, match="column timestamp is missing: must be timestamp"):
        check_sink_schema(StructType().add("value", "string"), "t", timestamps=True)
    with pytest.raises(ConfigError, match="column timestamp has the value 'bigint': must be timestamp"):
        check_sink_schema(StructType().add("value", "string").add("timestamp", "long"), "t", timestamps=True)
    check_sink_schema(StructType().add("value", "string").add("timestamp", "long"), "t")


def test_columns_that_are_ignored_are_not_kept() -> None:
    """All columns of a batch that comes from Spark are in one buffer."""
    count = 1000
    wide = {"key": [b"k"] * count, "value": [b"v" * 100] * count, "more": [b"m" * 10_000] * count}
    sent = pa.BufferOutputStream()
    with pa.ipc.new_stream(sent, (batch := pa.RecordBatch.from_pydict(wide)).schema) as writer:
        writer.write_batch(batch)
    stream = io.BytesIO(sent.getvalue().to_pybytes())
    del batch, wide, sent
    before = pa.total_allocated_bytes()
    ((_, rows),) = by_topic(pa.ipc.open_stream(stream).read_next_batch(), "t")
    assert rows.num_rows == count
    assert pa.total_allocated_bytes() - before < 2 * rows.nbytes


def test_rows_are_split_by_topic_in_order() -> None:
    batch = pa.RecordBatch.from_pydict({"topic": ["a", "b", "a"], "value": ["1", "2", None]})
    split = {topic: rows.to_pydict() for topic, rows in by_topic(batch, None)}
    assert split == {"a": {"key": [None, None], "value": [b"1", None]}, "b": {"key": [None], "value": [b"2"]}}
    assert [topic for topic, _ in by_topic(batch, "all")] == ["all"]


def test_a_row_without_a_topic_is_refused() -> None:
    batch = pa.RecordBatch.from_pydict({"topic": ["a", None], "value": ["1", "2"]})
    with pytest.raises(ConfigError, match="every row must name its topic"):
        list(by_topic(batch, None))


def test_columns_of_bytes_are_not_copied() -> None:
    for kind, expected in [
        (pa.binary(), pa.binary()),
        (pa.string(), pa.binary()),
        (pa.large_binary(), pa.large_binary()),
        (pa.large_string(), pa.large_binary()),
    ]:
        column = pa.array(["a", None, "bc"], kind)
        batch = pa.RecordBatch.from_pydict({"key": column, "value": column})
        ((_, rows),) = by_topic(batch, "t")
        assert [field.type for field in rows.schema] == [expected] * 2
        assert rows.column("value").buffers()[2].address == column.buffers()[2].address


@pytest.mark.parametrize("headers", [[[{"key": None, "value": b"1"}]], [[{"key": "a", "value": b"1"}, None]]])
def test_a_header_without_a_key_is_refused(headers: list[object]) -> None:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    batch = pa.RecordBatch.from_pydict({"value": [b"1", b"2"], "headers": pa.array([None, *headers], kind)})
    with pytest.raises(ConfigError, match="every header must have a key"):
        list(by_topic(batch, "t"))
    assert len(list(by_topic(batch.slice(0, 1), "t"))) == 1
