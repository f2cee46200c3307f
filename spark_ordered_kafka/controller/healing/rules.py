"""Settings of self-healing, as values. PURE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from spark_ordered_kafka.controller.automation.rules import Mode, QuietHours, check_quiet_hours
from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.parsing import raise_all

PREFIX = "healing."
MoreGoals = Literal["racks", "balance"]


@dataclass(frozen=True)
class Rules:
    """Times in seconds, differences and shares as parts of 1. docs/healing.md explains each under the name of its key.

    ``throttle``: bytes per second that a broker may send and receive for it, None: no limit. ``drain_goals``: what the plan
    for a broker that stays away is to reach, too.
    """

    mode: Mode = "off"
    interval: float = 30.0
    broker_away_after: float = 1800.0
    log_dir_offline_after: float = 600.0
    uneven_after: float = 1800.0
    max_brokers: int = 1
    disk_difference: float = 0.2
    disk_share: float = 0.85
    leader_difference: float = 0.5
    drain_goals: tuple[MoreGoals, ...] = ("racks",)
    throttle: int | None = 50_000_000
    cooldown: float = 3600.0
    requests_per_day: int = 6
    quiet_hours: tuple[QuietHours, ...] = ()


def check(rules: Rules) -> None:
    """Raises the ConfigErrors of settings that contradict each other."""
    errors = []
    if rules.mode == "act" and rules.requests_per_day == 0:
        hint = 'mode = "act" needs at least 1; to change nothing set mode = "observe"'
        errors.append(ConfigError(f"{PREFIX}requests.per.day", 0, hint))
    for name, after in (
        ("broker.away.after.ms", rules.broker_away_after),
        ("log.dir.offline.after.ms", rules.log_dir_offline_after),
        ("uneven.after.ms", rules.uneven_after),
    ):
        if after < rules.interval:
            hint = f"it must be at least {PREFIX}interval.ms, which is {1000 * rules.interval:.0f}"
            errors.append(ConfigError(PREFIX + name, round(1000 * after), hint))
    try:
        check_quiet_hours(f"{PREFIX}quiet.hours", rules.quiet_hours)
    except ConfigError as error:
        errors.append(error)
    raise_all(errors)
