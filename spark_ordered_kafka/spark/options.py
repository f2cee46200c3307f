"""Options of the source and the sink: parsed once into frozen values, refused early, secrets masked.

Names are those of Spark's own ``kafka`` format where it has them. Spark hands options over case-insensitively, so
names are compared in lower case and printed as documented.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from spark_ordered_kafka import credentials, parsing
from spark_ordered_kafka.config import Connection, Misrouted, connection
from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.parsing import HIDDEN, KAFKA_PREFIX, LATEST, Given, Positions, shown, together
from spark_ordered_kafka.spark import option_names

Ordering = Literal["key", "none"]
NoMatch = Literal["error", "latest"]

_SUBSCRIPTION = ("subscribe", "subscribePattern", "assign")
# In Spark's order of preference.
_STARTING = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
_ENDING = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
_SPLITTING = ("minPartitions", "maxRecordsPerPartition")
_MIN_RECORDS_OPTION = "minRecordsPerPartition"
# A task of Python costs as much as reading some ten thousand records (D-046).
_MIN_RECORDS = 5_000
_EITHER_SIDE = option_names.names()
_DOCUMENTED = {name.lower(): name for name in (*_EITHER_SIDE, *option_names.REFUSED)}
_SET_BY_SPARK = frozenset({"path", "checkpointlocation", "queryname", "outputmode"})


@dataclass(frozen=True)
class TopicNames:
    """``subscribe``: these topics, whole."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class TopicPattern:
    """``subscribePattern``: every topic under management whose whole name matches."""

    pattern: str

    def matches(self, topic: str) -> bool:
        """Whether the topic belongs to the subscription, as Java's ``Pattern.matches`` would have it."""
        return re.fullmatch(self.pattern, topic) is not None


@dataclass(frozen=True)
class Assignment:
    """``assign``: these partitions of each topic."""

    partitions: Mapping[str, frozenset[int]]


Subscription = TopicNames | TopicPattern | Assignment


@dataclass(frozen=True)
class Bound:
    """Where reading starts or ends: the value of ``option``.

    ``value`` holds for all partitions or per topic and partition. It is an offset or marker (``parsing.EARLIEST``,
    ``parsing.LATEST``), or, with ``by_time``, milliseconds since 1970-01-01 UTC.
    """

    option: str
    value: int | Positions
    by_time: bool = False


@dataclass(frozen=True)
class Limits:
    """How many offsets a micro-batch takes. It waits up to ``max_delay`` seconds for ``min_offsets``."""

    max_offsets: int | None = None
    min_offsets: int | None = None
    max_delay: float = 15 * 60.0


@dataclass(frozen=True)
class Splitting:
    """Into how many tasks at least, and of how many offsets at most, a read without order is cut.

    ``min_records``: offsets that a task has at least, for which it reads several partitions.
    """

    min_partitions: int | None = None
    max_records: int | None = None
    min_records: int = 1


@dataclass(frozen=True)
class SourceOptions:
    """Options of ``spark.read`` and ``spark.readStream``.

    ``starting`` None means Spark's default: latest in a stream, earliest in a batch. ``no_match``: what to do where no
    record is as late as a start timestamp. ``poll_timeout``: seconds that a task waits for a broker that sends nothing.
    """

    connection: Connection
    subscription: Subscription
    starting: Bound | None = None
    ending: Bound = Bound("endingOffsets", LATEST)
    no_match: NoMatch = "error"
    fail_on_data_loss: bool = True
    limits: Limits = Limits()
    splitting: Splitting = Splitting()
    include_headers: bool = False
    ordering: Ordering = "key"
    misrouted: Misrouted = "warn"
    poll_timeout: float = 60.0


