"""How ``produce`` reads lines and ``consume`` prints records."""

from __future__ import annotations

import pytest

from spark_ordered_kafka.cli.record_lines import (
    Line,
    Shown,
    format_writer,
    line_reader,
    line_writer,
    unescaped,
)
from spark_ordered_kafka.errors import ConfigError

RECORD = Shown("orders", 2, 17, ("CreateTime", 1700), b"k", b"v", [("a", b"1"), ("b", None)])
EMPTY = Shown("orders", 0, 0, ("", -1), None, None, [])


@pytest.mark.parametrize(
    ("properties", "line", "record"),
    [
        ({}, b"a:b", Line(None, b"a:b", [])),
        ({}, b"", Line(None, b"", [])),
        ({"parse.key": "true"}, b"k\tv\tw", Line(b"k", b"v\tw", [])),
        ({"parse.key": "true", "key.separator": ":"}, b":v", Line(b"", b"v", [])),
        ({"parse.key": "true", "key.separator": "\\x1f"}, b"k\x1fv", Line(b"k", b"v", [])),
        ({"parse.key": "true", "ignore.error": "true"}, b"kv", Line(None, b"kv", [])),
        ({"parse.key": "true", "null.marker": "NULL"}, b"k\tNULL", Line(b"k", None, [])),
        ({"null.marker": ""}, b"", Line(None, None, [])),
        (
            {"parse.key": "true", "parse.headers": "true"},
            b"a:1,b:\tk\tv",
            Line(b"k", b"v", [("a", b"1"), ("b", b"")]),
        ),
        ({"parse.headers": "true", "null.marker": "-"}, b"-\tv", Line(None, b"v", [])),
        ({"parse.headers": "true", "null.marker": "-"}, b"a:-\tv", Line(None, b"v", [("a", None)])),
    ],
)
def test_lines_are_read_as_by_kafka_console_producer(
    properties: dict[str, str], line: bytes, record: Line
) -> None:
    assert line_reader(properties).read(1, line) == record


def test_a_key_separator_is_enough() -> None:
    assert line_reader({}, "=").read(1, b"k=v") == Line(b"k", b"v", [])
    assert line_reader({"key.separator": ":", "parse.key": "true"}, "=").key_separator == b"="


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"parse.keys": "true"}, "--property has the value 'parse.keys': it is one of headers.delimiter"),
        ({"parse.key": "yes"}, "--property parse.key has the value 'yes'"),
        ({"key.separator": ":"}, "set parse.key=true with it"),
        ({"parse.key": "true", "key.separator": ""}, "at least one character"),
    ],
)
def test_wrong_properties_are_named(properties: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        line_reader(properties)


def test_a_line_without_its_separator_is_named() -> None:
    with pytest.raises(ConfigError, match=r"line 7 has the value 'kv': it lacks the key\.separator '\\t'"):
        line_reader({"parse.key": "true"}).read(7, b"kv")
    with pytest.raises(ConfigError, match=r"it lacks the headers\.key\.separator ':'"):
        line_reader({"parse.headers": "true"}).read(7, b"a\tv")
    with pytest.raises(ConfigError, match=r"it lacks the headers\.delimiter"):
        line_reader({"parse.headers": "true"}).read(7, b"av")


@pytest.mark.parametrize(
    ("properties", "printed", "of_empty"),
    [
        ({}, b"v\n", b"null\n"),
        ({"print.key": "true"}, b"k\tv\n", b"null\tnull\n"),
        ({"print.value": "false", "print.key": "true", "line.separator": ";"}, b"k;", b"null;"),
        (
            {f"print.{part}": "true" for part in ("timestamp", "partition", "offset", "headers", "key")}
            | {"key.separator": "|", "null.literal": "~"},
            b"CreateTime:1700|Partition:2|Offset:17|a:1,b:~|k|v\n",
            b"NO_TIMESTAMP|Partition:0|Offset:0|NO_HEADERS|~|~\n",
        ),
    ],
)
def test_records_are_printed_as_by_kafka_console_consumer(
    properties: dict[str, str], printed: bytes, of_empty: bytes
) -> None:
    assert (line_writer(properties)(RECORD), line_writer(properties)(EMPTY)) == (printed, of_empty)


def test_print_key_and_formats() -> None:
    assert line_writer({}, print_key=True, key_separator="=")(RECORD) == b"k=v\n"
    text = r"%t-%p@%o %d %k=%v (%K,%V) %h 100%%\n"
    assert format_writer(text)(RECORD) == b"orders-2@17 1700 k=v (1,1) a:1,b: 100%\n"
    assert format_writer("%v")(EMPTY) == b""


@pytest.mark.parametrize("text", ["%x", "50%", "%"])
def test_letters_that_mean_nothing_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--format .* means nothing: %t topic"):
        format_writer(text)


def test_escapes() -> None:
    assert unescaped(r"\t\n\r\0\\\x41\q") == b"\t\n\r\0\\A\\q"
    with pytest.raises(ConfigError, match="one of"):
        line_writer({"print.keys": "true"})
