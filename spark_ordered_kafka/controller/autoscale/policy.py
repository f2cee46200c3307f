"""Decides on partition counts: what the load warrants, and which rule holds it back. PURE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from spark_ordered_kafka.client.schemas.autoscale import AutoscaleAction, AutoscaleRule
from spark_ordered_kafka.controller.automation.rules import DAY, cooldown_reason, in_last_day
from spark_ordered_kafka.controller.autoscale.load import (
    GroupLoad,
    Observation,
    Prediction,
    predicted,
    utilizations,
)
from spark_ordered_kafka.controller.autoscale.rules import Rules
from spark_ordered_kafka.controller.state.autoscale import ChangeEntry, ReadingEntry

# Rates take two samples, so one that fails leaves three times the usual time between two observations.
_MOST_SPANS = 4


@dataclass(frozen=True)
class State:
    """What is kept from one decision to the next. Times are seconds since the epoch.

    ``count``: the partition count that the timers are about; ``observed_at``: the last observation; ``above_since``: the load has warranted growth since then;
    ``below_since``: ``below_count`` partitions, fewer than there are, have been enough since then; ``behind_since``: by group.
    ``changes`` are those of the last day; ``readings`` by group.
    """

    count: int = 0
    observed_at: float = 0.0
    above_since: float | None = None
    below_since: float | None = None
    below_count: int = 0
    behind_since: Mapping[str, float] = field(default_factory=dict)
    changes: tuple[ChangeEntry, ...] = ()
    readings: Mapping[str, ReadingEntry] = field(default_factory=dict)

    def changed(self, now: float, source: int, target: int) -> State:
        """The state once a change is requested."""
        return replace(self, changes=(*self.changes, ChangeEntry(at=now, source=source, target=target)))


@dataclass(frozen=True)
class Decision:
    """``action`` and ``target``: what the load warrants, ``target`` the present count for ``none``; ``held_by``: the rule that
    keeps it from being done, None: none does. ``reason`` says why, with the figures. ``load_driven``: the write load asks
    for growth, so a hot key may matter."""

    action: AutoscaleAction
    target: int
    reason: str
    held_by: AutoscaleRule | None = None
    load_driven: bool = False

    @property
    def due(self) -> bool:
        """Whether the change should be requested now."""
        return self.action != "none" and self.held_by is None


def decide(rules: Rules, observation: Observation, state: State, now: float) -> tuple[Decision, State]:
    """What ``rules`` say to an observation at ``now``, in seconds since the epoch, and the state for the next one."""
    prediction = Prediction(utilizations(observation, rules), observation.initial, observation.hot)
    state = _timed(rules, observation, prediction, _pruned(state, observation, now), now)
    wanted = (
        _growth_by_load(rules, observation, prediction, state, now)
        or _growth_by_lag(rules, observation, state, now)
        or _shrink(rules, observation, prediction, state, now)
    )
    if wanted is None:
        peak = prediction.peak(observation.count)
        return Decision(
            "none", observation.count, f"the busiest partition takes {_percent(peak)} of the target"
        ), state
    if wanted.held_by is None:
        wanted = _held(rules, observation, state, wanted, now)
    return wanted, state


def _pruned(state: State, observation: Observation, now: float) -> State:
    """Without what is older than a day. With another count, and when nothing was known for long, timers begin anew."""
    changes = tuple(change for change in state.changes if change.at > now - DAY)
    readings = {group: one for group, one in state.readings.items() if one.at > now - DAY}
    if state.count != observation.count or now - state.observed_at > _MOST_SPANS * observation.seconds:
        return State(count=observation.count, observed_at=now, changes=changes, readings=readings)
    return replace(state, observed_at=now, changes=changes, readings=readings)


def _timed(rules: Rules, observation: Observation, prediction: Prediction, state: State, now: float) -> State:
    above = prediction.peak(observation.count) > rules.grow_above
    behind = {group: load for group, load in observation.groups.items() if _is_behind(load, rules)}
    read = {group: ReadingEntry(at=now, rate=max(load.read)) for group, load in behind.items()}
    state = replace(
        state,
        above_since=(now if state.above_since is None else state.above_since) if above else None,
        behind_since={group: state.behind_since.get(group, now) for group in behind},
        readings={**state.readings, **read},
    )
    enough = _enough(rules, observation, prediction, state)
    if above or behind or enough is None or enough >= observation.count:
        return replace(state, below_since=None, below_count=0)
    since = now if state.below_since is None else state.below_since
    return replace(state, below_since=since, below_count=max(enough, state.below_count))


def _is_behind(load: GroupLoad, rules: Rules) -> bool:
    """Whether the group needs more than ``catch_up`` seconds to read what some partition has, at its present rate.

    A group that reads nothing at all is stopped, which no partition helps against.
    """
    return any(
        read > 0 and lag > rules.catch_up * read for lag, read in zip(load.lag, load.read, strict=True)
    )


def _enough(rules: Rules, observation: Observation, prediction: Prediction, state: State) -> int | None:
    """The least count, of those allowed, that would do for the load and for groups that were behind in the last day."""
    first = max(observation.initial, rules.minimum)
    found = prediction.least_count(rules.goal, first, observation.count)
    for group in state.readings.keys() & observation.groups.keys():
        least = _count_for_reading(rules, observation, state.readings[group].rate, first, observation.count)
        found = None if found is None or least is None else max(found, least)
    return found


def _count_for_reading(
    rules: Rules, observation: Observation, rate: float, first: int, last: int
) -> int | None:
    """The least count by which no partition gets more than ``goal`` of ``rate``, so that the rest is left to catch up."""
    return Prediction([one / rate for one in observation.records], observation.initial).least_count(
        rules.goal, first, last
    )


def _growth_by_load(
    rules: Rules, observation: Observation, prediction: Prediction, state: State, now: float
) -> Decision | None:
    if state.above_since is None or now - state.above_since < rules.grow_after:
        return None
    parts = prediction.parts
    busiest = max(range(observation.count), key=parts.__getitem__)
    why = (
        f"partition {busiest} takes {_rates(observation, busiest)}, {_percent(parts[busiest])} of the target, and some partition has "
        f"been above {_percent(rules.grow_above)} for {_seconds(now - state.above_since)}"
    )
    if observation.hot is None or not _limited_by_key(rules, observation, prediction):
        return _growth(rules, observation, prediction, why, without_hot=False)
    share = f"{_percent(observation.hot.share)} of the newest records of partition {observation.hot.partition} have {observation.hot.shown}"
    why = f"{why}; {share}, {_percent(prediction.hot_part)} of the target, and no split divides a key"
    if max(prediction.splittable) <= rules.grow_above:
        return Decision("grow", observation.count, why, "unsplittable_key", load_driven=True)
    return _growth(rules, observation, prediction, why, without_hot=True)


def _limited_by_key(rules: Rules, observation: Observation, prediction: Prediction) -> bool:
    """Whether the hot key, and not the bounds, keeps the busiest partition above the goal."""
    last = max(rules.maximum, observation.count)
    return prediction.hot_part > rules.goal or (
        prediction.hot_part > rules.goal / 2
        and prediction.least_count(rules.goal, observation.count, last) is None
        and prediction.least_count(rules.goal, observation.count, last, without_hot=True) is not None
    )


def _growth(
    rules: Rules, observation: Observation, prediction: Prediction, why: str, *, without_hot: bool
) -> Decision:
    last = max(rules.maximum, observation.count)
    target = prediction.least_count(rules.goal, observation.count, last, without_hot=without_hot)
    if target is None:
        why = f"{why}; the goal would take more than max.partitions = {rules.maximum}"
        return Decision("grow", last, why, "bounds" if last == observation.count else None, load_driven=True)
    peak = prediction.peak(target, without_hot=without_hot)
    why = f"{why}; with {_partitions(target)} the busiest would take {_percent(peak)}"
    return Decision("grow", target, why, load_driven=True)


def _growth_by_lag(rules: Rules, observation: Observation, state: State, now: float) -> Decision | None:
    """Growth for the group that is furthest behind.

    What is written already stays in its partition; more partitions take what comes, and leave the group time for the rest.
    """
    last = max(rules.maximum, observation.count)
    found: list[Decision] = []
    for group, since in sorted(state.behind_since.items()):
        if now - since < rules.grow_after:
            continue
        load = observation.groups[group]
        rate = max(load.read)
        why = (
            f"group {group} is {round(sum(load.lag))} records behind and reads at most {rate:.0f} records/s of a partition, "
            f"into which up to {max(observation.records):.0f} records/s are written"
        )
        target = _count_for_reading(rules, observation, rate, observation.count, last)
        if target == observation.count:
            continue  # it catches up as it is, or is slowed down by something else than new records
        if load.members and load.members < observation.count:
            why = (
                f"{why}; it has {load.members} members for {observation.count} partitions: add members first"
            )
            found.append(Decision("grow", observation.count, why, "members"))
        elif target is None and last == observation.count:
            found.append(Decision("grow", last, f"{why}; max.partitions = {rules.maximum}", "bounds"))
        else:
            count = last if target is None else target
            most = max(predicted(observation.records, observation.initial, count))
            why = f"{why}; with {count} partitions {most:.0f} records/s; it takes more members or cores to use them"
            found.append(Decision("grow", count, why))
    return max(found, key=lambda one: one.target, default=None)


def _shrink(
    rules: Rules, observation: Observation, prediction: Prediction, state: State, now: float
) -> Decision | None:
    if state.below_since is None or now - state.below_since < rules.shrink_after:
        return None
    why = (
        f"the busiest partition takes {_percent(max(prediction.parts))} of the target; with {_partitions(state.below_count)} it "
        f"would take {_percent(prediction.peak(state.below_count))}, and not more than the goal of {_percent(rules.goal)} for the "
        f"last {_seconds(now - state.below_since)}"
    )
    return Decision("shrink", state.below_count, why)


def _held(rules: Rules, observation: Observation, state: State, wanted: Decision, now: float) -> Decision:
    """``wanted``, or held back by the first rule that forbids it now."""

    def held(rule: AutoscaleRule, why: str) -> Decision:
        return replace(wanted, held_by=rule, reason=f"{wanted.reason}; not now: {why}")

    if observation.under_way is not None:
        return held("under_way", observation.under_way)
    latest = max([change.at for change in state.changes] + [observation.last_change or 0.0])
    cooling = cooldown_reason(latest, rules.cooldown, now)
    if cooling is not None:
        return held("cooldown", cooling)
    if rules.is_quiet(now):
        return held("quiet_hours", "these are quiet hours")
    if in_last_day([change.at for change in state.changes], now) >= rules.changes_per_day:
        return held(
            "budget", f"changes.per.day = {rules.changes_per_day} were requested in the last 24 hours"
        )
    return wanted


def _percent(part: float) -> str:
    return f"{100 * part:.0f} %"


def _partitions(count: int) -> str:
    return f"{count} partition{'' if count == 1 else 's'}"


def _seconds(seconds: float) -> str:
    return f"{seconds:.0f} s"


def _rates(observation: Observation, partition: int) -> str:
    return f"{observation.bytes[partition] / 1e6:.3g} MB/s and {observation.records[partition]:.0f} records/s"
