"""Settings of automatic partition counts, as values. PURE."""

from __future__ import annotations

from dataclasses import dataclass

from spark_ordered_kafka.controller.automation.rules import Mode, QuietHours, check_quiet_hours, is_quiet
from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.parsing import raise_all

PREFIX = "autoscale."


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
        return is_quiet(self.quiet_hours, now)


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
    try:
        check_quiet_hours(name + "quiet.hours", rules.quiet_hours)
    except ConfigError as error:
        errors.append(error)
    raise_all(errors)
