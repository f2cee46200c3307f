"""librdkafka clients: their configuration and their errors."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError  # another class before Python 3.11
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.errors import (
    ConfigError,
    DataLossError,
    ErrorCode,
    FencedError,
    OrderedKafkaError,
    RebalancedError,
    RequestError,
    UnavailableError,
)
from spark_ordered_kafka.kafka.codes import KINDS, Kind, kind_of
from spark_ordered_kafka.kafka.java_names import RENAMED
from spark_ordered_kafka.parsing import checked_text, raise_all, shown

_LOG = logging.getLogger("spark_ordered_kafka.librdkafka")
_FENCE_FACILITIES = frozenset({"TXNERR", "FATAL", "ADDPARTS", "ADDOFFSETS", "GETPID", "PRODUCE", "TERMINATE"})
_REPEATED_WITHIN = 30.0
"""Seconds within which librdkafka itself says the same of a connection only once."""
_DURATION = re.compile(r"\(after .*")
_OF_OTHERS = re.compile(r"property \S+ is a \w+ property and will be ignored by this \w+ instance")
# Of clients that only judge properties: what they log, the clients that follow log as well.
_SILENT = logging.getLogger("spark_ordered_kafka.librdkafka.judge")
# Not `disabled`, which anybody's logging.config.dictConfig takes back.
_SILENT.addFilter(lambda _: False)


class News(logging.Filter):
    """Leaves out what librdkafka logs of a fenced producer, since every change fences some and it is raised as well; that a
    property is not for this kind of client, since a reader's options are those of its admin client, too; and what a
    client has logged in the last 30 seconds: while no broker answers, every attempt has a connection of its own.

    All is let through at DEBUG.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        # With the time of each, in this order.
        self._said: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to log the record; confluent-kafka's have librdkafka's facility as the first argument."""
        if logging.getLogger(record.name).isEnabledFor(logging.DEBUG):
            return True
        facility = record.args[0] if isinstance(record.args, tuple) and record.args else None
        if facility in _FENCE_FACILITIES:
            return False
        text = record.getMessage()
        return _OF_OTHERS.search(text) is None and self._is_new(_DURATION.sub("", text))

    def _is_new(self, text: str) -> bool:
        now = self._clock()
        while self._said and now - next(iter(self._said.values())) >= _REPEATED_WITHIN:
            del self._said[next(iter(self._said))]
        is_new = text not in self._said
        if is_new:
            self._said[text] = now
        return is_new


_LOG.addFilter(News())

OUT_OF_RANGE = frozenset(code for code, kind in KINDS.items() if kind is Kind.LOSS)
"""What librdkafka says of a position that the log does not hold."""

STALE_METADATA = frozenset(
    {
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.LEADER_NOT_AVAILABLE,
    }
)
"""What librdkafka says of partitions newer than its metadata, which it refreshes every five minutes by itself."""


NO_COORDINATOR = frozenset({KafkaError.GROUP_AUTHORIZATION_FAILED})
"""What librdkafka says when it may not look for the group's coordinator. A consumer of assigned ranges needs none
(D-122)."""


# A name that librdkafka does not know may be one of these misspelt.
_SECRETS = (
    "sasl.password",
    "ssl.key.password",
    "ssl.keystore.password",
    "ssl.truststore.password",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.config",
    "sasl.jaas.config",
    "ssl.key.pem",
)

_DEFAULTS = {
    # The first of growing pauses, 100 by default: a new client waits half of it before its second connection (D-066).
    "reconnect.backoff.ms": "20",
    # As Java's clients: librdkafka's 10 s would keep a query waiting after brokers have come back.
    "reconnect.backoff.max.ms": "1000",
    # By default librdkafka starts over with every failed connection while no broker answers, so that its pauses never
    # grow, and queues a line for each, which only poll() takes out (D-228).
    "metadata.recovery.strategy": "none",
}


_MAX_AGE, _REFRESH = "metadata.max.age.ms", "topic.metadata.refresh.interval.ms"
# librdkafka allows a day, and counts the microseconds in 32 bits: with more than this a topic is unknown to it every
# second, and its partitions are not read for as long as half a minute (D-316).
_LONGEST_AGE = (2**31 - 1) // 1000
_LARGEST_AGE = 86_400_000


# What an admin client warns of, and what it cannot have where a transactional producer can.
_NOT_OF_ADMIN = frozenset(
    {
        "delivery.timeout.ms",
        "enable.gapless.guarantee",
        "group.id",
        "isolation.level",
        "linger.ms",
        "message.timeout.ms",
        "queue.buffering.max.ms",
    }
)


def client_properties(kafka: Mapping[str, Any], **own: str | int | bool) -> dict[str, Any]:
    """librdkafka properties: the user's, and ours (underscores become dots), which win."""
    return {
        **_DEFAULTS,
        **kafka,
        **_max_age(kafka),
        **{name.replace("_", "."): value for name, value in own.items()},
        "logger": kafka.get("logger", _LOG),
    }


