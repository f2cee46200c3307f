"""Options of the source and the sink: parsed once into frozen values, refused early, secrets masked.

Names are those of Spark's own ``kafka`` format where it has them. Spark hands options over case-insensitively, so
names are compared in lower case and printed as documented.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

from spark_ordered_kafka.errors import ConfigError

KAFKA_PREFIX = "kafka."
EARLIEST, LATEST = -2, -1
"""Kafka's own markers for the log start and the log end, as Spark's offset JSON has them."""

Ordering = Literal["key", "none"]
Positions = Mapping[str, Mapping[int, int]]

_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_SECRET = re.compile(r"password|secret|sasl\.jaas\.config|ssl\.key\.pem|\.token", re.IGNORECASE)

_COMMON = ("controller.url",)
_SOURCE = (
    *_COMMON,
    "subscribe",
    "startingOffsets",
    "endingOffsets",
    "failOnDataLoss",
    "maxOffsetsPerTrigger",
    "includeHeaders",
    "ordering",
)
_SINK = (*_COMMON, "topic", "writer", "includeHeaders", "replayBufferBytes")
_NOT_YET = (
    dict.fromkeys(
        ("subscribePattern", "assign"), "not supported in this version; name the topics with subscribe"
    )
    | dict.fromkeys(
        (
            "startingTimestamp",
            "startingOffsetsByTimestamp",
            "startingOffsetsByTimestampStrategy",
            "endingTimestamp",
            "endingOffsetsByTimestamp",
        ),
        "not supported in this version; use startingOffsets and endingOffsets",
    )
    | {
        "minOffsetsPerTrigger": "not supported in this version; leave it out",
        "maxTriggerDelay": "not supported in this version; leave it out",
        "misroutedRecords": "not supported in this version; leave it out",
        "minPartitions": "splitting a partition breaks the order of its keys; leave it out",
        "maxRecordsPerPartition": "splitting a partition breaks the order of its keys; leave it out",
    }
)
_ACCEPTED_BY_THE_OTHER_SIDE = frozenset(name.lower() for name in (*_SOURCE, *_SINK, *_NOT_YET, "partition"))
_SET_BY_SPARK = frozenset({"path", "checkpointlocation", "queryname", "outputmode"})

_REFUSED_KAFKA = {
    "auto.offset.reset": "set startingOffsets instead",
    "enable.auto.commit": "positions are kept in the checkpoint; leave it out",
    "enable.auto.offset.store": "positions are kept in the checkpoint; leave it out",
    "enable.partition.eof": "it is needed to see the end of a range; leave it out",
    "key.deserializer": "keys are read as binary; cast them in the DataFrame",
    "value.deserializer": "values are read as binary; cast them in the DataFrame",
    "key.serializer": "keys are written as binary or string; cast them in the DataFrame",
    "value.serializer": "values are written as binary or string; cast them in the DataFrame",
    "interceptor.classes": "interceptors are not supported; leave it out",
    "transactional.id": "it is derived from topic, query and task; leave it out",
    "enable.idempotence": "writers are transactional, hence idempotent; leave it out",
    "acks": "transactions need acks=all; leave it out",
    "partitioner": "the layout decides the partition of a key; leave it out",
    "statistics.interval.ms": "the sink sets it; leave it out",
}


@dataclass(frozen=True)
class Connection:
    """Where the cluster and its controller are. ``kafka`` holds librdkafka properties without the prefix.

    Hashable, so that what a worker process keeps for a connection can be found by it.
    """

    kafka: Mapping[str, str] = field(repr=False, hash=False)
    controller_url: str

    @property
    def bootstrap_servers(self) -> str:
        """The brokers first asked, ``host:port`` separated by commas."""
        return self.kafka["bootstrap.servers"]

    def __str__(self) -> str:
        return f"Connection({masked(self.kafka)}, controller.url={self.controller_url!r})"


@dataclass(frozen=True)
class SourceOptions:
    """Options of ``spark.read`` and ``spark.readStream``.

    ``starting``/``ending``: a marker for all partitions (``EARLIEST``/``LATEST``) or offsets per topic and partition.
    ``None`` for ``starting`` means Spark's default: latest in a stream, earliest in a batch.
    """

    connection: Connection
    topics: tuple[str, ...]
    starting: int | Positions | None = None
    ending: int | Positions = LATEST
    fail_on_data_loss: bool = True
    max_offsets_per_trigger: int | None = None
    include_headers: bool = False
    ordering: Ordering = "key"


@dataclass(frozen=True)
class SinkOptions:
    """Options of ``df.write`` and ``df.writeStream``.

    ``topic`` None: every row names its topic. ``replay_buffer_bytes``: rows of a task kept in memory for a replay
    before they are spilled to a local file.
    """

    connection: Connection
    topic: str | None = None
    writer: str | None = None
    replay_buffer_bytes: int = 64 * 1024 * 1024


def source_options(options: Mapping[str, str], defaults: Mapping[str, str] | None = None) -> SourceOptions:
    """Parse and check the options of a read; ``defaults`` may hold options of the sink, too.

    Raises ConfigError for the first wrong one.
    """
    given = _Given(_of_side(defaults, _SOURCE) | _lowered(options), _SOURCE, "source")
    max_offsets = given.take("maxOffsetsPerTrigger", _positive)
    return SourceOptions(
        connection=given.connection(),
        topics=given.require("subscribe", _topics),
        starting=given.take("startingOffsets", _starting),
        ending=given.take("endingOffsets", _ending, LATEST),
        fail_on_data_loss=given.take("failOnDataLoss", _boolean, True),
        max_offsets_per_trigger=max_offsets,
        include_headers=given.take("includeHeaders", _boolean, False),
        ordering=given.take("ordering", _ordering, "key"),
    )


def sink_options(options: Mapping[str, str], defaults: Mapping[str, str] | None = None) -> SinkOptions:
    """Parse and check the options of a write; ``defaults`` may hold options of the source, too.

    Raises ConfigError for the first wrong one.
    """
    given = _Given(_of_side(defaults, _SINK) | _lowered(options), _SINK, "sink")
    given.take("includeHeaders", _boolean, False)
    return SinkOptions(
        connection=given.connection(),
        topic=given.take("topic", topic_name),
        writer=given.take("writer", _writer),
        replay_buffer_bytes=given.take("replayBufferBytes", _positive, 64 * 1024 * 1024),
    )


def check_defaults(entries: Mapping[str, str]) -> None:
    """Raises ConfigError for an entry that is an option of neither source nor sink."""
    _Given(entries, tuple(dict.fromkeys((*_SOURCE, *_SINK))), "format")


def topic_name(option: str, value: str) -> str:
    """A legal Kafka topic name (``org.apache.kafka.common.internals.Topic``); raises ConfigError otherwise."""
    if not is_topic_name(value):
        raise ConfigError(option, value, "a topic name has 1 to 249 of the characters a-z A-Z 0-9 . _ -")
    return value


def is_topic_name(name: str) -> bool:
    """Whether Kafka takes ``name`` for a topic (``org.apache.kafka.common.internals.Topic``)."""
    return _TOPIC_NAME.fullmatch(name) is not None and name not in (".", "..")


def is_http_url(url: str) -> bool:
    """Whether ``url`` is one a controller can have: http or https, with a host."""
    parts = urlsplit(url)
    return parts.scheme in ("http", "https") and bool(parts.hostname)


def masked(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties with passwords and keys replaced, fit for a log."""
    return {name: "********" if _SECRET.search(name) else value for name, value in properties.items()}


