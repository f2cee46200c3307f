"""Options as given, and parsers of their values: text in, a checked value out.

What is wrong raises ConfigError naming the option, its value and what would be right.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from ipaddress import ip_address
from typing import Any, TypeVar
from urllib.parse import urlsplit

from spark_ordered_kafka.errors import ConfigError

EARLIEST, LATEST = -2, -1
"""Kafka's own markers for the log start and the log end, as Spark's offset JSON has them."""

Positions = Mapping[str, Mapping[int, int]]
"""Per topic and partition an offset, or a timestamp in milliseconds."""

SERVERS_HINT = "set it to a comma-separated list of host:port"
URLS_HINT = "set it to the controller's address, such as http://host:8090"
TOPICS_HINT = "set it to one topic, or several separated by commas"

KAFKA_PREFIX = "kafka."

HIDDEN = "********"
"""What is shown instead of a secret."""
# In names without case and punctuation, so that ssl.key.pem, SSL_KEY_PEM and sslKeyPem are one.
_SECRET = re.compile(
    "password|passphrase|passwd|secret|token|keypem|privatekey|assertion|jaasconfig|oauthbearerconfig|sslkey$"
)
_PUNCTUATION = re.compile(r"[^a-z0-9]+")
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_WHOLE = re.compile(r"[0-9]{1,18}")
# org.apache.spark.network.util.JavaUtils.timeStringAs; a number without a unit counts milliseconds.
_DURATION = re.compile(r"([0-9]{1,18})(us|ms|s|m|min|h|d)?")
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}

_NameT = TypeVar("_NameT", bound=str)
_SET_BY_SPARK = frozenset({"path", "checkpointlocation", "queryname", "outputmode"})
_REFUSED_KAFKA = {
    "auto.offset.reset": "startingOffsets of a read says where it begins; leave it out",
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
    "statistics.interval.ms": "nobody takes the statistics; leave it out",
}


class Given:
    """The options as given, looked up by documented name whatever their case.

    ``known``: the options that ``side`` takes; ``elsewhere``: those of the format. Raises ConfigError for any other.
    """

    def __init__(
        self, options: Mapping[str, str], known: tuple[str, ...], side: str, elsewhere: tuple[str, ...] = ()
    ) -> None:
        self._values = lowered(options)
        allowed = {name.lower() for name in known}
        # The JVM's sink has a column of that name, so it is what many try.
        others = {name.lower() for name in (*elsewhere, "partition")}
        for name in self._values:
            if name in allowed or name in _SET_BY_SPARK or name.startswith(KAFKA_PREFIX):
                continue
            hint = f"the {side} takes {', '.join(known)} and kafka.*"
            if elsewhere and name in others:
                hint = f"it is not an option of the {side}; {hint}"
            # A misspelt controller.password is one, too.
            hidden = name.startswith("controller.") or is_like_secret(name, known)
            shown = HIDDEN if hidden else self._values[name]
            raise ConfigError(f"unknown option {name}", shown, hint)

    def text(self, name: str) -> str | None:
        """The value as given."""
        return self._values.get(name.lower())

    def take(self, name: str, parse: Callable[[str, str], Any], default: Any = None) -> Any:
        """The value as ``parse`` (option, value) makes it; ``default`` if it is not given."""
        value = self.text(name)
        return default if value is None else parse(f"option {name}", value)

    def require(self, name: str, parse: Callable[[str, str], Any], hint: str) -> Any:
        """:meth:`take` of what must be there; raises ConfigError with ``hint`` otherwise."""
        if self.text(name) is None:
            raise ConfigError(f"option {name}", None, hint)
        return self.take(name, parse)

    def kafka(self) -> dict[str, str]:
        """librdkafka's properties, without the prefix; raises ConfigError for one that is not the user's to set."""
        found = {
            name[len(KAFKA_PREFIX) :]: value
            for name, value in self._values.items()
            if name.startswith(KAFKA_PREFIX)
        }
        for name, value in found.items():
            if name in _REFUSED_KAFKA:
                raise ConfigError(f"option {KAFKA_PREFIX}{name}", value, _REFUSED_KAFKA[name])
        return found


def lowered(options: Mapping[str, str]) -> dict[str, str]:
    """The options by lower-case name, without those set to None."""
    return {name.lower(): value for name, value in options.items() if value is not None}


def topic_name(option: str, value: str) -> str:
    """A legal Kafka topic name (``org.apache.kafka.common.internals.Topic``); raises ConfigError otherwise."""
    if not is_topic_name(value):
        raise ConfigError(option, value, "a topic name has 1 to 249 of the characters a-z A-Z 0-9 . _ -")
    return value


def is_topic_name(name: str) -> bool:
    """Whether Kafka takes ``name`` for a topic (``org.apache.kafka.common.internals.Topic``)."""
    return _TOPIC_NAME.fullmatch(name) is not None and name not in (".", "..")


def is_http_url(url: str) -> bool:
    """Whether ``url`` is one a controller can have: http or https, with a host, without user, query and fragment.

    A user and password in it would be sent instead of the client's credentials, whether protected or not, and be shown
    wherever the URL is.
    """
    try:
        parts = urlsplit(url)
        is_port = parts.port != 0
    except ValueError:
        return False  # of a port or an IPv6 address
    named = parts.scheme in ("http", "https") and bool(parts.hostname)
    return named and is_port and parts.username is None and not parts.query and not parts.fragment


def without_user(urls: str) -> str:
    """URLs separated by commas, fit for a message: user and password in them masked."""
    return re.sub(r"(?<=//)[^/,]*(?=@)", "********", urls)


def url_parts(url: str) -> tuple[str, str]:
    """Scheme and host of a URL that :func:`is_http_url` accepts."""
    parts = urlsplit(url.strip())
    return parts.scheme, parts.hostname or ""


def is_loopback(host: str) -> bool:
    """Whether ``host`` (a name or an address, an IPv6 one with or without brackets) is this machine's own."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def printable(text: str) -> str:
    """``text`` with escapes for whatever ends a line, steers a terminal or changes the direction of writing."""
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape", "backslashreplace").decode()
        for one in text
    )


