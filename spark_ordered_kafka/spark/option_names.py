"""Every option of source and sink, by its documented name: those of Spark's own ``kafka`` format, and our own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from spark_ordered_kafka import credentials

Side = Literal["source", "sink"]


@dataclass(frozen=True)
class Option:
    """``default`` and ``meaning`` are for the documentation, in Markdown; ``of_spark``: Spark's ``kafka`` format has it, too."""

    name: str
    sides: tuple[Side, ...]
    default: str
    meaning: str
    of_spark: bool = True


_SOURCE: tuple[Side, ...] = ("source",)
_SINK: tuple[Side, ...] = ("sink",)
_BOTH: tuple[Side, ...] = ("source", "sink")
_AS_SPARK = "as in Spark"
_UNORDERED = "with `ordering=none` only, since it splits a partition: "

OPTIONS: tuple[Option, ...] = (
    Option(
        credentials.URL, _BOTH, "required", "the controllers' addresses, separated by commas", of_spark=False
    ),
    *(
        Option(name, _BOTH, "none", meaning, of_spark=False)
        for name, meaning in zip(
            credentials.NAMES,
            (
                "user at the controllers",
                "the user's password",
                "bearer token, in place of user and password",
                "PEM file of the authorities that signed the controllers' certificates",
                "PEM file of the client's certificate",
                "PEM file of its key",
                "password of that file, or of `controller.ssl.key.pem`",
                "those authorities themselves in PEM format, in place of a file on every node",
                "the client's certificate itself",
                "its key itself",
            ),
            strict=True,
        )
    ),
    Option("subscribe", _SOURCE, "one of the three", _AS_SPARK),
    Option(
        "subscribePattern",
        _SOURCE,
        "",
        "a pattern of Python's `re` for whole names of topics under management",
    ),
    Option(
        "assign", _SOURCE, "", "refused where the partitions cannot be ordered without others, which it names"
    ),
    Option("startingTimestamp", _SOURCE, "none", _AS_SPARK),
    Option("startingOffsetsByTimestamp", _SOURCE, "none", _AS_SPARK),
    Option("startingOffsets", _SOURCE, "`latest` in a stream, `earliest` in a batch", _AS_SPARK),
    Option("startingOffsetsByTimestampStrategy", _SOURCE, "`error`", _AS_SPARK),
    Option("endingTimestamp", _SOURCE, "none", _AS_SPARK),
    Option("endingOffsetsByTimestamp", _SOURCE, "none", _AS_SPARK),
    Option("endingOffsets", _SOURCE, "`latest`", _AS_SPARK),
    Option("failOnDataLoss", _SOURCE, "`true`", _AS_SPARK),
    Option("maxOffsetsPerTrigger", _SOURCE, "none", _AS_SPARK),
    Option("minOffsetsPerTrigger", _SOURCE, "none", _AS_SPARK),
    Option("maxTriggerDelay", _SOURCE, "`15m`", _AS_SPARK),
    Option("minPartitions", _SOURCE, "none", f"{_UNORDERED}at least so many tasks"),
    Option("maxRecordsPerPartition", _SOURCE, "none", f"{_UNORDERED}at most so many offsets in a task"),
    Option(
        "minRecordsPerPartition",
        _SOURCE,
        "`5000`",
        "of a stream: offsets that a task has at least, for which it reads several partitions; `1`: a task for each",
        of_spark=False,
    ),
    Option(
        "includeHeaders", _BOTH, "`false`", "as in Spark; a column `headers` is written with or without it"
    ),
    Option(
        "kafkaConsumer.pollTimeoutMs",
        _SOURCE,
        "`60000`",
        "as in Spark: milliseconds that a task waits for a broker that sends nothing (Spark: 120,000)",
    ),
    Option(
        "ordering",
        _SOURCE,
        "`key`",
        "`none`: a task for each segment, in no order",
        of_spark=False,
    ),
    Option(
        "misroutedRecords",
        _SOURCE,
        "`warn`",
        "what to do about records that lie where their keys do not belong: `warn`, `fail` or `ignore`",
        of_spark=False,
    ),
    Option("topic", _SINK, "the column `topic`", _AS_SPARK),
    Option(
        "writer",
        _SINK,
        "made up",
        "a fixed name, which makes writes inside `foreachBatch` exactly-once, too; not through Spark Connect",
        of_spark=False,
    ),
    Option(
        "replayBufferBytes",
        _SINK,
        "`67108864`",
        "rows of a task that are kept in memory for a replay; more go to a file in the executor's local directories (`spark.local.dir`)",
        of_spark=False,
    ),
    Option(
        "controllerTimeout",
        _SINK,
        "`60s`",
        "how long a task waits for a controller before it fails",
        of_spark=False,
    ),
    Option(
        "acceptReplayMismatch",
        _SINK,
        "none",
        "`WRITER:BATCH`, for one run: that batch may be replayed with other rows",
        of_spark=False,
    ),
    Option(
        "keepTimestamps",
        _SINK,
        "`false`",
        "records get the timestamps of the column `timestamp`, at a lower rate; otherwise, and for null and times up to 1970-01-01 00:00 UTC, that of sending. Brokers refuse those beyond the topic's `message.timestamp.after.max.ms` (an hour ahead) and `message.timestamp.before.max.ms`",
        of_spark=False,
    ),
)

REFUSED: Mapping[str, str] = {
    "fetchOffset.numRetries": "ends are asked for again for a minute, with growing pauses; leave it out",
    "fetchOffset.retryIntervalMs": "ends are asked for again for a minute, with growing pauses; leave it out",
    "groupIdPrefix": "reading takes part in no consumer group; leave it out, or set kafka.group.id to have what is"
    " processed committed there",
}
"""Options of Spark's ``kafka`` format that are refused, with what to write instead."""


def names(side: Side | None = None) -> tuple[str, ...]:
    """The options of a side, or of either."""
    return tuple(option.name for option in OPTIONS if side is None or side in option.sides)