def _lowered(options: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in options.items() if value is not None}


def _of_side(defaults: Mapping[str, str] | None, known: tuple[str, ...]) -> dict[str, str]:
    allowed = {name.lower() for name in known}
    return {
        name: value
        for name, value in _lowered(defaults or {}).items()
        if name in allowed or name.startswith(KAFKA_PREFIX)
    }


class _Given:
    """The options as given, looked up by documented name whatever their case."""

    def __init__(self, options: Mapping[str, str], known: tuple[str, ...], side: str) -> None:
        self._values = _lowered(options)
        allowed = {name.lower() for name in known}
        spelled = {name.lower(): (name, why) for name, why in _NOT_YET.items()}
        for name in self._values:
            if name in spelled:
                documented, why = spelled[name]
                raise ConfigError(f"option {documented}", self._values[name], why)
            if name in allowed or name in _SET_BY_SPARK or name.startswith(KAFKA_PREFIX):
                continue
            hint = f"the {side} takes {', '.join(known)} and kafka.*"
            if name in _ACCEPTED_BY_THE_OTHER_SIDE:
                hint = f"it is not an option of the {side}; {hint}"
            raise ConfigError(f"unknown option {name}", self._values[name], hint)

    def take(self, name: str, parse: Callable[[str, str], Any], default: Any = None) -> Any:
        value = self._values.get(name.lower())
        return default if value is None else parse(f"option {name}", value)

    def require(self, name: str, parse: Callable[[str, str], Any]) -> Any:
        if name.lower() not in self._values:
            raise ConfigError(f"option {name}", None, _REQUIRED[name])
        return self.take(name, parse)

    def connection(self) -> Connection:
        servers = self.require("kafka.bootstrap.servers", _servers)
        url = self.require("controller.url", _urls)
        kafka = {
            name[len(KAFKA_PREFIX) :]: value
            for name, value in self._values.items()
            if name.startswith(KAFKA_PREFIX)
        }
        for name in kafka:
            if name in _REFUSED_KAFKA:
                raise ConfigError(f"option {KAFKA_PREFIX}{name}", kafka[name], _REFUSED_KAFKA[name])
        return Connection(kafka=kafka | {"bootstrap.servers": servers}, controller_url=url)