def whole_number(kafka: Mapping[str, Any], name: str) -> int | None:
    """The value of a property as librdkafka reads it; None where it is missing, or no number, which librdkafka refuses."""
    try:
        return int(str(kafka[name]), 0)
    except (KeyError, ValueError):
        return None


def cut(kafka: Mapping[str, Any], limits: Mapping[str, int], largest: int | None = None) -> dict[str, str]:
    """The values of ``kafka`` above their limit, cut to it; librdkafka refuses those above ``largest``, so they stay."""
    values = {name: whole_number(kafka, name) for name in limits}
    return {
        name: str(limits[name])
        for name, value in values.items()
        if value is not None and value > limits[name] and (largest is None or value <= largest)
    }


def _max_age(kafka: Mapping[str, Any]) -> dict[str, str]:
    """``metadata.max.age.ms`` where librdkafka would take one that it cannot count."""
    # By default three times the other; what librdkafka refuses it has to see.
    name, factor = (_MAX_AGE, 1) if _MAX_AGE in kafka else (_REFRESH, 3)
    given = whole_number(kafka, name)
    is_longer = given is not None and _LONGEST_AGE < given * factor <= _LARGEST_AGE
    return {_MAX_AGE: str(_LONGEST_AGE)} if is_longer else {}


_FETCH_WAIT, _SHORT_WAIT = "fetch.wait.max.ms", 10
# More librdkafka refuses.
_LONGEST_WAIT = 300_000


def consumer_properties(kafka: Mapping[str, str], out_of_range: str = "error") -> dict[str, Any]:
    """Properties of a consumer that reads assigned ranges: never commits, sees the end of a partition.

    ``out_of_range``: librdkafka's ``auto.offset.reset``, for a position that the log does not hold.
    A long poll left over from the last range would delay the next one, hence the short ``fetch.wait.max.ms``: what there
    is to read has been written, so that a longer one gains nothing (D-318). The limits of the queue bound memory, and
    ``fetch.queue.backoff.ms`` keeps it filled (D-113).
    """
    defaults = {
        "group.id": "ordered-kafka-reader",
        "isolation.level": "read_committed",
        _FETCH_WAIT: str(_SHORT_WAIT),
        "queued.min.messages": "50000",
        "queued.max.messages.kbytes": "16384",
        "fetch.queue.backoff.ms": "10",
    }
    return client_properties(
        {**defaults, **kafka, **cut(kafka, {_FETCH_WAIT: _SHORT_WAIT}, _LONGEST_WAIT)},
        enable_auto_commit=False,
        enable_auto_offset_store=False,
        enable_partition_eof=True,
        auto_offset_reset=out_of_range,
    )


def admin_properties(kafka: Mapping[str, Any]) -> dict[str, Any]:
    """Properties of an admin client, of those of a reader or a writer: librdkafka judges it as a plain producer."""
    return client_properties({name: value for name, value in kafka.items() if name not in _NOT_OF_ADMIN})


def check_properties(
    client: type[Consumer] | type[Producer],
    kafka: Mapping[str, Any],
    label: str = "",
    complete: Callable[[Mapping[str, Any]], dict[str, Any]] = client_properties,
) -> None:
    """Let librdkafka itself judge properties. Raises ConfigError with its words for all wrong ones.

    ``complete`` adds those that are not the user's; ``label`` stands before names in messages.
    """
    for name, value in kafka.items():
        # confluent-kafka's C code ends the process for text that is none in UTF-8, and cuts one off at NUL.
        checked_text(label, name)
        if isinstance(value, str):
            checked_text(f"{label}{name}", value)
    left, errors = dict(kafka), []
    if left.get("group.id") == "":
        # And for this.
        errors.append(ConfigError(f"{label}group.id", "", "the name of a consumer group"))
        del left["group.id"]
    while (said := _refusal(client, complete(left))) is not None:
        # librdkafka stops at the first, and names an alias by the name it stands for.
        culprit = next(
            (name for name in left if _refusal(client, complete(_without(left, name))) != said), None
        )
        if culprit is None:
            errors.append(ConfigError(f"{label}*", ", ".join(sorted(left)), f"librdkafka says: {said}"))
            break
        java = next((java for java, one in RENAMED.items() if one.name == culprit), None)
        hint = f"librdkafka says: {said}" + ("" if java is None else f"; Java's name of it is {java}")
        errors.append(ConfigError(f"{label}{culprit}", shown(culprit, left[culprit], _SECRETS), hint))
        left = _without(left, culprit)
    raise_all(errors)


