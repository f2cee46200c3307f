"""Records as lines of text: what ``ordered-kafka produce`` reads and ``consume`` prints, with the properties of Kafka's console
tools and the format letters of rpk. PURE."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from spark_ordered_kafka import parsing
from spark_ordered_kafka.errors import ConfigError

_PROPERTY = "--property"
_ESCAPES = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"0": b"\0", b"\\": b"\\"}
_ESCAPE = re.compile(rb"\\(x[0-9a-fA-F]{2}|.)", re.DOTALL)
_LETTER = re.compile(rb"%(.?)", re.DOTALL)

Headers = Sequence[tuple[str, bytes | None]]


class Line(NamedTuple):
    """A record that was read from a line."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class Shown(NamedTuple):
    """A record to be printed; ``timestamp`` is Kafka's name of its kind, and milliseconds."""

    topic: str
    partition: int
    offset: int
    timestamp: tuple[str, int]
    key: bytes | None
    value: bytes | None
    headers: Headers


@dataclass(frozen=True)
class LineReader:
    """Splits lines into records, as ``org.apache.kafka.tools.LineMessageReader``.

    Attributes:
        key_separator: between key and value; None: lines have no key.
        headers_delimiter: behind the headers; None: lines have none.
        headers_separator: between headers.
        headers_key_separator: between a header's key and its value.
        null_marker: a key, value or header that is null; None: there is no such.
        ignore_error: take a line without a separator for a value.
    """

    key_separator: bytes | None = None
    headers_delimiter: bytes | None = None
    headers_separator: bytes = b","
    headers_key_separator: bytes = b":"
    null_marker: bytes | None = None
    ignore_error: bool = False

    def read(self, number: int, line: bytes) -> Line:
        """The record of a line without its end; raises ConfigError for one that lacks a separator."""
        headers: list[tuple[str, bytes | None]] = []
        if self.headers_delimiter is not None:
            text, found, rest = line.partition(self.headers_delimiter)
            if found:
                headers, line = self._headers(number, text), rest
            elif not self.ignore_error:
                raise _lacks(number, line, "headers.delimiter", self.headers_delimiter)
        key: bytes | None = None
        if self.key_separator is not None:
            text, found, rest = line.partition(self.key_separator)
            if found:
                key, line = self._or_null(text), rest
            elif not self.ignore_error:
                raise _lacks(number, line, "key.separator", self.key_separator)
        return Line(key, self._or_null(line), headers)

    def _headers(self, number: int, text: bytes) -> list[tuple[str, bytes | None]]:
        if text == self.null_marker:
            return []
        headers = []
        for one in text.split(self.headers_separator):
            name, found, value = one.partition(self.headers_key_separator)
            if not found and not self.ignore_error:
                raise _lacks(number, one, "headers.key.separator", self.headers_key_separator)
            headers.append((name.decode("utf-8", "replace"), self._or_null(value) if found else None))
        return headers

    def _or_null(self, text: bytes) -> bytes | None:
        return None if self.null_marker is not None and text == self.null_marker else text


def line_reader(properties: Mapping[str, str], key_separator: str | None = None) -> LineReader:
    """The reader for ``--property`` and ``--key-separator``; raises ConfigError for a name or value that is wrong."""
    known = {
        "parse.key", "key.separator", "parse.headers", "headers.delimiter", "headers.separator",
        "headers.key.separator", "null.marker", "ignore.error",
    }  # fmt: skip
    _check(properties, known)
    parse_key = _flag(properties, "parse.key") or key_separator is not None
    if "key.separator" in properties and not parse_key:
        raise ConfigError(_PROPERTY, "key.separator", "set parse.key=true with it")
    separator = key_separator if key_separator is not None else properties.get("key.separator", "\\t")
    return LineReader(
        key_separator=_separator("key.separator", separator) if parse_key else None,
        headers_delimiter=_separator("headers.delimiter", properties.get("headers.delimiter", "\\t"))
        if _flag(properties, "parse.headers")
        else None,
        headers_separator=_separator("headers.separator", properties.get("headers.separator", ",")),
        headers_key_separator=_separator(
            "headers.key.separator", properties.get("headers.key.separator", ":")
        ),
        null_marker=unescaped(properties["null.marker"]) if "null.marker" in properties else None,
        ignore_error=_flag(properties, "ignore.error"),
    )


Writer = Callable[[Shown], bytes]