def is_secret(name: str) -> bool:
    """Whether the value of an option or property of that name must not be shown.

    A rule instead of a list, so that it holds for properties of versions to come. It hides some that are no secrets, such as
    ``sasl.oauthbearer.token.endpoint.url``.
    """
    return _SECRET.search(_PUNCTUATION.sub("", name.lower())) is not None


def is_like_secret(name: str, known: Iterable[str]) -> bool:
    """Whether ``name``, which is none of the ``known`` ones, may be that of a secret, or of one of them misspelt."""
    return is_secret(name) or any(map(is_secret, difflib.get_close_matches(name.lower(), list(known))))


def servers(option: str, value: str) -> str:
    """Brokers, ``host:port`` separated by commas, without blanks."""
    found = [server.strip() for server in value.split(",")]
    for server in found:
        host, _, port = server.rpartition(":")
        if not host or _WHOLE.fullmatch(port) is None or not 0 < int(port) < 65536:
            raise ConfigError(option, value, SERVERS_HINT)
    return ",".join(found)


def urls(option: str, value: str) -> str:
    """Controllers, http URLs separated by commas."""
    for url in value.split(","):
        if not is_http_url(url.strip()):
            raise ConfigError(option, without_user(value), URLS_HINT)
    return value


def topics(option: str, value: str) -> tuple[str, ...]:
    """Topic names separated by commas, each once."""
    names = tuple(dict.fromkeys(name.strip() for name in value.split(",") if name.strip()))
    if not names:
        raise ConfigError(option, value, TOPICS_HINT)
    return tuple(topic_name(option, name) for name in names)


def pattern(option: str, value: str) -> str:
    """A regular expression of Python's ``re``, to be matched against whole topic names."""
    stripped = value.strip()
    if not stripped:
        raise ConfigError(
            option, value, "a regular expression that matches whole topic names, such as orders-.*"
        )
    try:
        re.compile(stripped)
    except re.error as error:
        raise ConfigError(option, value, f"not a regular expression of Python's re: {error}") from error
    return stripped


