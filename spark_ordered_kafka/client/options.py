"""Configuration of the plain clients: librdkafka's names, ``controller.url`` and a few of our own, checked at once.

What is wrong raises ConfigError naming the option, its value and what would be right. librdkafka itself judges its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, TypeVar

from confluent_kafka import Consumer

from spark_ordered_kafka import credentials, parsing
from spark_ordered_kafka.client.option_names import CONSUMER, FIXED, KEPT, PRODUCER, ClientNames
from spark_ordered_kafka.config import Connection, connection
from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.kafka import java_names, java_security
from spark_ordered_kafka.kafka.property_checks import check_properties, check_writer
from spark_ordered_kafka.parsing import HIDDEN, Given, shown, text, together

Reset = Literal["earliest", "latest", "error"]

_NameT = TypeVar("_NameT", bound=str)
RESETS: Mapping[str, Reset] = {
    "earliest": "earliest",
    "beginning": "earliest",
    "smallest": "earliest",
    "latest": "latest",
    "end": "latest",
    "largest": "latest",
    "error": "error",
    # Java's name.
    "none": "error",
}
"""``auto.offset.reset`` by librdkafka's aliases."""
_CONTROLLER = (credentials.URL, *credentials.NAMES)
_GROUP_HINT = "set it to the name of the consumer group"
_SERVERS, _BROKER_LIST = "bootstrap.servers", "metadata.broker.list"
_TOPICS_INTERVAL = "topic.metadata.refresh.interval.ms"
_LOGIN = frozenset(java_security.MEANING)
CLASSIC = "this consumer begins anew with each rebalance, by assign(), which librdkafka refuses in such a group (KIP-848); leave it out"
"""Why ``group.protocol=consumer`` (KIP-848) is refused (D-242)."""


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
        callbacks: ``error_cb`` and ``throttle_cb``, to be called in ``poll()``.
    """

    connection: Connection
    commit_interval: float | None
    commit_records: int
    max_messages: int
    max_bytes: int
    max_message_bytes: int
    message_timeout: float
    callbacks: Mapping[str, Callable[..., Any]] = field(default_factory=dict)


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
        stores_offsets: whether only what ``store_offsets()`` says is processed (``enable.auto.offset.store`` false).
        topics_interval: seconds between two looks for topics that match a pattern
            (``topic.metadata.refresh.interval.ms``).
        callbacks: ``error_cb``, ``stats_cb`` and ``throttle_cb``, which librdkafka calls in ``poll()``.
        on_commit: called after each commit with its error, or None, and the offsets.
    """

    connection: Connection
    group: str
    reset: Reset
    commit_interval: float | None
    show_ends: bool
    stores_offsets: bool = False
    topics_interval: float = 10.0
    callbacks: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    on_commit: Callable[..., Any] | None = None


def merged(conf: Any, more: Mapping[str, Any]) -> Any:
    """One configuration of a mapping and of keyword arguments, which win."""
    if conf is None:
        return more
    return {**conf, **more} if isinstance(conf, Mapping) else conf


def producer_options(conf: Mapping[str, Any]) -> ProducerOptions:
    """Parse and check the configuration of a producer; raises ConfigError for all options that are wrong."""
    read = _Read(conf, PRODUCER)
    take = read.given.take
    found = read.checked(
        check_writer,
        {
            "interval": partial(take, "commit.interval.ms", _natural, 100),
            "commit_records": partial(take, "commit.max.records", parsing.positive, 100_000),
            "messages": partial(take, "queue.buffering.max.messages", _natural, 100_000),
            "kilobytes": partial(take, "queue.buffering.max.kbytes", parsing.positive, 1_048_576),
            "max_message_bytes": partial(take, "message.max.bytes", parsing.positive, 1_000_000),
            "timeout": partial(take, "message.timeout.ms", parsing.positive, 300_000, "delivery.timeout.ms"),
            "connection": read.connection,
        },
        partial(take, "enable.idempotence", _only("true")),
        partial(take, "acks", _only("all", "-1"), alias="request.required.acks"),
    )
    return ProducerOptions(
        commit_interval=None if found["interval"] == 0 else found["interval"] / 1000,
        commit_records=found["commit_records"],
        max_messages=found["messages"] or 2**31 - 1,
        max_bytes=found["kilobytes"] * 1024,
        max_message_bytes=found["max_message_bytes"],
        message_timeout=found["timeout"] / 1000,
        connection=found["connection"],
        callbacks=read.callbacks,
    )


