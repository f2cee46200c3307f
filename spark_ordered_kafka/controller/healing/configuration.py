"""The keys ``healing.*`` of the controller's configuration."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from spark_ordered_kafka.controller.automation.configuration import dotted, explained
from spark_ordered_kafka.controller.automation.rules import Mode, QuietHours
from spark_ordered_kafka.controller.healing.rules import PREFIX, MoreGoals, Rules, check
from spark_ordered_kafka.parsing import together

_Millis = Annotated[int, Field(ge=0, le=7 * 24 * 3600 * 1000)]
_Part = Annotated[float, Field(gt=0.0, le=1.0)]


class _Given(BaseModel):
    """Every key, without ``healing.``."""

    model_config = ConfigDict(extra="forbid", strict=True, alias_generator=dotted)

    mode: Mode = "off"
    interval_ms: Annotated[int, Field(ge=100, le=3_600_000)] = 30_000
    broker_away_after_ms: _Millis = 1_800_000
    log_dir_offline_after_ms: _Millis = 600_000
    uneven_after_ms: _Millis = 1_800_000
    max_brokers: Annotated[int, Field(ge=1, le=1000)] = 1
    disk_max_difference: _Part = 0.2
    disk_max_share: _Part = 0.85
    leaders_max_difference: Annotated[float, Field(gt=0.0, le=1000.0)] = 0.5
    drain_goals: list[MoreGoals] = ["racks"]
    throttle_bytes_per_second: Annotated[int, Field(ge=0, le=2**53)] = 50_000_000
    cooldown_ms: _Millis = 3_600_000
    requests_per_day: Annotated[int, Field(ge=0, le=10_000)] = 6
    quiet_hours: list[str] = []


_NAMES = frozenset(map(dotted, _Given.model_fields))
KEYS = frozenset(PREFIX + name for name in _NAMES)
"""All keys."""


def healing_rules(entries: Mapping[str, Any]) -> Rules:
    """Settings from ``entries`` by full name, of :data:`KEYS`. Raises the ConfigErrors of all that are wrong."""
    given = {name.removeprefix(PREFIX): value for name, value in entries.items() if name in KEYS}
    try:
        parsed = _Given.model_validate(given)
    except ValidationError as error:
        raise explained(PREFIX, error, "healing", _NAMES) from error
    parse = partial(QuietHours.parse, f"{PREFIX}quiet.hours")
    hours = together({text: partial(parse, text) for text in parsed.quiet_hours})
    rules = Rules(
        mode=parsed.mode,
        interval=parsed.interval_ms / 1000,
        broker_away_after=parsed.broker_away_after_ms / 1000,
        log_dir_offline_after=parsed.log_dir_offline_after_ms / 1000,
        uneven_after=parsed.uneven_after_ms / 1000,
        max_brokers=parsed.max_brokers,
        disk_difference=parsed.disk_max_difference,
        disk_share=parsed.disk_max_share,
        leader_difference=parsed.leaders_max_difference,
        drain_goals=tuple(dict.fromkeys(parsed.drain_goals)),
        throttle=parsed.throttle_bytes_per_second or None,
        cooldown=parsed.cooldown_ms / 1000,
        requests_per_day=parsed.requests_per_day,
        quiet_hours=tuple(hours.values()),
    )
    check(rules)
    return rules
