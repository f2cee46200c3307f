"""The policy of self-healing, beside a model that looks at the whole history of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_ordered_kafka.controller.automation.rules import DAY, QuietHours, is_quiet
from spark_ordered_kafka.controller.healing.observation import Directory, Observation, ObservedBroker
from spark_ordered_kafka.controller.healing.policy import Finding, Proposal, State, decide
from spark_ordered_kafka.controller.healing.records import remembered, stored
from spark_ordered_kafka.controller.healing.rules import Rules
from spark_ordered_kafka.controller.state.healing import HEALING, ConditionEntry, HealingRecord
from spark_ordered_kafka.controller.zk.records import dump, parse
from tests.seeds import examples

STEP = 300.0
MONDAY = 4 * DAY  # 1970-01-05
GB = 10**9
RULES = Rules(
    mode="act",
    interval=STEP,
    broker_away_after=4 * STEP,
    log_dir_offline_after=2 * STEP,
    uneven_after=3 * STEP,
    cooldown=6 * STEP,
    requests_per_day=3,
    quiet_hours=(QuietHours.parse("quiet", "Mon-Tue 03:00-05:00"),),
)


@dataclass
class Cluster:
    """Brokers, and all that was seen and decided; proposals that are due are requested, and change nothing.

    Each observation is another leader's, who knows what ZooKeeper has.
    """

    rules: Rules = RULES
    state: State = field(default_factory=State)
    at: float = MONDAY
    seen: list[Observation] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    requests: list[tuple[int, Proposal]] = field(default_factory=list)

    def step(self, seen: Observation) -> tuple[tuple[Finding, ...], tuple[Proposal, ...]]:
        self.seen.append(seen)
        self.times.append(self.at)
        findings, proposals, self.state = decide(self.rules, seen, self.state, self.at)
        due = [one for one in proposals if one.due]
        assert len(due) <= 1, "one at a time"
        for one in due:
            self.requests.append((len(self.seen) - 1, one))
            self.state = self.state.requested(self.at, one.action)
        data = dump(stored(HealingRecord(), self.state))
        self.state = remembered(parse(HealingRecord, data, HEALING))
        self.at += STEP
        return findings, proposals


def brokers(
    away: Sequence[int] = (), failed: Sequence[int] = (), leaders: Sequence[int] = (10,) * 5
) -> tuple[ObservedBroker, ...]:
    return tuple(
        ObservedBroker(
            number,
            alive=number not in away,
            hosted=20,
            leaders=count,
            preferred=count,
            directories=None
            if number in away
            else (
                Directory("/a", number not in failed, 50 * GB, 50 * GB, 100 * GB),
                Directory("/b", True, 50 * GB, 50 * GB, 100 * GB),
            ),
        )
        for number, count in enumerate(leaders)
    )


sets = st.lists(st.integers(0, 4), max_size=3, unique=True)
moments = st.tuples(
    sets, sets, st.sampled_from([None, None, None, "request 7 is in progress"]), st.integers(1, 8)
)


def is_ill(broker: int, action: str) -> Callable[[Observation], bool]:
    return lambda seen: broker in (seen.away if action == "drain" else seen.failed)


def lasted(cluster: Cluster, index: int, after: float, holds: Callable[[Observation], bool]) -> bool:
    """Brute force: whether ``holds`` was true at ``index`` and at all observations since ``after`` seconds before it."""
    earliest = None
    for number in range(index, -1, -1):
        if not holds(cluster.seen[number]):
            break
        earliest = cluster.times[number]
    return earliest is not None and cluster.times[index] - earliest >= after


@settings(max_examples=60)
@given(st.lists(moments, min_size=1, max_size=40), st.integers(1, 2), st.integers(1, 4))
def test_a_request_keeps_every_rule(
    history: list[tuple[list[int], list[int], str | None, int]], most: int, budget: int
) -> None:
    cluster = Cluster(replace(RULES, max_brokers=most, requests_per_day=budget))
    for away, failed, under_way, steps in history:
        for _ in range(steps):
            cluster.step(Observation(brokers(away, [one for one in failed if one not in away]), 0, under_way))
    made: list[tuple[float, str]] = []
    for index, request in cluster.requests:
        seen, at = cluster.seen[index], cluster.times[index]
        ill = {*seen.away, *seen.failed}
        assert 0 < len(ill) <= most, "more brokers mean that a network or rack has failed"
        assert seen.under_way is None
        assert not is_quiet(cluster.rules.quiet_hours, at)
        assert sum(at - other < DAY for other, _ in made) < budget, "the budget of a day"
        latest = max((other for other, action in made if action == request.action), default=-DAY)
        assert at - latest >= cluster.rules.cooldown, "the cool-down"
        after = RULES.broker_away_after if request.action == "drain" else RULES.log_dir_offline_after
        for broker in range(5):
            ill_now = lasted(cluster, index, after, is_ill(broker, request.action))
            assert (broker in request.brokers) == ill_now
        made.append((at, request.action))


@pytest.mark.long
@settings(max_examples=examples(150))
@given(st.integers(1, 8), st.integers(0, 300))
def test_what_no_plan_ends_leaves_the_budget_for_repairs(budget: int, later: int) -> None:
    """Leaders stay uneven whatever is requested, and then a broker dies."""
    rules = replace(RULES, requests_per_day=budget, quiet_hours=())
    cluster = Cluster(rules)
    uneven = (40, 10, 10, 10, 10)
    for _ in range(300 + later):
        cluster.step(Observation(brokers(leaders=uneven)))
    vain = [cluster.times[index] for index, _ in cluster.requests]
    assert vain
    for at in vain:
        day = [other for other in vain if at - DAY < other <= at]
        assert len(day) <= (budget + 1) // 2
        pauses = [late - early for early, late in pairwise(day)]
        assert all(pause >= rules.cooldown * 2**number for number, pause in enumerate(pauses))
    steps = round(rules.broker_away_after / STEP) + 1
    for _ in range(steps):
        cluster.step(Observation(brokers(away=[2], leaders=uneven)))
    last = cluster.requests[-1][1]
    assert (last.action == "drain") == (budget > 1 or len(vain) == 0 or cluster.at - vain[-1] > DAY)


@settings(max_examples=60)
@given(st.lists(moments, min_size=1, max_size=40))
def test_what_may_be_healed_is_healed(history: list[tuple[list[int], list[int], str | None, int]]) -> None:
    """A proposal that is held back is held by a rule that the model finds broken, too."""
    cluster = Cluster(replace(RULES, max_brokers=2))
    for away, _, under_way, steps in history:
        for _ in range(steps):
            before = list(cluster.requests)
            _, proposals = cluster.step(Observation(brokers(away), 0, under_way))
            index, at = len(cluster.seen) - 1, cluster.times[-1]
            overdue = [b for b in away if lasted(cluster, index, RULES.broker_away_after, is_ill(b, "drain"))]
            drains = [one for one in proposals if one.action == "drain"]
            assert [one.brokers for one in drains] == ([tuple(sorted(overdue))] if overdue else [])
            if not drains:
                continue
            latest = [cluster.times[number] for number, _ in before]
            rule = (
                "too_many"
                if len(away) > 2
                else "under_way"
                if under_way is not None
                else "cooldown"
                if any(at - one < RULES.cooldown for one in latest)
                else "quiet_hours"
                if is_quiet(RULES.quiet_hours, at)
                else "budget"
                if sum(at - one < DAY for one in latest) >= RULES.requests_per_day
                else None
            )
            assert drains[0].held_by == rule


@given(st.integers(0, 4), st.integers(1, 12))
def test_a_broker_that_returns_withdraws_the_proposal(broker: int, steps: int) -> None:
    cluster = Cluster(replace(RULES, mode="observe"))
    for _ in range(steps):
        findings, _ = cluster.step(Observation(brokers([broker])))
        assert [(one.kind, one.subject, one.since) for one in findings] == [
            ("broker_away", str(broker), MONDAY)
        ]
    assert cluster.step(Observation(brokers())) == ((), ())
    findings, proposals = cluster.step(Observation(brokers([broker])))
    assert findings[0].since == cluster.times[-1], "it has to stay away for the whole time again"
    assert proposals == ()


@given(st.integers(0, 4), st.integers(2, 7), st.integers(0, 100))
def test_what_was_not_seen_for_long_has_to_last_anew(broker: int, steps: int, missed: int) -> None:
    """No controller looks for ``missed`` intervals, in which the broker may have been back."""
    cluster = Cluster(replace(RULES, quiet_hours=()))
    for _ in range(steps):
        cluster.step(Observation(brokers([broker])))
    made = len(cluster.requests)
    cluster.at += missed * STEP
    findings, proposals = cluster.step(Observation(brokers([broker])))
    if missed <= 1:
        assert findings[0].since == MONDAY, "a change of leader loses nothing"
    if missed >= 4:
        assert findings[0].since == cluster.times[-1]
        assert proposals == ()
        for _ in range(4):
            assert len(cluster.requests) == made
            cluster.step(Observation(brokers([broker])))
        assert cluster.requests[made:], "and then it is healed"


def test_a_record_that_does_not_say_when_it_was_observed_counts_as_old() -> None:
    away = ConditionEntry(kind="broker_away", subject="3", since=MONDAY - DAY)
    state = remembered(HealingRecord(conditions=(away,)))
    findings, proposals, _ = decide(RULES, Observation(brokers([3])), state, MONDAY)
    assert [one.since for one in findings] == [MONDAY]
    assert proposals == ()


@dataclass
class Leaders:
    """A cluster whose requests are carried out at once, as the planner would."""

    led: list[int]
    preferred: list[int]
    state: State = field(default_factory=State)
    at: float = MONDAY + DAY / 2
    actions: list[str] = field(default_factory=list)

    def step(self) -> None:
        rows = tuple(
            replace(one, leaders=led, preferred=preferred)
            for one, led, preferred in zip(brokers(leaders=self.led), self.led, self.preferred, strict=True)
        )
        displaced = sum(abs(a - b) for a, b in zip(self.led, self.preferred, strict=True)) // 2
        _, proposals, self.state = decide(RULES, Observation(rows, displaced), self.state, self.at)
        for one in proposals:
            if one.due:
                self.actions.append(one.action)
                self.state = self.state.requested(self.at, one.action)
                if one.action == "balance_leaders":
                    share, more = divmod(sum(self.led), 5)
                    self.preferred = [share + (number < more) for number in range(5)]
                self.led = list(self.preferred)
        self.at += STEP


@settings(max_examples=60)
@given(st.lists(st.integers(0, 30), min_size=5, max_size=5), st.permutations(range(5)))
def test_leaders_come_to_rest_without_flapping(led: list[int], order: list[int]) -> None:
    cluster = Leaders(list(led), [led[place] for place in order])
    for _ in range(100):
        cluster.step()
    assert cluster.actions in (
        [],
        ["elect_leaders"],
        ["balance_leaders"],
        ["elect_leaders", "balance_leaders"],
    )
    mean = sum(cluster.led) / 5
    apart = max(cluster.led) - min(cluster.led)
    assert apart < 2 or apart <= RULES.leader_difference * mean


def test_a_finding_ends_only_well_below_its_setting() -> None:
    cluster = Cluster()
    shares = [(60, True), (49, True), (47, True), (46, False), (49, False), (51, True)]
    for used, shown in shares:
        full = Directory("/a", True, used * GB, (100 - used) * GB, 100 * GB)
        empty = Directory("/a", True, 30 * GB, 70 * GB, 100 * GB)
        rows = (ObservedBroker(1, directories=(full,)), ObservedBroker(2, directories=(empty,)))
        findings, _ = cluster.step(Observation(rows))
        assert [one.kind for one in findings] == (["disks_uneven"] if shown else []), used


def test_reasons_have_the_figures() -> None:
    rows = (
        ObservedBroker(1, leaders=9, preferred=3, write_rate=9e6, directories=(Directory("/a", True, 88 * GB, 4 * GB, 100 * GB),)),
        ObservedBroker(2, leaders=0, preferred=3, write_rate=0.0, directories=(Directory("/a", True, 40 * GB, 60 * GB, 100 * GB),)),
        ObservedBroker(3, alive=False, hosted=7, directories=None),
    )  # fmt: skip
    findings, proposals, _ = decide(replace(RULES, uneven_after=0.0), Observation(rows, 6), State(), MONDAY)
    assert {one.kind: one.reason for one in findings} == {
        "broker_away": "broker 3 is away, with 7 replicas",
        "leaders_uneven": "leaders by broker differ by 200 % of the mean (1: 9, 2: 0); 6 partitions are not led by their "
        "preferred replica",
        "leader_bytes_uneven": "what is written to leaders differs by 200 % of the mean by broker (1: 9 MB/s, 2: 0 MB/s)",
        "disks_uneven": "replicas take 88 % of the volumes of broker 1 and 40 % of those of broker 2",
        "disk_full": "a volume of broker 1 is used to 96 %",
    }
    assert [(one.action, one.held_by) for one in proposals] == [
        ("elect_leaders", "unhealthy"),
        ("balance", "unhealthy"),
    ]


def test_a_broker_that_does_not_answer_keeps_its_offline_directory() -> None:
    cluster = Cluster(replace(RULES, mode="observe"))
    cluster.step(Observation(brokers(failed=[2])))
    rows = list(brokers())
    rows[2] = replace(rows[2], directories=None)
    assert cluster.step(Observation(tuple(rows)))[0] == ()
    (finding,), (proposal,) = cluster.step(Observation(brokers(failed=[2])))
    assert finding.since == MONDAY
    assert (proposal.action, proposal.brokers) == ("replace_replicas", (2,))
