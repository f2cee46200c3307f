"""The policy of automatic partition counts, beside a model that has every key's load and hash."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from spark_ordered_kafka.controller.automation.rules import DAY, QuietHours
from spark_ordered_kafka.controller.autoscale.load import (
    GroupLoad,
    HotKey,
    Observation,
    Prediction,
    predicted,
)
from spark_ordered_kafka.controller.autoscale.policy import Decision, State, decide
from spark_ordered_kafka.controller.autoscale.rules import Rules
from spark_ordered_kafka.ordering.linear import bucket

INTERVAL = 600.0
TARGET = 1000.0
MONDAY = 4 * DAY  # 1970-01-05
RULES = Rules(
    mode="act",
    target_bytes=TARGET,
    grow_after=2 * INTERVAL,
    shrink_after=10 * INTERVAL,
    cooldown=3 * INTERVAL,
    maximum=40,
    changes_per_day=1000,
)

counts = st.tuples(st.integers(1, 4), st.integers(0, 12)).map(lambda two: (two[0], sum(two)))
hashes = st.integers(0, 2**31 - 1)


@dataclass
class Topic:
    """A topic whose load is that of its keys: (hash, bytes per second) each."""

    initial: int
    count: int
    keys: Sequence[tuple[int, float]]
    rules: Rules = RULES
    state: State = field(default_factory=State)
    at: float = MONDAY
    changes: list[tuple[float, int, int]] = field(default_factory=list)

    def rates(self, count: int | None = None, factor: float = 1.0) -> list[float]:
        count = self.count if count is None else count
        rates = [0.0] * count
        for hash_, rate in self.keys:
            rates[bucket(hash_, self.initial, count)] += rate * factor
        return rates

    def step(self, factor: float = 1.0) -> Decision:
        rates = self.rates(factor=factor)
        seen = Observation(self.initial, self.count, rates, [0.0] * self.count)
        decision, self.state = decide(self.rules, seen, self.state, self.at)
        if decision.due:
            self.state = self.state.changed(self.at, self.count, decision.target)
            self.changes.append((self.at, self.count, decision.target))
            self.count = decision.target
        self.at += INTERVAL
        return decision

    def run(self, steps: int, factor: float = 1.0) -> None:
        for _ in range(steps):
            self.step(factor)


@st.composite
def topics(draw: st.DrawFn, largest: float = 1200.0) -> Topic:
    initial, count = draw(counts)
    keys = draw(st.lists(st.tuples(hashes, st.floats(0.0, largest)), max_size=25))
    return Topic(initial, count, keys)


def spread(initial: int, count: int, total: float) -> Topic:
    """A load of many keys that are spread evenly."""
    return Topic(initial, count, [(hash_, total / 256) for hash_ in range(256)])


@given(counts, st.lists(st.floats(0, 1e6), min_size=16, max_size=16), st.integers(1, 60))
def test_a_prediction_keeps_the_sum_and_merges_what_was_split(
    sizes: tuple[int, int], rates: list[float], target: int
) -> None:
    initial, count = sizes
    target = max(initial, target)
    there = predicted(rates[:count], initial, target)
    assert len(there) == target
    assert abs(sum(there) - sum(rates[:count])) <= 1e-6 * max(1.0, sum(rates))
    if target > count:
        back = predicted(there, initial, count)
        assert all(abs(a - b) <= 1e-6 * max(1.0, b) for a, b in zip(back, rates, strict=False))


@given(topics(), st.data())
def test_a_merge_is_predicted_as_it_turns_out(topic: Topic, data: st.DataObject) -> None:
    less = data.draw(st.integers(topic.initial, topic.count))
    found = predicted(topic.rates(), topic.initial, less)
    assert all(abs(a - b) < 1e-6 for a, b in zip(found, topic.rates(less), strict=True))


@settings(max_examples=25)
@given(topics())
def test_a_constant_load_makes_no_topic_flap(topic: Topic) -> None:
    topic.run(150)
    kinds = ["grow" if target > source else "shrink" for _, source, target in topic.changes]
    # It grows, and may then find that fewer do; it never grows again.
    assert kinds == sorted(kinds)
    assert kinds.count("shrink") <= 1 or "grow" not in kinds
    at_rest = topic.count
    topic.run(150)
    assert topic.count == at_rest


@settings(max_examples=25)
@given(
    topics(),
    st.lists(st.floats(0.0, 3.0), min_size=96, max_size=96),
    st.integers(1, 4),
    st.integers(1, 8),
    st.integers(1, 20),
)
def test_bounds_budget_cooldown_and_quiet_hours_are_kept(
    topic: Topic, factors: list[float], budget: int, least: int, more: int
) -> None:
    quiet = QuietHours.parse("quiet", "Mon-Tue 22:00-02:30")
    topic.rules = replace(
        RULES,
        # Longer than a load has to last, which would keep changes apart without it.
        cooldown=12 * INTERVAL,
        changes_per_day=budget,
        minimum=least,
        maximum=least + more,
        quiet_hours=(quiet,),
    )
    # Loads that last for an hour each, over four days.
    for factor in factors:
        topic.run(6, factor)
    times = [at for at, _, _ in topic.changes]
    for at, source, target in topic.changes:
        assert target <= max(least + more, source)
        assert target >= min(max(least, topic.initial), source)
        assert sum(at - DAY < other <= at for other in times) <= budget
        assert not topic.rules.is_quiet(at)
    assert all(after - before >= topic.rules.cooldown for before, after in pairwise(times)), "the cool-down"


@given(st.integers(0, 7 * 24 * 60 - 1))
def test_quiet_hours_are_those_of_the_calendar(minute: int) -> None:
    rules = Rules(
        quiet_hours=(QuietHours.parse("q", "Mon-Tue 22:00-02:30"), QuietHours.parse("q", "Sun 23:00-01:00"))
    )
    expected = {m for hours in rules.quiet_hours for m in hours.minutes()}
    assert rules.is_quiet(MONDAY + 60.0 * minute) == (minute in expected)
    day, time = divmod(minute, 24 * 60)
    by_hand = (
        (day in (0, 1) and time >= 22 * 60)
        or (day in (1, 2) and time < 150)
        or (day == 6 and time >= 23 * 60)
        or (day == 0 and time < 60)
    )
    assert (minute in expected) == by_hand


@settings(max_examples=20)
@given(st.integers(1, 4), st.floats(1.0, 15 * TARGET))
def test_growth_is_enough_and_a_load_that_goes_is_followed_down(initial: int, total: float) -> None:
    topic = spread(initial, initial, total)
    topic.run(60)
    assert max(topic.rates()) <= RULES.grow_above * TARGET
    topic.run(30, factor=0.0)
    assert topic.count == initial


@given(
    counts,
    st.lists(st.floats(0, 5000), min_size=16, max_size=16),
    st.lists(st.floats(0, 500), min_size=16, max_size=16),
)
def test_more_load_never_warrants_fewer_partitions(
    sizes: tuple[int, int], rates: list[float], more: list[float]
) -> None:
    initial, count = sizes
    low = Prediction([rate / TARGET for rate in rates[:count]], initial)
    high = Prediction([(a + b) / TARGET for a, b in zip(rates[:count], more, strict=False)], initial)
    least = [one.least_count(RULES.goal, initial, 500) or 501 for one in (low, high)]
    assert least[0] <= least[1]


@given(counts, st.floats(0.56, 5.0), st.floats(0.0, 0.1))
def test_a_hot_key_is_not_split(sizes: tuple[int, int], alone: float, rest: float) -> None:
    initial, count = sizes
    rates = [rest * TARGET] * count
    rates[0] += alone * TARGET
    hot = HotKey(0, alone * TARGET / rates[0], "one key")
    seen = Observation(initial, count, rates, [0.0] * count, hot=hot)
    state = State()
    for step in range(5):
        decision, state = decide(RULES, seen, state, MONDAY + step * INTERVAL)
        assert not decision.due
    if alone + rest > RULES.grow_above:
        assert (decision.held_by, "no split divides a key" in decision.reason) == ("unsplittable_key", True)


def test_a_hot_key_does_not_keep_other_partitions_from_growing() -> None:
    rates = [2000.0, 900.0]
    seen = Observation(2, 2, rates, [0.0] * 2, hot=HotKey(0, 0.95, "one key"))
    state = State()
    for step in range(3):
        decision, state = decide(RULES, seen, state, MONDAY + step * INTERVAL)
    assert decision.due
    assert decision.target == 4


FOLLOWED = replace(RULES, groups=("g",), catch_up=5 * INTERVAL, target_bytes=1e12)


def test_a_key_that_is_not_hot_is_not_said_to_limit_growth() -> None:
    seen = Observation(1, 1, [1090.0], [0.0], hot=HotKey(0, 0.05, "one key"))
    state = State()
    for step in range(3):
        decision, state = decide(replace(RULES, maximum=3), seen, state, MONDAY + step * INTERVAL)
    assert (decision.due, decision.target) == (True, 3)
    assert "one key" not in decision.reason


@dataclass
class Followed:
    """A topic with a group that reads at most ``speed`` records per second of each partition."""

    speed: float
    members: int = 0
    rules: Rules = FOLLOWED
    count: int = 1
    state: State = field(default_factory=State)
    lag: list[float] = field(default_factory=lambda: [0.0])
    at: float = MONDAY
    changes: list[tuple[int, int]] = field(default_factory=list)

    def step(self, written: float) -> Decision:
        rates = predicted([written], 1, self.count)
        read = [min(self.speed, rate + lag / INTERVAL) for rate, lag in zip(rates, self.lag, strict=True)]
        self.lag = [
            max(0.0, lag + INTERVAL * (rate - one))
            for lag, rate, one in zip(self.lag, rates, read, strict=True)
        ]
        group = GroupLoad(self.lag, read, self.members)
        seen = Observation(1, self.count, [0.0] * self.count, rates, {"g": group})
        decision, self.state = decide(self.rules, seen, self.state, self.at)
        if decision.due:
            self.state = self.state.changed(self.at, self.count, decision.target)
            self.changes.append((self.count, decision.target))
            self.lag += [0.0] * (decision.target - self.count)
            self.lag = [sum(self.lag) / decision.target] * decision.target
            self.count = decision.target
        self.at += INTERVAL
        return decision


@settings(max_examples=20)
@given(st.floats(150.0, 900.0))
def test_a_group_that_falls_behind_gets_partitions_and_keeps_them(written: float) -> None:
    topic = Followed(speed=100.0)
    for _ in range(130):
        topic.step(written)
    assert len(topic.changes) == 1
    assert max(predicted([written], 1, topic.count)) <= RULES.goal * topic.speed
    assert sum(topic.lag) < 1.0


def test_a_group_that_catches_up_or_lacks_members_gets_none() -> None:
    slow = Followed(speed=100.0, count=4, lag=[0.0] * 4, members=2)
    decisions = [slow.step(800.0) for _ in range(30)]
    assert decisions[-1].held_by == "members"
    assert "add members first" in decisions[-1].reason
    late = Followed(speed=100.0, lag=[1e6])
    assert not any(late.step(30.0).due for _ in range(30))
    stopped = Followed(speed=0.0, lag=[1e5])
    assert not any(stopped.step(30.0).due for _ in range(30))


@given(st.integers(1, 12), st.integers(1, 30))
def test_what_nobody_has_seen_does_not_count(seen_before: int, missed: int) -> None:
    """A shrink takes a low load all through ``shrink.after.ms``; one sample may fail meanwhile."""
    state, at, low_since = State(), MONDAY, MONDAY
    seen = Observation(1, 4, [1.0] * 4, [0.0] * 4, seconds=INTERVAL)
    for step in range(40):
        if step == seen_before:
            at += missed * INTERVAL
            low_since = at if missed + 1 > 4 else low_since
        decision, state = decide(RULES, seen, state, at)
        if decision.due:
            break
        at += INTERVAL
    first = max(low_since + RULES.shrink_after, MONDAY)
    assert decision.action == "shrink"
    assert at >= first
    assert at < first + (missed + 2) * INTERVAL
