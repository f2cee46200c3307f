"""Settings of automatic partition counts, as values. PURE."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.parsing import raise_all

Mode = Literal["off", "observe", "act"]

DAY = 24 * 3600.0
PREFIX = "autoscale."
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


@dataclass(frozen=True)
class Rules:
    """Settings for one topic. Rates are per second and partition, times in seconds.

    ``target_bytes`` and ``target_records``: what a partition should take at most; None: not looked at. Other settings are
    explained in docs/autoscale.md, under the names of their keys.
    """

    mode: Mode = "off"
    target_bytes: float | None = 10_000_000.0
    target_records: float | None = None
    grow_above: float = 0.8
    goal: float = 0.55
    grow_after: float = 120.0
    shrink_after: float = 1800.0
    cooldown: float = 600.0
    minimum: int = 1
    maximum: int = 64
    changes_per_day: int = 12
    quiet_hours: tuple[QuietHours, ...] = ()
    groups: tuple[str, ...] = ()
    catch_up: float = 600.0

    def is_quiet(self, now: float) -> bool:
        """Whether ``now`` (seconds since the epoch) is in quiet hours."""
        minute = int(now // 60) % (24 * 60)
        day = (int(now // DAY) + _EPOCH_DAY) % 7
        return any(_covers(hours, day, minute) for hours in self.quiet_hours)


def check(rules: Rules, name: str) -> None:
    """Raises the ConfigErrors of settings that contradict each other; ``name`` makes the full name of a key."""
    errors = []
    if rules.minimum > rules.maximum:
        hint = f"it must be at most max.partitions, which is {rules.maximum}"
        errors.append(ConfigError(name + "min.partitions", rules.minimum, hint))
    if rules.goal >= rules.grow_above:
        hint = f"it must be below grow.above, which is {rules.grow_above:g}: else a topic would grow and shrink in turn"
        errors.append(ConfigError(name + "goal", rules.goal, hint))
    if rules.mode == "act" and rules.changes_per_day == 0:
        hint = 'mode = "act" needs at least 1; to change nothing set mode = "observe"'
        errors.append(ConfigError(name + "changes.per.day", 0, hint))
    if rules.mode != "off" and rules.target_bytes is None and rules.target_records is None:
        hint = "set it, or target.records.per.second, above 0"
        errors.append(ConfigError(name + "target.bytes.per.second", 0, hint))
    quiet = {minute for hours in rules.quiet_hours for minute in hours.minutes()}
    if len(quiet) == _WEEK:
        errors.append(ConfigError(name + "quiet.hours", "the whole week", "they must end at some time"))
    raise_all(errors)


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
