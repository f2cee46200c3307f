"""The keys ``autoscale.*`` of the controller's configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from spark_ordered_kafka.controller.automation.configuration import dotted, explained, flat
from spark_ordered_kafka.controller.automation.rules import Mode, QuietHours
from spark_ordered_kafka.controller.autoscale.rules import PREFIX, Rules, check
from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.parsing import is_topic_name, together

TOPICS = f"{PREFIX}topics"
_INTERVAL = f"{PREFIX}interval.ms"
_ANY = "*"

_Millis = Annotated[int, Field(ge=0, le=7 * 24 * 3600 * 1000)]
_Rate = Annotated[int, Field(ge=0, le=2**53)]
_Part = Annotated[float, Field(gt=0.0, le=1.0)]
_Count = Annotated[int, Field(ge=1, le=10_000)]


class _Given(BaseModel):
    """Every key that the whole cluster and a topic have, without ``autoscale.``."""

    model_config = ConfigDict(extra="forbid", strict=True, alias_generator=dotted)

    mode: Mode = "off"
    target_bytes_per_second: _Rate = 10_000_000
    target_records_per_second: _Rate = 0
    grow_above: _Part = 0.8
    goal: _Part = 0.55
    grow_after_ms: _Millis = 120_000
    shrink_after_ms: _Millis = 1_800_000
    cooldown_ms: _Millis = 600_000
    min_partitions: _Count = 1
    max_partitions: _Count = 64
    changes_per_day: Annotated[int, Field(ge=0, le=10_000)] = 12
    quiet_hours: list[str] = []
    groups: list[Annotated[str, Field(min_length=1)]] = []
    catch_up_ms: Annotated[int, Field(ge=1000, le=7 * 24 * 3600 * 1000)] = 600_000


_RULES = frozenset(map(dotted, _Given.model_fields))
KEYS = frozenset({TOPICS, _INTERVAL, *(PREFIX + name for name in _RULES)})
"""All keys."""


@dataclass(frozen=True)
class AutoscaleSettings:
    """``interval`` (seconds) between two decisions; ``rules`` of topics without an entry in ``topics``, which has names, or
    beginnings of names followed by ``*``, in the order in which they are compared."""

    interval: float = 30.0
    rules: Rules = field(default_factory=Rules)
    topics: Sequence[tuple[str, Rules]] = ()

    def of(self, topic: str) -> Rules:
        """The rules for a topic: those of the first entry that matches."""
        return next((rules for pattern, rules in self.topics if _matches(pattern, topic)), self.rules)

    @property
    def enabled(self) -> bool:
        """Whether any topic may be observed."""
        return any(rules.mode != "off" for rules in (self.rules, *(rules for _, rules in self.topics)))


def autoscale_settings(entries: Mapping[str, Any]) -> AutoscaleSettings:
    """Settings from ``entries`` by full name, of :data:`KEYS`. Raises the ConfigErrors of all that are wrong."""
    given = {
        name.removeprefix(PREFIX): value
        for name, value in entries.items()
        if name.removeprefix(PREFIX) in _RULES
    }
    tables = entries.get(TOPICS, [])
    own = together(
        {
            "interval": partial(_interval, entries.get(_INTERVAL, 30_000)),
            "rules": partial(_rules, PREFIX, given),
        },
        partial(_check_tables, tables),
    )
    topics = together({str(i): partial(_topic, i, table, given) for i, table in enumerate(tables)})
    return AutoscaleSettings(own["interval"], own["rules"], tuple(topics.values()))


def _interval(value: Any) -> float:
    if type(value) is not int or not 100 <= value <= 3_600_000:
        raise ConfigError(_INTERVAL, value, "a number of milliseconds from 100 to 3600000 is needed")
    return value / 1000


def _check_tables(tables: Any) -> None:
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise ConfigError(
            TOPICS, tables, 'tables are needed: [[autoscale.topics]] with name = "orders" below it'
        )


def _topic(index: int, table: Mapping[str, Any], given: Mapping[str, Any]) -> tuple[str, Rules]:
    entries = dict(flat(table))
    name = entries.pop("name", None)
    where = f"{TOPICS}[{index}]."
    if not isinstance(name, str) or not (name == _ANY or is_topic_name(name.removesuffix(_ANY))):
        raise ConfigError(
            where + "name", name, "a topic's name is needed, or the beginning of one followed by *"
        )
    return name, _rules(where, {**given, **entries})


def _rules(prefix: str, given: Mapping[str, Any]) -> Rules:
    try:
        parsed = _Given.model_validate(dict(given))
    except ValidationError as error:
        raise explained(prefix, error, "a topic", _RULES) from error
    quiet = f"{prefix}quiet.hours"
    hours = together({text: partial(QuietHours.parse, quiet, text) for text in parsed.quiet_hours})
    rules = Rules(
        mode=parsed.mode,
        target_bytes=float(parsed.target_bytes_per_second) or None,
        target_records=float(parsed.target_records_per_second) or None,
        grow_above=parsed.grow_above,
        goal=parsed.goal,
        grow_after=parsed.grow_after_ms / 1000,
        shrink_after=parsed.shrink_after_ms / 1000,
        cooldown=parsed.cooldown_ms / 1000,
        minimum=parsed.min_partitions,
        maximum=parsed.max_partitions,
        changes_per_day=parsed.changes_per_day,
        quiet_hours=tuple(hours.values()),
        groups=tuple(dict.fromkeys(parsed.groups)),
        catch_up=parsed.catch_up_ms / 1000,
    )
    check(rules, prefix)
    return rules


def _matches(pattern: str, topic: str) -> bool:
    return topic.startswith(pattern[:-1]) if pattern.endswith(_ANY) else topic == pattern