def consumer_options(conf: Mapping[str, Any]) -> ConsumerOptions:
    """Parse and check the configuration of a consumer; raises ConfigError for all options that are wrong."""
    read = _Read(conf, CONSUMER)
    take = read.given.take
    found = read.checked(
        partial(check_properties, Consumer),
        {
            "group": partial(read.given.require, "group.id", _group, _GROUP_HINT),
            "reset": partial(take, "auto.offset.reset", _reset, "latest"),
            "interval": partial(take, "auto.commit.interval.ms", parsing.positive, 5_000),
            "commits": partial(take, "enable.auto.commit", parsing.boolean, True),
            "stores": partial(take, "enable.auto.offset.store", parsing.boolean, True),
            "show_ends": partial(take, "enable.partition.eof", parsing.boolean, False),
            "topics": partial(take, _TOPICS_INTERVAL, _interval, 10_000),
            "connection": read.connection,
        },
        partial(take, "partition.assignment.strategy", _only("roundrobin")),
        partial(take, "group.protocol", _protocol),
        partial(take, "isolation.level", _one_of("read_committed", "read_uncommitted")),
    )
    return ConsumerOptions(
        group=found["group"],
        reset=found["reset"],
        commit_interval=found["interval"] / 1000 if found["commits"] else None,
        show_ends=found["show_ends"],
        stores_offsets=not found["stores"],
        topics_interval=found["topics"] / 1000,
        connection=found["connection"],
        callbacks={name: call for name, call in read.callbacks.items() if name != "on_commit"},
        on_commit=read.callbacks.get("on_commit"),
    )


def broker_properties(conf: Mapping[str, str]) -> dict[str, str]:
    """librdkafka's properties of a connection to brokers, of those of a plain client; raises ConfigError for wrong ones."""
    found = java_names.translated(conf, "", CONSUMER.refused, FIXED)
    check_properties(Consumer, found)
    return found


class _Read:
    """A configuration by its names: what is refused by name, what is translated, and what librdkafka gets.

    ``given``: with librdkafka's names for Java's. ``callbacks``: by name.
    """

    def __init__(self, conf: Any, names: ClientNames) -> None:
        if not isinstance(conf, Mapping):
            raise ConfigError("conf", conf, "a mapping of configuration names to values")
        self._names = names
        options = {name: value for name, value in conf.items() if value is not None}
        self._checks = {name: partial(self._check_name, name, value) for name, value in options.items()}
        right = {name: value for name, value in options.items() if _failure(self._checks[name]) is None}
        self.callbacks = {name: right.pop(name) for name in names.callbacks if name in right}
        objects = {name: value for name, value in right.items() if name in KEPT}
        self._java = {name: text(value) for name, value in right.items() if name not in KEPT}
        self.given = Given({**self._translated(), **objects})

    def connection(self) -> Connection:
        """The connection, with all but this client's own options as librdkafka's properties."""
        return connection(self.given, _SERVERS, self._librdkafka(), alias=_BROKER_LIST)

    def checked(
        self,
        judge: Callable[[Mapping[str, Any]], None],
        fields: Mapping[str, Callable[[], Any]],
        *checks: Callable[[], object],
    ) -> dict[str, Any]:
        """What ``fields`` return; raises ConfigError for all that is wrong, by librdkafka's own judgement, too."""
        found: dict[str, Any] = {}

        def own() -> None:
            translations = partial(_translate, self._java, self._names)
            found.update(together(fields, *checks, translations, *self._checks.values()))

        failure = _failure(own)
        wrong = () if failure is None else failure.option.split(", ")
        kafka = {name: value for name, value in self._librdkafka().items() if name not in wrong}
        together({}, partial(_raise, failure), partial(judge, kafka))
        return found

    def _librdkafka(self) -> dict[str, Any]:
        own = (*self._names.own, *_CONTROLLER, _SERVERS, _BROKER_LIST)
        return {name: value for name, value in self.given.options.items() if name not in own}

    def _translated(self) -> dict[str, str]:
        failure = _failure(partial(_translate, self._java, self._names))
        wrong = () if failure is None else failure.option.split(", ")
        # The others are still to be judged.
        left = {name: value for name, value in self._java.items() if name not in wrong}
        try:
            return _translate(left, self._names)
        except ConfigError:
            return {name: value for name, value in left.items() if name not in _LOGIN}

    def _check_name(self, name: Any, value: Any) -> None:
        if not isinstance(name, str):
            raise ConfigError("conf", name, "configuration names are strings")
        parsing.checked_text("conf", name)
        if (reason := self._names.refused.get(name)) is not None:
            raise ConfigError(name, shown(name, value), reason)
        if name in self._names.callbacks and not callable(value):
            raise ConfigError(name, value, "a callable")
        if name.startswith(credentials.PREFIX) and name not in _CONTROLLER:
            hint = f"the options of controllers are {', '.join(_CONTROLLER)}"
            raise ConfigError(f"unknown option {name}", HIDDEN, hint)


def _failure(check: Callable[[], object]) -> ConfigError | None:
    try:
        check()
    except ConfigError as error:
        return error
    return None


def _raise(failure: ConfigError | None) -> None:
    if failure is not None:
        raise failure


def _translate(properties: Mapping[str, str], names: ClientNames) -> dict[str, str]:
    return java_names.translated(properties, "", names.refused, FIXED)


def _natural(option: str, value: str) -> int:
    return parsing.natural(option, value)


def _reset(option: str, value: str) -> Reset:
    return RESETS[parsing.one_of(option, value.strip().lower(), tuple(RESETS))]


def _interval(option: str, value: str) -> int:
    # librdkafka's -1 is for never.
    return parsing.positive(option, value) if value.strip() != "-1" else 2**31


def _protocol(option: str, value: str) -> str:
    if value.strip().lower() != "classic":
        raise ConfigError(option, value, f"only classic: {CLASSIC}")
    return value


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
