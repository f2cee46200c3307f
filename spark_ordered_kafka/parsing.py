"""Flat options as given, and parsers of their values: text in, a checked value out (D-224).

Wrong values raise ConfigError naming the option, its value and the valid ones.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, TypeVar
from urllib.parse import urlsplit

from spark_ordered_kafka.errors import ConfigError, ConfigErrors

EARLIEST, LATEST = -2, -1
"""Kafka's own markers for the log start and the log end, as Spark's offset JSON has them."""

Positions = Mapping[str, Mapping[int, int]]
"""Per topic and partition an offset, or a timestamp in milliseconds."""

SERVERS_HINT = "set it to a comma-separated list of host:port"
URLS_HINT = "set it to the controller's address, such as http://host:8090, or several separated by commas"
TOPICS_HINT = "set it to one topic, or several separated by commas"

KAFKA_PREFIX = "kafka."

HIDDEN = "********"
"""What is shown instead of a secret."""
# Without case and punctuation, so that ssl.key.pem, SSL_KEY_PEM and sslKeyPem are equal.
_SECRET = re.compile(
    "password|passphrase|passwd|secret|token|keypem|privatekey|assertion|jaasconfig|oauthbearerconfig|sslkey$"
)
_PUNCTUATION = re.compile(r"[^a-z0-9]+")
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_DIGITS = re.compile(r"[0-9]{1,18}")
# org.apache.spark.network.util.JavaUtils.timeStringAs; a number without a unit counts milliseconds.
_DURATION = re.compile(r"([0-9]{1,18})(us|ms|s|m|min|h|d)?")
_LONGEST = (2**31 - 1) / 1000
"""Seconds: librdkafka counts what it waits for in milliseconds of 32 bits."""
# C ends a text at NUL, and half of a surrogate pair has no bytes in UTF-8.
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}

_NameT = TypeVar("_NameT", bound=str)


@dataclass(frozen=True)
class Given:
    """Flat options as given, each taken by name and parsed. ``label`` stands before names in messages."""

    options: Mapping[str, Any] = field(repr=False)
    label: str = ""

    def text(self, name: str) -> str | None:
        """The value as text; None: it is not given. Raises ConfigError for one that :func:`checked_text` refuses."""
        value = self.options.get(name)
        return None if value is None else checked_text(f"{self.label}{name}", text(value))

    def take(
        self, name: str, parse: Callable[[str, str], Any], default: Any = None, alias: str | None = None
    ) -> Any:
        """The value as ``parse`` (option, value) makes it, by its name or ``alias``; ``default`` if it is not given."""
        for one in (name,) if alias is None else (name, alias):
            if (value := self.text(one)) is not None:
                return parse(f"{self.label}{one}", value)
        return default

    def require(
        self, name: str, parse: Callable[[str, str], Any], hint: str, alias: str | None = None
    ) -> Any:
        """:meth:`take` of a required option; raises ConfigError with ``hint`` without it."""
        found = self.take(name, parse, alias=alias)
        if found is None:
            raise ConfigError(f"{self.label}{name}", None, hint)
        return found


def together(fields: Mapping[str, Callable[[], Any]], *checks: Callable[[], object]) -> dict[str, Any]:
    """What the calls return, by field. Raises the ConfigErrors of all, and of the checks, as one: a user mends them at once."""
    found: dict[str, Any] = {}
    errors: list[ConfigError] = []

    def attempt(call: Callable[[], Any]) -> Any:
        try:
            return call()
        except ConfigErrors as several:
            errors.extend(several.errors)
        except ConfigError as error:
            errors.append(error)

    for check in checks:
        attempt(check)
    for name, call in fields.items():
        found[name] = attempt(call)
    raise_all(errors)
    return found


def raise_all(errors: Iterable[ConfigError]) -> None:
    """Raise all errors as one, each once: a field that a check looks at may be refused by both."""
    distinct = tuple({str(error): error for error in errors}.values())
    if len(distinct) == 1:
        raise distinct[0]
    if distinct:
        raise ConfigErrors(distinct)


def check_together(given: Mapping[str, object], *pairs: tuple[str, str], label: str = "") -> None:
    """Raises ConfigError for an option that is given without the other one of its pair; ``label`` stands before names."""
    for pair in pairs:
        for name, other in (pair, pair[::-1]):
            if given.get(name) is not None and given.get(other) is None:
                raise ConfigError(f"{label}{other}", None, f"{name} needs it")


def text(value: object) -> str:
    """A value in the notation of Kafka's property files."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def checked_text(option: str, value: str) -> str:
    """``value``, which has bytes in UTF-8 and no NUL, so that no library cuts it off; raises ConfigError for another one."""
    if _NO_TEXT.search(value) is not None:
        raise ConfigError(
            option, shown(option, value), "text without NUL and without half a surrogate pair is needed"
        )
    return value


def topic_name(option: str, value: str) -> str:
    """A legal Kafka topic name (``org.apache.kafka.common.internals.Topic``); raises ConfigError otherwise."""
    if not is_topic_name(value):
        raise ConfigError(option, value, "a topic name has 1 to 249 of the characters a-z A-Z 0-9 . _ -")
    return value


def is_topic_name(name: str) -> bool:
    """Whether Kafka accepts ``name`` for a topic (``org.apache.kafka.common.internals.Topic``)."""
    return _TOPIC_NAME.fullmatch(name) is not None and name not in (".", "..")