def line_writer(
    properties: Mapping[str, str], *, print_key: bool = False, key_separator: str | None = None
) -> Writer:
    """Prints records as ``org.apache.kafka.tools.consumer.DefaultMessageFormatter``, by its properties.

    Raises ConfigError for a name or value that is wrong.
    """
    parts = ("timestamp", "partition", "offset", "headers", "key", "value")
    known = {f"print.{part}" for part in parts} | {
        "key.separator", "line.separator", "headers.separator", "null.literal",
    }  # fmt: skip
    _check(properties, known)
    wanted = {part for part in parts if _flag(properties, f"print.{part}", part == "value")}
    if print_key:
        wanted.add("key")
    null = unescaped(properties.get("null.literal", "null"))
    between_headers = unescaped(properties.get("headers.separator", ","))
    separator = key_separator if key_separator is not None else properties.get("key.separator", "\\t")
    between, end = unescaped(separator), unescaped(properties.get("line.separator", "\\n"))
    made: dict[str, Callable[[Shown], bytes]] = {
        "timestamp": lambda one: (
            f"{one.timestamp[0]}:{one.timestamp[1]}".encode() if one.timestamp[0] else b"NO_TIMESTAMP"
        ),
        "partition": lambda one: f"Partition:{one.partition}".encode(),
        "offset": lambda one: f"Offset:{one.offset}".encode(),
        "headers": lambda one: _headers(one.headers, between_headers, null) or b"NO_HEADERS",
        "key": lambda one: null if one.key is None else one.key,
        "value": lambda one: null if one.value is None else one.value,
    }
    chosen = [made[part] for part in parts if part in wanted]
    return lambda one: between.join(part(one) for part in chosen) + end


_LETTERS: dict[bytes, Callable[[Shown], bytes]] = {
    b"t": lambda one: one.topic.encode(),
    b"p": lambda one: str(one.partition).encode(),
    b"o": lambda one: str(one.offset).encode(),
    b"d": lambda one: str(one.timestamp[1]).encode(),
    b"k": lambda one: one.key or b"",
    b"K": lambda one: str(len(one.key or b"")).encode(),
    b"v": lambda one: one.value or b"",
    b"V": lambda one: str(len(one.value or b"")).encode(),
    b"h": lambda one: _headers(one.headers, b",", b""),
    b"%": lambda _: b"%",
}
LETTERS = (
    "%t topic, %p partition, %o offset, %d timestamp, %k key, %v value, %h headers, %K and %V their lengths"
)


def format_writer(text: str) -> Writer:
    """Prints records by a format with ``%`` and a letter, and the escapes of :func:`unescaped`.

    Raises ConfigError for a letter that means nothing.
    """
    parts: list[bytes | Callable[[Shown], bytes]] = []
    at, raw = 0, typed_bytes(text)
    for found in _LETTER.finditer(raw):
        letter = _LETTERS.get(found[1])
        if letter is None:
            raise ConfigError(
                "--format", text, f"%{found[1].decode(errors='replace')} means nothing: {LETTERS}"
            )
        parts += [_unescaped(raw[at : found.start()]), letter]
        at = found.end()
    parts.append(_unescaped(raw[at:]))
    return lambda one: b"".join(part if isinstance(part, bytes) else part(one) for part in parts)


def unescaped(text: str) -> bytes:
    r"""``\n``, ``\t``, ``\r``, ``\0``, ``\xNN`` and ``\\`` as the characters that they stand for."""
    return _unescaped(typed_bytes(text))


def typed_bytes(text: str) -> bytes:
    """Of a word of the command line, the bytes that were typed, also where they are no UTF-8."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise ConfigError("the text", text, f"it has no bytes in UTF-8 ({error.reason})") from error


def _unescaped(raw: bytes) -> bytes:
    def replaced(found: re.Match[bytes]) -> bytes:
        one = found[1]
        return bytes([int(one[1:], 16)]) if len(one) > 1 else _ESCAPES.get(one, found[0])

    return _ESCAPE.sub(replaced, raw)


def _headers(headers: Headers, between: bytes, null: bytes) -> bytes:
    return between.join(name.encode() + b":" + (null if value is None else value) for name, value in headers)


def _check(properties: Mapping[str, str], known: Iterable[str]) -> None:
    names = sorted(known)
    for name in properties:
        if name not in names:
            raise ConfigError(_PROPERTY, name, f"it is one of {', '.join(names)}")


def _flag(properties: Mapping[str, str], name: str, default: bool = False) -> bool:
    return parsing.boolean(f"{_PROPERTY} {name}", properties[name]) if name in properties else default


def _separator(name: str, text: str) -> bytes:
    if not text:
        raise ConfigError(f"{_PROPERTY} {name}", text, "at least one character is needed")
    return unescaped(text)


def _lacks(number: int, line: bytes, name: str, separator: bytes) -> ConfigError:
    shown = line[:100].decode("utf-8", "replace")
    return ConfigError(
        f"line {number}", shown, f"it lacks the {name} {separator.decode('utf-8', 'replace')!r}"
    )
