"""Configuration of the plain clients: librdkafka's names, ``controller.url`` and a few of our own, checked at once.

What is wrong raises ConfigError naming the option, its value and what would be right. librdkafka itself judges its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from confluent_kafka import Consumer, Producer

from spark_ordered_kafka import credentials, parsing
from spark_ordered_kafka.config import Connection, connection
from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.kafka.clients import check_properties
from spark_ordered_kafka.parsing import HIDDEN, Given, text

Reset = Literal["earliest", "latest", "error"]

_NameT = TypeVar("_NameT", bound=str)
# librdkafka's aliases of auto.offset.reset.
_RESETS: Mapping[str, Reset] = {
    "earliest": "earliest",
    "beginning": "earliest",
    "smallest": "earliest",
    "latest": "latest",
    "end": "latest",
    "largest": "latest",
    "error": "error",
}
_REFUSED = {
    "statistics.interval.ms": "statistics are not delivered; leave it out",
    "stats_cb": "the client's own threads would call it; leave it out",
    "key.serializer": "serialize keys before they are produced; leave it out",
    "value.serializer": "serialize values before they are produced; leave it out",
    "key.deserializer": "deserialize the message's key; leave it out",
    "value.deserializer": "deserialize the message's value; leave it out",
}
_REFUSED_BY_PRODUCER = _REFUSED | {
    "transactional.id": "it is derived from the topic, which lets a partition change fence it; leave it out",
    "partitioner": "the layout decides the partition of a key; leave it out",
    "on_delivery": "give on_delivery to produce(); leave it out",
}
_REFUSED_BY_CONSUMER = _REFUSED | {
    "enable.auto.offset.store": "a record counts as processed at the next poll() or commit(); leave it out",
    "group.remote.assignor": "partitions are assigned round-robin by the members; leave it out",
}
_CONTROLLER = (credentials.URL, *credentials.NAMES)
_GROUP_HINT = "set it to the name of the consumer group"
_BROKER_LIST = "metadata.broker.list"
# Not passed to librdkafka.
_OF_PRODUCER = ("commit.interval.ms", "commit.max.records")
_OF_CONSUMER = ("auto.commit.interval.ms", "enable.auto.commit", "auto.offset.reset", "enable.partition.eof")


@dataclass(frozen=True)
class ProducerOptions:
    """Configuration of an :class:`~spark_ordered_kafka.OrderedProducer`.

    Attributes:
        connection: the cluster and its controller, with librdkafka's properties.
        commit_interval: seconds after which a transaction is committed (``commit.interval.ms``); None, for 0: only by
            ``commit()`` and ``flush()``.
        commit_records: records after which it is (``commit.max.records``).
        max_messages: records that wait for their commit, at most (``queue.buffering.max.messages``).
        max_bytes: bytes of their keys and values, at most (``queue.buffering.max.kbytes``).
        max_message_bytes: bytes of one record (``message.max.bytes``).
        message_timeout: seconds that a record may wait for its commit (``message.timeout.ms``).
    """

    connection: Connection
    commit_interval: float | None
    commit_records: int
    max_messages: int
    max_bytes: int
    max_message_bytes: int
    message_timeout: float


@dataclass(frozen=True)
class ConsumerOptions:
    """Configuration of an :class:`~spark_ordered_kafka.OrderedConsumer`.

    Attributes:
        connection: the cluster and its controller, with librdkafka's properties, ``group.id`` included.
        group: ``group.id``.
        reset: where a group that has committed nothing begins, and whether records that are gone are an error or
            skipped (``auto.offset.reset``).
        commit_interval: seconds between commits of what is processed (``auto.commit.interval.ms``); None: only by
            ``commit()`` or with a producer's transaction (``enable.auto.commit`` false).
        show_ends: whether the end of a partition is delivered as a message (``enable.partition.eof``).
    """

    connection: Connection
    group: str
    reset: Reset
    commit_interval: float | None
    show_ends: bool


def producer_options(conf: Mapping[str, Any]) -> ProducerOptions:
    """Parse and check the configuration of a producer; raises ConfigError for the first wrong option."""
    given = _given(conf, _REFUSED_BY_PRODUCER)
    given.take("enable.idempotence", _only("true"))
    given.take("acks", _only("all", "-1"), alias="request.required.acks")
    interval = given.take("commit.interval.ms", _natural, 100)
    options = ProducerOptions(
        commit_interval=None if interval == 0 else interval / 1000,
        commit_records=given.take("commit.max.records", parsing.positive, 100_000),
        max_messages=given.take("queue.buffering.max.messages", _natural, 100_000) or 2**31 - 1,
        max_bytes=given.take("queue.buffering.max.kbytes", parsing.positive, 1_048_576) * 1024,
        max_message_bytes=given.take("message.max.bytes", parsing.positive, 1_000_000),
        message_timeout=given.take("message.timeout.ms", parsing.positive, 300_000, "delivery.timeout.ms")
        / 1000,
        connection=_connection(given, _OF_PRODUCER),
    )
    check_properties(Producer, options.connection.kafka)
    return options


def consumer_options(conf: Mapping[str, Any]) -> ConsumerOptions:
    """Parse and check the configuration of a consumer; raises ConfigError for the first wrong option."""
    given = _given(conf, _REFUSED_BY_CONSUMER)
    given.take("partition.assignment.strategy", _only("roundrobin"))
    given.take("group.protocol", _only("classic"))
    given.take("isolation.level", _one_of("read_committed", "read_uncommitted"))
    group = given.require("group.id", _group, _GROUP_HINT)
    interval = given.take("auto.commit.interval.ms", parsing.positive, 5_000)
    commits = given.take("enable.auto.commit", parsing.boolean, True)
    options = ConsumerOptions(
        group=group,
        reset=given.take("auto.offset.reset", _reset, "latest"),
        commit_interval=interval / 1000 if commits else None,
        show_ends=given.take("enable.partition.eof", parsing.boolean, False),
        connection=_connection(given, _OF_CONSUMER),
    )
    check_properties(Consumer, options.connection.kafka)
    return options


def _given(conf: Mapping[str, Any], refused: Mapping[str, str]) -> Given:
    if not isinstance(conf, Mapping):
        raise ConfigError("conf", conf, "a mapping of configuration names to values")
    given = {name: value for name, value in conf.items() if value is not None}
    for name, value in given.items():
        if not isinstance(name, str):
            raise ConfigError("conf", name, "configuration names are strings")
        if name in refused:
            raise ConfigError(name, value, refused[name])
        if name.startswith(credentials.PREFIX) and name not in _CONTROLLER:
            hint = f"the options of controllers are {', '.join(_CONTROLLER)}"
            raise ConfigError(f"unknown option {name}", HIDDEN, hint)
    return Given(given)


def _connection(given: Given, own: tuple[str, ...]) -> Connection:
    """The connection, with all but this client's ``own`` options as librdkafka's properties."""
    kafka = {
        name: value if callable(value) else text(value)
        for name, value in given.options.items()
        if name not in (*own, *_CONTROLLER, _BROKER_LIST)
    }
    return connection(given, "bootstrap.servers", kafka, alias=_BROKER_LIST)


def _natural(option: str, value: str) -> int:
    if not value.strip().isdecimal():
        raise ConfigError(option, value, "a whole number, 0 or greater")
    return int(value)


def _reset(option: str, value: str) -> Reset:
    return _RESETS[parsing.one_of(option, value.strip().lower(), tuple(_RESETS))]


def _group(option: str, value: str) -> str:
    if not value:
        raise ConfigError(option, value, _GROUP_HINT)
    return value


def _one_of(*names: _NameT) -> Callable[[str, str], _NameT]:
    return lambda option, value: parsing.one_of(option, value.strip().lower(), names)


def _only(*values: str) -> Callable[[str, str], str]:
    def parse(option: str, value: str) -> str:
        if value.strip().lower() not in values:
            raise ConfigError(option, value, f"only {' or '.join(values)} keeps the order; leave it out")
        return value

    return parse
