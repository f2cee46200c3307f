"""The arguments of ``produce()``, checked in the caller's thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaError, Message

from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.kafka.producer import Headers, Row

DeliveryCallback = Callable[[KafkaError | None, Message], None]

_HEADERS = "a list of (str, bytes, str or None), or a dict of them"
_NO_TIMESTAMP = 0

OVERHEAD = 36
"""Bytes that librdkafka adds to key, value and headers before it compares them with ``message.max.bytes``."""


def check_partition(partition: Any) -> None:
    """Raises ConfigError for another partition than -1, which confluent-kafka takes for "none given"."""
    if partition != -1 or isinstance(partition, bool):
        raise ConfigError("partition", partition, "the topic's layout decides the partition; leave it out")


def too_large(size: int, limit: int) -> ConfigError:
    """What is raised for a record of ``size`` bytes, of which there may be ``limit``."""
    said = f"{size} bytes with key and headers"
    return ConfigError("value", said, f"at most {limit} bytes ({OVERHEAD} less than message.max.bytes)")


def content(argument: str, value: Any) -> bytes | None:
    """A key or value as bytes; str is encoded as UTF-8. Raises ConfigError for another type."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    raise ConfigError(argument, value, f"bytes, str or None, not {type(value).__name__}; serialize it first")


def extras(on_delivery: Any, timestamp: Any, headers: Any) -> tuple[Row, int]:
    """What a record has beside key and value, and its size in bytes. Raises ConfigError for a wrong argument."""
    row: Row = {}
    size = 0
    if on_delivery is not None:
        if not callable(on_delivery):
            raise ConfigError("on_delivery", on_delivery, "a callable that takes (err, msg)")
        row["callback"] = on_delivery
    if not isinstance(timestamp, int) or isinstance(timestamp, bool) or not 0 <= timestamp < 2**63:
        raise ConfigError("timestamp", timestamp, "milliseconds since 1970-01-01 UTC as an int; 0: now")
    if timestamp != _NO_TIMESTAMP:
        row["timestamp"] = timestamp
    if headers is not None:
        row["headers"] = _headers(headers)
        size = sum(_size(part) for pair in row["headers"] for part in pair)
    return row, size


def _size(part: str | bytes | None) -> int:
    """Of a header's name or value, behind its length, which Kafka writes doubled, in bytes of seven bits each."""
    size = len(part.encode() if isinstance(part, str) else part or b"")
    return size + (max(1, (2 * size).bit_length()) + 6) // 7


def _headers(headers: Any) -> Headers:
    pairs = list(headers.items()) if isinstance(headers, Mapping) else headers
    if not isinstance(pairs, list | tuple):
        raise ConfigError("headers", headers, _HEADERS)
    for pair in pairs:
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise ConfigError("headers", pair, _HEADERS)
        if not isinstance(pair[0], str) or not isinstance(pair[1], str | bytes | None):
            raise ConfigError("headers", pair, _HEADERS)
    return [(name, value) for name, value in pairs]
