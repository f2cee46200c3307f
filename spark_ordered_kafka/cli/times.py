"""Times and durations as Kafka's own tools take them. PURE."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from spark_ordered_kafka.errors import ConfigError

# Pydantic's timedelta takes more: P1M for 30 days, 12:00, units in any order and twice.
_DURATION = re.compile(
    r"P(?=[\dT])(?:(\d{1,18})D)?(?:T(?=\d)(?:(\d{1,18})H)?(?:(\d{1,18})M)?(?:(\d{1,18}(?:\.\d{1,3})?)S)?)?",
    re.ASCII,
)
_LONGEST = 10**15


def parse_datetime(option: str, value: str) -> int:
    """A time of ISO 8601 in milliseconds since 1970-01-01 UTC; one without an offset is of UTC, as in Kafka's tools.

    Raises ConfigError for one that is none, or lies before 1970.
    """
    try:
        millis = round(1000 * epoch_seconds(value))
    except ValueError:
        millis = -1
    if millis < 0:
        raise ConfigError(
            option, value, "a time since 1970 is needed, such as 2026-11-23T08:00:00 or 2026-11-23"
        )
    return millis


def epoch_seconds(value: str) -> float:
    """A time of ISO 8601 in seconds since 1970-01-01 UTC; one without an offset is of UTC. Raises ValueError for none."""
    found = datetime.fromisoformat(value)
    try:
        return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()
    except OverflowError as error:  # its offset leads out of the years 1 to 9999
        raise ValueError(f"not a time: {value!r}") from error


def parse_duration(option: str, value: str) -> int:
    """A duration of ISO 8601, days at most (``java.time.Duration``), in milliseconds; raises ConfigError for another."""
    found = _DURATION.fullmatch(value)
    days, hours, minutes, seconds = found.groups() if found else (None,) * 4
    millis = round(
        1000
        * (86_400 * int(days or 0) + 3600 * int(hours or 0) + 60 * int(minutes or 0) + float(seconds or 0))
    )
    if found is None or millis > _LONGEST:
        raise ConfigError(option, value, "a duration is needed, such as PT2H, P1D or P1DT12H30M")
    return millis