def check_reader(connection: Connection) -> None:
    """:func:`check_properties` of the options ``kafka.*`` of a source."""
    check_properties(Consumer, connection.kafka, "option kafka.", consumer_properties)


def _without(properties: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {one: value for one, value in properties.items() if one != name}


def _refusal(client: type[Consumer] | type[Producer], properties: Mapping[str, Any]) -> str | None:
    needed = {"group.id": "judge"} if client is Consumer else {}
    try:
        client({**needed, **properties, "logger": _SILENT}).close()
    except KafkaException as error:
        # A writer has clients of both kinds, which say the same.
        said = str(error.args[0].str()).strip()
        return said.removeprefix("Failed to create producer: ").removeprefix("Failed to create consumer: ")
    except (TypeError, ValueError) as error:
        return str(error)
    return None


# Of codes that ErrorCode does not have: librdkafka's own, and rare ones of brokers.
_CODES_OF_KINDS = {
    Kind.DATA: ErrorCode.CORRUPT_MESSAGE,
    Kind.CONFIGURATION: ErrorCode.INVALID_CONFIG,
    Kind.OURS: ErrorCode.INVALID_REQUEST,
}


_HINTS = {
    KafkaError.MSG_SIZE_TOO_LARGE: "; the topic takes less (max.message.bytes): set batch.size to that, 1000000 by default,"
    " unless a single record is too large",
    KafkaError.INVALID_TRANSACTION_TIMEOUT: "; set transaction.timeout.ms, 60000 by default",
    KafkaError.INVALID_SESSION_TIMEOUT: "; set session.timeout.ms, 45000 by default, as the brokers allow it"
    " (group.min.session.timeout.ms, group.max.session.timeout.ms)",
}


def translate(error: KafkaError, doing: str) -> OrderedKafkaError:
    """librdkafka's error as one of ours; ``doing`` completes "while ...".

    Fenced, retriable and abortable errors become retriable ones; what no retry can mend becomes a RequestError.
    """
    message = f"while {doing}: {error.name()}: {error.str()}{_HINTS.get(error.code(), '')}"
    kind = kind_of(error)
    if kind is Kind.FENCED:
        return FencedError(message)
    if kind is Kind.REBALANCED:
        return RebalancedError(message)
    if kind is Kind.LOSS:
        return DataLossError(message)
    if kind is Kind.RETRIABLE:
        return UnavailableError(message)
    return RequestError(_code(error, kind), message)


def _code(error: KafkaError, kind: Kind) -> ErrorCode:
    if error.code() == KafkaError._AUTHENTICATION:
        return ErrorCode.SASL_AUTHENTICATION_FAILED
    if error.code() < ErrorCode.UNKNOWN_SERVER_ERROR:
        return _CODES_OF_KINDS.get(kind, ErrorCode.UNKNOWN_SERVER_ERROR)
    try:
        return ErrorCode(error.code())
    except ValueError:
        return _CODES_OF_KINDS.get(kind, ErrorCode.UNKNOWN_SERVER_ERROR)


def refresh_metadata(consumer: Consumer, topic: str, timeout: float) -> None:
    """Let a consumer learn who leads the topic's partitions, and of new ones. Raises what :func:`translate` makes of errors."""
    try:
        consumer.list_topics(topic, timeout)
    except KafkaException as error:
        raise translate(error.args[0], f"asking for topic {topic!r}") from error


def unknown_topic(topic: str) -> RequestError:
    """What is raised for a topic that the brokers do not have."""
    return RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic!r} does not exist")


def wait_for(future: Future[Any], timeout: float, doing: str) -> Any:
    """The future's result; its failure or its absence after ``timeout`` (seconds) as one of our errors."""
    try:
        return future.result(timeout + 5.0)
    except KafkaException as error:
        raise translate(error.args[0], doing) from error
    except FutureTimeoutError as error:
        raise UnavailableError(f"while {doing}: no answer within {timeout:g} s") from error
