"""Rules by which a leader acts on its own: modes, quiet hours, cool-down and budget. PURE."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from spark_ordered_kafka.errors import ConfigError

Mode = Literal["off", "observe", "act"]

DAY = 24 * 3600.0
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_WEEK = 7 * 24 * 60
_EPOCH_DAY = 3  # 1970-01-01 was a Thursday
_QUIET = re.compile(
    rf"(?:(?P<first>{'|'.join(_DAYS)})(?:-(?P<last>{'|'.join(_DAYS)}))? )?"
    r"(?P<begin>[0-2][0-9]:[0-5][0-9])-(?P<end>[0-2][0-9]:[0-5][0-9])"
)
_QUIET_HINT = "times of day in UTC are needed, such as 08:00-18:00, Mon-Fri 08:00-18:00 or Sat 22:00-06:00"


@dataclass(frozen=True)
class QuietHours:
    """Hours of some days of the week in UTC, in which nothing is changed.

    ``days``: 0 is Monday. ``begin`` and ``end`` are minutes since midnight; with ``end`` not above ``begin`` they end on the
    next day.
    """

    days: frozenset[int]
    begin: int
    end: int

    @staticmethod
    def parse(name: str, text: str) -> QuietHours:
        """Hours as in ``Mon-Fri 08:00-18:00``; raises ConfigError with ``name``."""
        found = _QUIET.fullmatch(text)
        if found is None:
            raise ConfigError(name, text, _QUIET_HINT)
        begin, end = (_minutes(name, text, found[part]) for part in ("begin", "end"))
        if begin == end:
            raise ConfigError(name, text, "the begin equals the end; for a whole day set 00:00-24:00")
        if begin == 24 * 60:
            raise ConfigError(name, text, "a day begins at 00:00")
        if found["first"] is None:
            return QuietHours(frozenset(range(7)), begin, end)
        first = _DAYS.index(found["first"])
        last = first if found["last"] is None else _DAYS.index(found["last"])
        return QuietHours(frozenset((first + day) % 7 for day in range((last - first) % 7 + 1)), begin, end)

    def minutes(self) -> Iterable[int]:
        """The minutes of a week that are quiet; 0 is the first one of Monday."""
        length = (self.end - self.begin) % (24 * 60) or 24 * 60
        for day in self.days:
            first = day * 24 * 60 + self.begin
            yield from (minute % _WEEK for minute in range(first, first + length))


def is_quiet(quiet_hours: Iterable[QuietHours], now: float) -> bool:
    """Whether ``now`` (seconds since the epoch) is in quiet hours."""
    minute = int(now // 60) % (24 * 60)
    day = (int(now // DAY) + _EPOCH_DAY) % 7
    return any(_covers(hours, day, minute) for hours in quiet_hours)


def check_quiet_hours(name: str, quiet_hours: Iterable[QuietHours]) -> None:
    """Raises ConfigError with ``name`` when they never end."""
    if len({minute for hours in quiet_hours for minute in hours.minutes()}) == _WEEK:
        raise ConfigError(name, "the whole week", "they must end at some time")


def cooldown_reason(latest: float | None, cooldown: float, now: float) -> str | None:
    """Why ``cooldown`` (seconds) after ``latest`` has not passed yet; None: it has."""
    if latest is None or now - latest >= cooldown:
        return None
    return f"the last change was {now - latest:.0f} s ago, {latest + cooldown - now:.0f} s are left"


def in_last_day(times: Sequence[float], now: float) -> int:
    """How many of ``times`` are in the last 24 hours."""
    return sum(at > now - DAY for at in times)


def _minutes(name: str, text: str, time: str) -> int:
    hours, minutes = map(int, time.split(":"))
    if 60 * hours + minutes > 24 * 60:
        raise ConfigError(name, text, _QUIET_HINT)
    return 60 * hours + minutes


def _covers(hours: QuietHours, day: int, minute: int) -> bool:
    if hours.begin < hours.end:
        return day in hours.days and hours.begin <= minute < hours.end
    yesterday = (day - 1) % 7
    return (day in hours.days and minute >= hours.begin) or (yesterday in hours.days and minute < hours.end)