@dataclass(frozen=True)
class SinkOptions:
    """Options of ``df.write`` and ``df.writeStream``.

    ``topic`` None: every row names its topic. ``replay_buffer_bytes``: rows of a task kept in memory for a replay
    before they are spilled to a local file. ``controller_timeout``: seconds that a task waits for the controller.
    ``accepted_mismatch``: the writer and the batch whose replay may have other rows. ``keep_timestamps``: records get the
    timestamps of the rows' column ``timestamp``.
    """

    connection: Connection
    topic: str | None = None
    writer: str | None = None
    replay_buffer_bytes: int = 64 * 1024 * 1024
    controller_timeout: float = 60.0
    accepted_mismatch: tuple[str, int] | None = None
    keep_timestamps: bool = False


def source_options(options: Mapping[str, str], defaults: Mapping[str, str] | None = None) -> SourceOptions:
    """Parse and check the options of a read; ``defaults`` may hold options of the sink, too.

    Raises ConfigError for all wrong ones at once.
    """
    return _source(options, defaults)


def stream_options(options: Mapping[str, str], defaults: Mapping[str, str] | None = None) -> SourceOptions:
    """:func:`source_options` of a stream, which has no end. An end among the defaults is for batches."""
    return _source(options, defaults, lambda: _refuse_ends(_documented(options)))


def _source(
    options: Mapping[str, str], defaults: Mapping[str, str] | None, *checks: Callable[[], object]
) -> SourceOptions:
    own = _documented(options)
    given = Given(_without_overridden(_of_side(defaults, "source"), own) | own, "option ")
    fields: dict[str, Callable[[], Any]] = {
        "connection": lambda: _connection(given),
        "subscription": lambda: _subscription(given),
        "starting": lambda: _starting(given),
        "ending": lambda: _ending(given),
        "no_match": lambda: given.take("startingOffsetsByTimestampStrategy", _no_match, "error"),
        "fail_on_data_loss": lambda: given.take("failOnDataLoss", parsing.boolean, True),
        "limits": lambda: _limits(given),
        "splitting": lambda: _splitting(given),
        "include_headers": lambda: given.take("includeHeaders", parsing.boolean, False),
        "ordering": lambda: _ordering(given),
        "misrouted": lambda: given.take("misroutedRecords", _one_of("ignore", "warn", "fail"), "warn"),
        "poll_timeout": lambda: (
            given.take("kafkaConsumer.pollTimeoutMs", parsing.positive, 1000 * SourceOptions.poll_timeout)
            / 1000
        ),
    }
    names = partial(_check_names, given.options, option_names.names("source"), "source")
    return SourceOptions(**together(fields, names, lambda: _check_times(given), *checks))


def batch_options(options: Mapping[str, str], defaults: Mapping[str, str] | None = None) -> SourceOptions:
    """:func:`source_options` of a batch, which cannot start at the end."""
    parsed = source_options(options, defaults)
    hint = "a batch read starts at earliest, at given offsets or at a time"
    starting = parsed.starting
    if starting is None or starting.by_time:
        return parsed
    if starting.value == LATEST:
        raise ConfigError(f"option {starting.option}", "latest", hint)
    if not isinstance(starting.value, int):
        for topic, offsets in starting.value.items():
            for partition, offset in offsets.items():
                if offset == LATEST:
                    raise ConfigError(f"option {starting.option}", f"{topic}-{partition}: {LATEST}", hint)
    return parsed


def sink_options(options: Mapping[str, str], defaults: Mapping[str, str] | None = None) -> SinkOptions:
    """Parse and check the options of a write; ``defaults`` may hold options of the source, too.

    Raises ConfigError for all wrong ones at once.
    """
    options = _of_side(defaults, "sink") | _documented(options)
    given = Given(options, "option ")
    fields: dict[str, Callable[[], Any]] = {
        "connection": lambda: _connection(given),
        "topic": lambda: given.take("topic", parsing.topic_name),
        "writer": lambda: given.take("writer", parsing.writer),
        "replay_buffer_bytes": lambda: given.take(
            "replayBufferBytes", parsing.positive, SinkOptions.replay_buffer_bytes
        ),
        "controller_timeout": lambda: given.take(
            "controllerTimeout", parsing.duration, SinkOptions.controller_timeout
        ),
        "accepted_mismatch": lambda: given.take("acceptReplayMismatch", parsing.writer_and_batch),
        "keep_timestamps": lambda: given.take("keepTimestamps", parsing.boolean, False),
    }
    names = partial(_check_names, options, option_names.names("sink"), "sink")
    headers = partial(given.take, "includeHeaders", parsing.boolean)
    return SinkOptions(**together(fields, names, headers))