_REQUIRED = {
    "kafka.bootstrap.servers": "set it to a comma-separated list of host:port",
    "controller.url": "set it to the controller's address, such as http://host:8090",
    "subscribe": "set it to one topic, or several separated by commas",
}


def _servers(option: str, value: str) -> str:
    servers = [server.strip() for server in value.split(",")]
    for server in servers:
        host, _, port = server.rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise ConfigError(option, value, _REQUIRED["kafka.bootstrap.servers"])
    return ",".join(servers)


def _urls(option: str, value: str) -> str:
    for url in value.split(","):
        if not is_http_url(url.strip()):
            raise ConfigError(option, value, _REQUIRED["controller.url"])
    return value


def _topics(option: str, value: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in value.split(",") if name.strip()))
    if not names:
        raise ConfigError(option, value, _REQUIRED["subscribe"])
    return tuple(topic_name(option, name) for name in names)


def _writer(option: str, value: str) -> str:
    if not value or ":" in value or len(value) > 200:
        raise ConfigError(option, value, "a name of 1 to 200 characters without a colon")
    return value


def _boolean(option: str, value: str) -> bool:
    lowered = value.strip().lower()
    if lowered not in ("true", "false"):
        raise ConfigError(option, value, "true or false")
    return lowered == "true"


def _positive(option: str, value: str) -> int:
    text = value.strip()
    if not text.isdigit() or int(text) == 0:
        raise ConfigError(option, value, "a whole number of at least 1")
    return int(text)


def _ordering(option: str, value: str) -> Ordering:
    if value == "key":
        return "key"
    if value == "none":
        return "none"
    raise ConfigError(option, value, "key (default) or none")


def _starting(option: str, value: str) -> int | Positions:
    if value.strip().lower() == "earliest":
        return EARLIEST
    if value.strip().lower() == "latest":
        return LATEST
    return _positions(option, value, (EARLIEST, LATEST))


def _ending(option: str, value: str) -> int | Positions:
    if value.strip().lower() == "latest":
        return LATEST
    return _positions(option, value, (LATEST,))


def _positions(option: str, value: str, markers: tuple[int, ...]) -> Positions:
    expected = (
        'earliest, latest or JSON such as {"topic":{"0":23,"1":-1}}'
        f" (allowed markers: {', '.join(map(str, markers))})"
    )
    try:
        parsed = json.loads(value)
        positions = {
            topic: {int(partition): offset for partition, offset in per_partition.items()}
            for topic, per_partition in parsed.items()
        }
    except (ValueError, AttributeError) as error:
        raise ConfigError(option, value, expected) from error
    for per_partition in positions.values():
        for partition, offset in per_partition.items():
            if type(offset) is not int or partition < 0 or (offset < 0 and offset not in markers):
                raise ConfigError(option, value, expected)
    return positions
