"""Times and durations of ``groups reset-offsets``."""

from __future__ import annotations

import pytest

from spark_ordered_kafka.cli.times import parse_datetime, parse_duration
from spark_ordered_kafka.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ("1970-01-02", 86_400_000),
        ("1970-01-01T00:00:01.250", 1250),
        ("1970-01-01T01:00:01+01:00", 1000),
        ("1970-01-01T00:00:01Z", 1000),
    ],
)
def test_times_are_of_utc_unless_they_say_otherwise(text: str, millis: int) -> None:
    assert parse_datetime("--to-datetime", text) == millis


@pytest.mark.parametrize("text", ["", "yesterday", "1969-12-31", "2026-13-01", "99999-01-01"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--to-datetime .*a time since 1970 is needed"):
        parse_datetime("--to-datetime", text)


@pytest.mark.parametrize(
    ("text", "millis"),
    [("PT2H", 7_200_000), ("P1DT30M", 88_200_000), ("PT1.5S", 1500), ("P2D", 172_800_000), ("PT0S", 0)],
)
def test_durations_are_those_of_java(text: str, millis: int) -> None:
    assert parse_duration("--by-duration", text) == millis


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "2h", "PT1X", "P1Y", "-PT1H", "P99999999999D"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--by-duration .*PT2H"):
        parse_duration("--by-duration", text)