def is_http_url(url: str) -> bool:
    """Whether ``url`` can be a controller's: http or https, with a host, without user, query and fragment.

    Clients would send a user and password in the URL instead of their own credentials, protected or not, and show them
    wherever they show the URL.
    """
    try:
        parts = urlsplit(url)
        is_port = parts.port != 0
    except ValueError:
        return False  # of a port or an IPv6 address
    named = parts.scheme in ("http", "https") and bool(parts.hostname)
    return named and is_port and parts.username is None and not parts.query and not parts.fragment


def without_user(urls: str) -> str:
    """URLs separated by commas, with user and password masked, for messages."""
    return re.sub(r"(?<=//)[^/,]*(?=@)", "********", urls)


def url_parts(url: str) -> tuple[str, str]:
    """Scheme and host of a URL that :func:`is_http_url` accepts."""
    parts = urlsplit(url.strip())
    return parts.scheme, parts.hostname or ""


def host_port(host: str, port: int | None) -> str:
    """``host:port``, as it is given to clients: an IPv6 address has brackets."""
    return f"[{host}]:{port}" if ":" in host and not host.startswith("[") else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """Whether ``host`` (a name or an address, an IPv6 one with or without brackets) is this machine's own."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def printable(text: str) -> str:
    """``text`` with escapes for characters that end a line, control a terminal or change the direction of writing."""
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape", "backslashreplace").decode()
        for one in text
    )


def is_secret(name: str) -> bool:
    """Whether the value of an option or property of that name must not be shown.

    A rule instead of a list, so that it covers properties of later versions. It also hides some that are no secrets, such as
    ``sasl.oauthbearer.token.endpoint.url``.
    """
    return _SECRET.search(_PUNCTUATION.sub("", name.lower())) is not None


def shown(name: str, value: object, known: Iterable[str] = ()) -> object:
    """The value of an option or property for a message: a secret is hidden, and so is the value of a name that may be one
    of the ``known`` ones misspelt."""
    near = difflib.get_close_matches(name.lower(), list(known))
    return HIDDEN if value is not None and any(map(is_secret, (name, *near))) else value


def servers(option: str, value: str) -> str:
    """Brokers, ``host:port`` separated by commas, without blanks."""
    found = [server.strip() for server in value.split(",")]
    for server in found:
        host, _, port = server.rpartition(":")
        if not host or _DIGITS.fullmatch(port) is None or not 0 < int(port) < 65536:
            raise ConfigError(option, value, SERVERS_HINT)
    return ",".join(found)


def urls(option: str, value: str) -> str:
    """Controllers, http URLs separated by commas, without blanks and final slashes."""
    found = [url.strip().rstrip("/") for url in value.split(",") if url.strip()]
    if not found or not all(map(is_http_url, found)):
        raise ConfigError(option, without_user(value), URLS_HINT)
    return ",".join(found)


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
    compiled(option, stripped)
    return stripped


def compiled(
    option: str, value: str, hint: str = "not a regular expression of Python's re"
) -> re.Pattern[str]:
    """A regular expression; raises ConfigError with ``hint`` for a text that is none."""
    try:
        return re.compile(value)
    except (re.error, OverflowError, RecursionError) as error:
        raise ConfigError(option, value, f"{hint}: {error}") from error


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
    return natural(option, value, "a whole number of milliseconds since 1970-01-01 UTC, 0 or greater")


def timestamps(option: str, value: str) -> Positions:
    """Times in milliseconds since 1970-01-01 UTC, per topic and partition."""
    expected = (
        'JSON with milliseconds since 1970-01-01 UTC, such as {"topic":{"0":1700000000000}}, none negative'
    )
    return _per_partition(option, value, expected, least=0)


def boolean(option: str, value: str) -> bool:
    """True or false, in any case."""
    return one_of(option, value.strip().lower(), ("true", "false")) == "true"


def natural(option: str, value: str, expected: str = "a whole number, 0 or greater") -> int:
    """A number of at most 18 digits; raises ConfigError, saying what was ``expected``, for another text."""
    stripped = value.strip()
    # int() takes the digits of every script and underscores, and raises ValueError for thousands of digits.
    if _DIGITS.fullmatch(stripped) is None:
        raise ConfigError(option, value, expected)
    return int(stripped)


def positive(option: str, value: str) -> int:
    """A whole number of at least 1."""
    expected = "a whole number of at least 1"
    number = natural(option, value, expected)
    if number == 0:
        raise ConfigError(option, value, expected)
    return number


def duration(option: str, value: str) -> float:
    """A time in Spark's syntax (``15m``, ``90s``, ``250ms``; no unit: milliseconds), in seconds; at most 24 days."""
    match = _DURATION.fullmatch(value.strip().lower())
    if match is None:
        raise ConfigError(option, value, "a time such as 15m, 90s or 250ms (units: us, ms, s, m, min, h, d)")
    number, unit = match.groups()
    seconds = int(number) * _SECONDS[unit or "ms"]
    if seconds > _LONGEST:
        raise ConfigError(option, value, "a time of at most 24d")
    return seconds


def writer(option: str, value: str) -> str:
    """The name of a writer."""
    if not value or ":" in value or len(value) > 200:
        raise ConfigError(option, value, "a name of 1 to 200 characters without a colon")
    return value


def writer_and_batch(option: str, value: str) -> tuple[str, int]:
    """A batch of a writer, as ``job:17``."""
    name, _, batch = value.strip().rpartition(":")
    expected = "WRITER:BATCH as the error of the replay names them, such as job:17"
    if not name or ":" in name:
        raise ConfigError(option, value, expected)
    try:
        return name, natural(option, batch, expected)
    except ConfigError as error:
        raise ConfigError(option, value, expected) from error


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
