"""Records as lines of text: what `produce` reads and `consume` prints."""

from __future__ import annotations

import os

from hypothesis import given
from hypothesis import strategies as st

from spark_ordered_kafka.cli.record_lines import (
    Shown,
    format_writer,
    line_reader,
    line_writer,
    unescaped,
)
from spark_ordered_kafka.errors import ConfigError
from tests.fuzz.hostile import accepted, fuzzed, texts

# As the command line gives them: what is no UTF-8 is escaped by surrogates.
words = st.one_of(st.binary(max_size=20).map(os.fsdecode), texts)
READING = st.dictionaries(
    st.sampled_from(
        [
            "parse.key",
            "key.separator",
            "parse.headers",
            "headers.delimiter",
            "headers.separator",
            "headers.key.separator",
            "null.marker",
            "ignore.error",
        ]
    )
    | words,
    st.sampled_from(["true", "false", ":", "\\t"]) | words,
    max_size=5,
)
WRITING = st.dictionaries(
    st.sampled_from(
        ["print.key", "print.headers", "print.timestamp", "key.separator", "line.separator", "null.literal"]
    )
    | words,
    st.sampled_from(["true", "false", ":", "\\t"]) | words,
    max_size=5,
)
content = st.none() | st.binary(max_size=20)
header_names = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
records = st.builds(
    Shown,
    st.just("orders"),
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**63 - 1),
    st.tuples(st.sampled_from(["", "CreateTime"]), st.integers(-1, 2**63 - 1)),
    content,
    content,
    st.lists(st.tuples(header_names, content), max_size=3),
)


@fuzzed
@given(READING, st.binary(max_size=60))
def test_any_line_is_a_record_or_lacks_something(properties: dict[str, str], line: bytes) -> None:
    reader = accepted(line_reader, properties, errors=ConfigError)
    if reader is not None:
        accepted(reader.read, 1, line, errors=ConfigError)


@fuzzed
@given(WRITING, records)
def test_any_record_is_printed(properties: dict[str, str], record: Shown) -> None:
    writer = accepted(line_writer, properties, errors=ConfigError)
    assert writer is None or isinstance(writer(record), bytes)


@fuzzed
@given(words, records)
def test_any_format_is_one_or_refused(text: str, record: Shown) -> None:
    writer = accepted(format_writer, text, errors=ConfigError)
    assert writer is None or isinstance(writer(record), bytes)


@fuzzed
@given(st.binary(max_size=30).filter(lambda typed: b"\\" not in typed))
def test_what_was_typed_is_what_is_written(typed: bytes) -> None:
    assert unescaped(os.fsdecode(typed)) == typed


plain = st.binary(max_size=20).filter(lambda one: not set(one) & set(b"\t\n") and one != b"NULL")


@fuzzed
@given(st.none() | plain, st.none() | plain)
def test_a_printed_record_is_read_back(key: bytes | None, value: bytes | None) -> None:
    record = Shown("orders", 0, 0, ("", -1), key, value, [])
    line = line_writer({"null.literal": "NULL"}, print_key=True)(record)
    read = line_reader({"parse.key": "true", "null.marker": "NULL"}).read(1, line.removesuffix(b"\n"))
    assert (read.key, read.value) == (key, value)