def check_defaults(entries: Mapping[str, str]) -> None:
    """Raises ConfigError for entries that are options of neither source nor sink."""
    _check_names(_documented(entries), _EITHER_SIDE, "format")


def _documented(options: Mapping[str, str] | None) -> dict[str, str]:
    """The options by documented name, any other name in lower case; without those set to None."""
    set_options = {name.lower(): value for name, value in (options or {}).items() if value is not None}
    return {_DOCUMENTED.get(name, name): value for name, value in set_options.items()}


def _of_side(defaults: Mapping[str, str] | None, side: option_names.Side) -> dict[str, str]:
    known = option_names.names(side)
    return {
        name: value
        for name, value in _documented(defaults).items()
        if name in known or name.startswith(KAFKA_PREFIX)
    }


def _without_overridden(defaults: dict[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """The defaults, without those that an option of the read takes the place of."""
    groups = [group for group in (_SUBSCRIPTION, _STARTING, _ENDING) if any(name in own for name in group)]
    overridden = {name for group in groups for name in group}
    return {name: value for name, value in defaults.items() if name not in overridden}


def _check_names(options: Mapping[str, str], known: tuple[str, ...], side: str) -> None:
    """Raises ConfigError for all options that ``side`` does not take."""
    together({name: partial(_check_name, name, value, known, side) for name, value in options.items()})


def _check_name(name: str, value: str, known: tuple[str, ...], side: str) -> None:
    if name in known or name in _SET_BY_SPARK or name.startswith(KAFKA_PREFIX):
        return
    if (reason := option_names.REFUSED.get(name)) is not None:
        raise ConfigError(f"option {name}", value, reason)
    hint = f"the {side} takes {', '.join(known)} and kafka.*"
    # The JVM's sink has a column partition, so many users try it.
    if known is not _EITHER_SIDE and name in (*_EITHER_SIDE, "partition"):
        hint = f"it is not an option of the {side}; {hint}"
    # Also a misspelt controller.password.
    hidden = name.startswith(credentials.PREFIX)
    raise ConfigError(f"unknown option {name}", HIDDEN if hidden else shown(name, value, known), hint)


def _connection(given: Given) -> Connection:
    # Imported here: tasks have the options, too, and translate nothing.
    from spark_ordered_kafka.kafka import java_names

    kafka = {
        name.removeprefix(KAFKA_PREFIX): value
        for name, value in given.options.items()
        if name.startswith(KAFKA_PREFIX)
    }
    label = f"{given.label}{KAFKA_PREFIX}"
    found = together(
        {
            "connection": lambda: connection(given, f"{KAFKA_PREFIX}bootstrap.servers", {}),
            "kafka": lambda: java_names.translated(kafka, label),
        }
    )
    connected: Connection = found["connection"]
    return replace(connected, kafka=found["kafka"] | connected.kafka)


def _one_of(*names: str) -> Callable[[str, str], str]:
    return lambda option, value: parsing.one_of(option, value, names)


def _no_match(option: str, value: str) -> str:
    return parsing.one_of(option, value.strip().lower(), ("error", "latest"))


def _subscription(given: Given) -> Subscription:
    set_options = {name: value for name in _SUBSCRIPTION if (value := given.text(name)) is not None}
    if not set_options:
        hint = f"{parsing.TOPICS_HINT}; one of {', '.join(_SUBSCRIPTION)} must be set"
        raise ConfigError("option subscribe", None, hint)
    if len(set_options) > 1:
        hint = f"only one of {', '.join(_SUBSCRIPTION)} can be set"
        raise ConfigError(f"options {' and '.join(set_options)}", "; ".join(set_options.values()), hint)
    if "subscribe" in set_options:
        return TopicNames(given.take("subscribe", parsing.topics))
    if "assign" in set_options:
        return Assignment(given.take("assign", parsing.assignment))
    return TopicPattern(given.take("subscribePattern", parsing.pattern))


def _starting(given: Given) -> Bound | None:
    parsers = (parsing.timestamp, parsing.timestamps, parsing.starting_offsets)
    return _preferred(given, _STARTING, parsers)


def _ending(given: Given) -> Bound:
    parsers = (parsing.timestamp, parsing.timestamps, parsing.ending_offsets)
    return _preferred(given, _ENDING, parsers) or SourceOptions.ending


def _preferred(
    given: Given, names: tuple[str, ...], parsers: tuple[Callable[[str, str], Any], ...]
) -> Bound | None:
    """The first that is set; all of them are checked."""
    found = [
        Bound(name, value, by_time=parse is not parsers[-1])
        for name, parse in zip(names, parsers, strict=True)
        if (value := given.take(name, parse)) is not None
    ]
    return found[0] if found else None


def _refuse_ends(own: Mapping[str, str]) -> None:
    for name in _ENDING:
        if name in own:
            raise ConfigError(f"option {name}", own[name], "only a batch read has an end; leave it out")


def _check_times(given: Given) -> None:
    """Raises ConfigError where the end lies before the start; topics and partitions are checked with their logs."""
    starting, ending = _starting(given), _ending(given)
    if starting is None or not starting.by_time or not ending.by_time:
        return
    if isinstance(starting.value, int) and isinstance(ending.value, int):
        if ending.value < starting.value:
            _refuse_end(ending, str(ending.value), starting, starting.value)
    elif not isinstance(starting.value, int) and not isinstance(ending.value, int):
        for topic, times in ending.value.items():
            for partition, time in times.items():
                start = starting.value.get(topic, {}).get(partition)
                if start is not None and time < start:
                    _refuse_end(ending, f"{topic}-{partition}: {time}", starting, start)


def _refuse_end(ending: Bound, shown: str, starting: Bound, start: int) -> None:
    raise ConfigError(f"option {ending.option}", shown, f"must not lie before {starting.option} ({start})")


def _limits(given: Given) -> Limits:
    limits = Limits(
        max_offsets=given.take("maxOffsetsPerTrigger", parsing.positive),
        min_offsets=given.take("minOffsetsPerTrigger", parsing.positive),
        max_delay=given.take("maxTriggerDelay", parsing.duration, Limits.max_delay),
    )
    if (
        limits.min_offsets is not None
        and limits.max_offsets is not None
        and limits.min_offsets > limits.max_offsets
    ):
        hint = f"must not be greater than maxOffsetsPerTrigger ({limits.max_offsets})"
        raise ConfigError("option minOffsetsPerTrigger", given.text("minOffsetsPerTrigger"), hint)
    return limits


def _ordering(given: Given) -> Ordering:
    found: Ordering = given.take("ordering", _one_of("key", "none"), "key")
    return found


def _splitting(given: Given) -> Splitting:
    ordering = _ordering(given)
    for name in _SPLITTING:
        if ordering != "none" and given.text(name) is not None:
            hint = (
                "splitting a partition breaks the order of its keys; set ordering=none too, or leave it out"
            )
            raise ConfigError(f"option {name}", given.text(name), hint)
    min_partitions, max_records = (given.take(name, parsing.positive) for name in _SPLITTING)
    if min_partitions is None and max_records is None:
        return Splitting(min_records=given.take(_MIN_RECORDS_OPTION, parsing.positive, _MIN_RECORDS))
    if (least := given.text(_MIN_RECORDS_OPTION)) is not None:
        hint = f"tasks cannot be both shared and split: leave it out, or {' and '.join(_SPLITTING)}"
        raise ConfigError(f"option {_MIN_RECORDS_OPTION}", least, hint)
    return Splitting(min_partitions, max_records)