def assignment(option: str, value: str) -> dict[str, frozenset[int]]:
    """Partitions per topic, as Spark's ``assign`` has them."""
    expected = 'JSON that names partitions, such as {"topicA":[0,1],"topicB":[2,4]}'
    # Here, since pydantic takes longer to import than all else that a task needs, and few options are JSON.
    from spark_ordered_kafka.json_options import partitions

    found = partitions(option, value, expected)
    if not found:
        raise ConfigError(option, value, expected)
    return {topic_name(option, topic): named for topic, named in found.items()}


def starting_offsets(option: str, value: str) -> int | Positions:
    """``startingOffsets``: a marker for all partitions, or offsets and markers per topic and partition."""
    if value.strip().lower() == "earliest":
        return EARLIEST
    if value.strip().lower() == "latest":
        return LATEST
    return _positions(option, value, "earliest, latest or JSON", (EARLIEST, LATEST))


def ending_offsets(option: str, value: str) -> int | Positions:
    """``endingOffsets``: the end, or offsets and the end's marker per topic and partition."""
    if value.strip().lower() == "latest":
        return LATEST
    return _positions(option, value, "latest or JSON", (LATEST,))


def timestamp(option: str, value: str) -> int:
    """A time in milliseconds since 1970-01-01 UTC."""
    stripped = value.strip()
    if _WHOLE.fullmatch(stripped) is None:
        raise ConfigError(option, value, "a whole number of milliseconds since 1970-01-01 UTC, 0 or greater")
    return int(stripped)


def timestamps(option: str, value: str) -> Positions:
    """Times in milliseconds since 1970-01-01 UTC, per topic and partition."""
    expected = (
        'JSON with milliseconds since 1970-01-01 UTC, such as {"topic":{"0":1700000000000}}, none negative'
    )
    return _per_partition(option, value, expected, least=0)


def boolean(option: str, value: str) -> bool:
    """True or false, in any case."""
    return one_of(option, value.strip().lower(), ("true", "false")) == "true"


def positive(option: str, value: str) -> int:
    """A whole number of at least 1."""
    stripped = value.strip()
    if _WHOLE.fullmatch(stripped) is None or int(stripped) == 0:
        raise ConfigError(option, value, "a whole number of at least 1")
    return int(stripped)


def duration(option: str, value: str) -> float:
    """A time in Spark's syntax (``15m``, ``90s``, ``250ms``; no unit: milliseconds), in seconds."""
    match = _DURATION.fullmatch(value.strip().lower())
    if match is None:
        raise ConfigError(option, value, "a time such as 15m, 90s or 250ms (units: us, ms, s, m, min, h, d)")
    number, unit = match.groups()
    return int(number) * _SECONDS[unit or "ms"]


def writer(option: str, value: str) -> str:
    """The name of a writer."""
    if not value or ":" in value or len(value) > 200:
        raise ConfigError(option, value, "a name of 1 to 200 characters without a colon")
    return value


def writer_and_batch(option: str, value: str) -> tuple[str, int]:
    """A batch of a writer, as ``job:17``."""
    name, _, batch = value.strip().rpartition(":")
    if not name or ":" in name or not batch.isdecimal():
        raise ConfigError(option, value, "WRITER:BATCH as the error of the replay names them, such as job:17")
    return name, int(batch)


def one_of(option: str, value: str, names: tuple[_NameT, ...]) -> _NameT:
    """One of ``names``."""
    for name in names:
        if value == name:
            return name
    raise ConfigError(option, value, f"{', '.join(names[:-1])} or {names[-1]}")


def _positions(option: str, value: str, words: str, markers: tuple[int, ...]) -> Positions:
    shown = ", ".join(map(str, markers))
    expected = f'{words} such as {{"topic":{{"0":23,"1":-1}}}} (allowed markers: {shown})'
    return _per_partition(option, value, expected, least=min(markers))


def _per_partition(option: str, value: str, expected: str, least: int) -> Positions:
    from spark_ordered_kafka.json_options import longs  # as above

    found = longs(option, value, expected)
    if not found or any(number < least for numbers in found.values() for number in numbers.values()):
        raise ConfigError(option, value, expected)
    return {
        topic: {int(partition): number for partition, number in numbers.items()}
        for topic, numbers in found.items()
    }
