"""Options of the source and the sink: parsed once into frozen values, refused early, secrets masked.

Names are those of Spark's own ``kafka`` format where it has them. Spark hands options over case-insensitively, so
names are compared in lower case and printed as documented.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from spark_ordered_kafka import credentials, parsing
from spark_ordered_kafka.config import Connection, Misrouted, connection
from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.parsing import HIDDEN, KAFKA_PREFIX, LATEST, Given, Positions, shown

Ordering = Literal["key", "none"]
NoMatch = Literal["error", "latest"]

_COMMON = (credentials.URL, *credentials.NAMES)
_SUBSCRIPTION = ("subscribe", "subscribePattern", "assign")
# In Spark's order of preference.
_STARTING = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
_ENDING = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
_SPLITTING = ("minPartitions", "maxRecordsPerPartition")
_MIN_RECORDS_OPTION = "minRecordsPerPartition"
# A task of Python costs as much as reading some ten thousand records (D-046).
_MIN_RECORDS = 5_000
_SOURCE = (
    *_COMMON,
    *_SUBSCRIPTION,
    *_STARTING,
    "startingOffsetsByTimestampStrategy",
    *_ENDING,
    "failOnDataLoss",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    *_SPLITTING,
    _MIN_RECORDS_OPTION,
    "includeHeaders",
    "ordering",
    "misroutedRecords",
)
_SINK = (
    *_COMMON,
    "topic",
    "writer",
    "includeHeaders",
    "replayBufferBytes",
    "controllerTimeout",
    "acceptReplayMismatch",
)
_EITHER_SIDE = tuple(dict.fromkeys((*_SOURCE, *_SINK)))
_DOCUMENTED = {name.lower(): name for name in _EITHER_SIDE}
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
    "statistics.interval.ms": "statistics are not delivered; leave it out",
}


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
    record is as late as a start timestamp.
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


@dataclass(frozen=True)
class SinkOptions:
    """Options of ``df.write`` and ``df.writeStream``.

    ``topic`` None: every row names its topic. ``replay_buffer_bytes``: rows of a task kept in memory for a replay
    before they are spilled to a local file. ``controller_timeout``: seconds that a task waits for the controller.
    ``accepted_mismatch``: the writer and the batch whose replay may have other rows.
    """

    connection: Connection
    topic: str | None = None
    writer: str | None = None
    replay_buffer_bytes: int = 64 * 1024 * 1024
    controller_timeout: float = 60.0
    accepted_mismatch: tuple[str, int] | None = None


def source_options(options: Mapping[str, str], defaults: Mapping[str, str] | None = None) -> SourceOptions:
    """Parse and check the options of a read; ``defaults`` may hold options of the sink, too.

    Raises ConfigError for the first wrong one.
    """
    own = _documented(options)
    given = _given(_without_rivals(_of_side(defaults, _SOURCE), own) | own, _SOURCE, "source")
    ordering: Ordering = given.take("ordering", _one_of("key", "none"), "key")
    starting, ending = _starting(given), _ending(given)
    if starting is not None and starting.by_time and ending.by_time:
        _check_times(starting, ending)
    return SourceOptions(
        connection=_connection(given),
        subscription=_subscription(given),
        starting=starting,
        ending=ending,
        no_match=given.take("startingOffsetsByTimestampStrategy", _no_match, "error"),
        fail_on_data_loss=given.take("failOnDataLoss", parsing.boolean, True),
        limits=_limits(given),
        splitting=_splitting(given, ordering),
        include_headers=given.take("includeHeaders", parsing.boolean, False),
        ordering=ordering,
        misrouted=given.take("misroutedRecords", _one_of("ignore", "warn", "fail"), "warn"),
    )


def stream_options(options: Mapping[str, str], defaults: Mapping[str, str] | None = None) -> SourceOptions:
    """:func:`source_options` of a stream, which has no end. An end among the defaults is for batches."""
    own = _documented(options)
    for name in _ENDING:
        if name in own:
            raise ConfigError(f"option {name}", own[name], "only a batch read has an end; leave it out")
    return source_options(options, defaults)


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

    Raises ConfigError for the first wrong one.
    """
    given = _given(_of_side(defaults, _SINK) | _documented(options), _SINK, "sink")
    given.take("includeHeaders", parsing.boolean, False)
    return SinkOptions(
        connection=_connection(given),
        topic=given.take("topic", parsing.topic_name),
        writer=given.take("writer", parsing.writer),
        replay_buffer_bytes=given.take(
            "replayBufferBytes", parsing.positive, SinkOptions.replay_buffer_bytes
        ),
        controller_timeout=given.take("controllerTimeout", parsing.duration, SinkOptions.controller_timeout),
        accepted_mismatch=given.take("acceptReplayMismatch", parsing.writer_and_batch),
    )


def check_defaults(entries: Mapping[str, str]) -> None:
    """Raises ConfigError for an entry that is an option of neither source nor sink."""
    _given(_documented(entries), _EITHER_SIDE, "format")


def _documented(options: Mapping[str, str] | None) -> dict[str, str]:
    """The options by documented name, any other name in lower case; without those set to None."""
    set_options = {name.lower(): value for name, value in (options or {}).items() if value is not None}
    return {_DOCUMENTED.get(name, name): value for name, value in set_options.items()}


def _of_side(defaults: Mapping[str, str] | None, known: tuple[str, ...]) -> dict[str, str]:
    return {
        name: value
        for name, value in _documented(defaults).items()
        if name in known or name.startswith(KAFKA_PREFIX)
    }


def _without_rivals(defaults: dict[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """The defaults, without those that an option of the read sets."""
    groups = [group for group in (_SUBSCRIPTION, _STARTING, _ENDING) if any(name in own for name in group)]
    rivals = {name for group in groups for name in group}
    return {name: value for name, value in defaults.items() if name not in rivals}


def _given(options: Mapping[str, str], known: tuple[str, ...], side: str) -> Given:
    """The options by documented name; raises ConfigError for one that ``side`` does not take."""
    for name, value in options.items():
        if name.startswith(KAFKA_PREFIX):
            if (hint := _REFUSED_KAFKA.get(name.removeprefix(KAFKA_PREFIX))) is not None:
                raise ConfigError(f"option {name}", value, hint)
        elif name not in known and name not in _SET_BY_SPARK:
            hint = f"the {side} takes {', '.join(known)} and kafka.*"
            # The JVM's sink has a column partition, so many users try it.
            if known is not _EITHER_SIDE and name in (*_EITHER_SIDE, "partition"):
                hint = f"it is not an option of the {side}; {hint}"
            # Also a misspelt controller.password.
            hidden = name.startswith(credentials.PREFIX)
            raise ConfigError(f"unknown option {name}", HIDDEN if hidden else shown(name, value, known), hint)
    return Given(options, "option ")


def _connection(given: Given) -> Connection:
    kafka = {
        name.removeprefix(KAFKA_PREFIX): value
        for name, value in given.options.items()
        if name.startswith(KAFKA_PREFIX)
    }
    return connection(given, f"{KAFKA_PREFIX}bootstrap.servers", kafka)


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


def _check_times(starting: Bound, ending: Bound) -> None:
    """Raises ConfigError where the end lies before the start; topics and partitions are checked with their logs."""
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


def _splitting(given: Given, ordering: Ordering) -> Splitting:
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
