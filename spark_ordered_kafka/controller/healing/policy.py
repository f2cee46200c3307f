"""Decides what self-healing reports and what should be done, and which rule holds that back. PURE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from spark_ordered_kafka.client.schemas.healing import HealingAction, HealingKind, HealingRule
from spark_ordered_kafka.controller.automation.rules import DAY, cooldown_reason, in_last_day, is_quiet
from spark_ordered_kafka.controller.healing.observation import Condition, Key, Observation, conditions
from spark_ordered_kafka.controller.healing.rules import Rules
from spark_ordered_kafka.controller.state.healing import HealingRequestEntry

_CLEARED = 0.8
"""Part of a setting below which a difference or share must fall, so that a finding ends."""

_FIRST: tuple[HealingAction, ...] = (
    "drain",
    "replace_replicas",
    "elect_leaders",
    "balance_leaders",
    "balance_log_dirs",
    "balance",
)
_REPAIRS = ("drain", "replace_replicas")
_MOST_INTERVALS = 4
_LEAST_GAP = 300.0
"""More than a change of leader takes."""


@dataclass(frozen=True)
class Finding:
    """What is not as it should be, since ``since`` (seconds since the epoch)."""

    kind: HealingKind
    subject: str
    since: float
    reason: str


@dataclass(frozen=True)
class Proposal:
    """What would help; ``held_by``: the rule that keeps it from being requested, None: none does."""

    action: HealingAction
    brokers: tuple[int, ...]
    reason: str
    held_by: HealingRule | None = None

    @property
    def due(self) -> bool:
        """Whether it should be requested now."""
        return self.held_by is None

    @property
    def what(self) -> What:
        """What distinguishes it from others."""
        return self.action, self.brokers


What = tuple[HealingAction, tuple[int, ...]]


@dataclass(frozen=True)
class State:
    """What is kept from one decision to the next, and from one leader to the next. Times are seconds since the epoch.

    ``since``: when each condition began; ``observed_at``: about when it was last seen, 0 without conditions. ``requests`` are
    those of the last day. ``tried``: when an action was last planned without anything to request.
    """

    since: Mapping[Key, float] = field(default_factory=dict)
    observed_at: float = 0.0
    requests: tuple[HealingRequestEntry, ...] = ()
    tried: Mapping[HealingAction, float] = field(default_factory=dict)

    def requested(self, now: float, action: HealingAction) -> State:
        """The state once an action is requested."""
        return replace(self, requests=(*self.requests, HealingRequestEntry(at=now, action=action)))

    def in_vain(self, now: float, action: HealingAction) -> State:
        """The state once there was nothing to request for an action."""
        return replace(self, tried={**self.tried, action: now})


def longest_gap(rules: Rules) -> float:
    """Seconds without an observation, after which the state in between counts as unknown."""
    return max(_MOST_INTERVALS * rules.interval, _LEAST_GAP)


def decide(
    rules: Rules, observation: Observation, state: State, now: float
) -> tuple[tuple[Finding, ...], tuple[Proposal, ...], State]:
    """What ``rules`` say to an observation at ``now``, in seconds since the epoch, and the state for the next one.

    At most one of the proposals is due. A proposal of before that is missing is withdrawn: its reason is gone.
    """
    gap = longest_gap(rules)
    if now - state.observed_at > gap:
        state = replace(state, since={})  # what was away may have returned, and be restarting now (D-369)
    found, since = _timed(rules, observation, state, now)
    # Not at each look, which would write a znode (D-296).
    fresh = state.since and 0 <= now - state.observed_at < gap / 2
    state = State(
        since,
        (state.observed_at if fresh else now) if since else 0.0,
        tuple(one for one in state.requests if one.at > now - DAY),
        {action: at for action, at in state.tried.items() if at > now - DAY},
    )
    findings = tuple(Finding(*key, since[key], one.reason) for key, one in found.items())
    return findings, _proposals(rules, observation, state, found, now), state


def _timed(
    rules: Rules, observation: Observation, state: State, now: float
) -> tuple[dict[Key, Condition], dict[Key, float]]:
    """The conditions, with hysteresis, and since when each has lasted."""
    found = conditions(rules, observation)
    for key, one in conditions(rules, observation, _CLEARED).items():
        if key in state.since:
            found.setdefault(key, one)
    since = {key: state.since.get(key, now) for key in found}
    silent = {str(broker) for broker in observation.silent}
    for key, at in state.since.items():
        if key not in since and key[1].partition(" ")[0] in silent:
            since[key] = at  # a broker that does not answer may have it still
    return found, since


def _proposals(
    rules: Rules, observation: Observation, state: State, found: Mapping[Key, Condition], now: float
) -> tuple[Proposal, ...]:
    lasting = [one for key, one in found.items() if now - state.since[key] >= _after(rules, key[0])]
    proposals: list[Proposal] = []
    for action in _FIRST:
        own = [one for one in lasting if one.action == action]
        if own:
            brokers = {broker for one in own for broker in one.brokers} if action != "balance" else set()
            wanted = Proposal(action, tuple(sorted(brokers)), "; ".join(one.reason for one in own))
            began = min(state.since[one.key] for one in own)
            wanted = _held(rules, observation, state, wanted, began, now)
            if wanted.due and any(one.due for one in proposals):
                wanted = _because(wanted, "one_at_a_time", "another proposal comes first")
            proposals.append(wanted)
    return tuple(proposals)


def _after(rules: Rules, kind: HealingKind) -> float:
    """Seconds that a condition must last."""
    if kind == "broker_away":
        return rules.broker_away_after
    return rules.log_dir_offline_after if kind == "log_dir_offline" else rules.uneven_after


def _held(
    rules: Rules, observation: Observation, state: State, wanted: Proposal, began: float, now: float
) -> Proposal:
    """``wanted``, whose finding began at ``began``, or held back by the first rule that forbids it now."""
    ill = sorted({*observation.away, *observation.failed})
    if wanted.action in _REPAIRS and len(ill) > rules.max_brokers:
        shown = ", ".join(map(str, ill))
        return _because(
            wanted,
            "too_many",
            f"brokers {shown} are away or have failed log directories, and max.brokers is {rules.max_brokers}: "
            "a network or rack may have failed",
        )
    if wanted.action not in _REPAIRS and ill:
        return _because(
            wanted, "unhealthy", "brokers that are away or have failed log directories come first"
        )
    if observation.under_way is not None:
        return _because(wanted, "under_way", observation.under_way)
    times = [one.at for one in state.requests if one.action == wanted.action]
    latest = max(
        [*times, *([state.tried[wanted.action]] if wanted.action in state.tried else [])], default=None
    )
    # What did not end the finding is not repeated as often: rates and sizes always differ a little from those before.
    vain = sum(at >= began for at in times) if wanted.action not in _REPAIRS else 0
    cooling = cooldown_reason(latest, rules.cooldown * 2 ** max(0, vain - 1), now)
    if cooling is not None:
        return _because(wanted, "cooldown", cooling)
    if is_quiet(rules.quiet_hours, now):
        return _because(wanted, "quiet_hours", "these are quiet hours")
    made = in_last_day([one.at for one in state.requests], now)
    if made >= rules.requests_per_day:
        reason = f"requests.per.day = {rules.requests_per_day} were made in the last 24 hours"
        return _because(wanted, "budget", reason)
    half = -(-rules.requests_per_day // 2)
    if wanted.action not in _REPAIRS and made >= half:
        reason = (
            f"{made} of requests.per.day = {rules.requests_per_day} were made in the last 24 hours, and the rest is kept for "
            "brokers and log directories that fail"
        )
        return _because(wanted, "budget", reason)
    return wanted


def _because(wanted: Proposal, rule: HealingRule, why: str) -> Proposal:
    return replace(wanted, held_by=rule, reason=f"{wanted.reason}; not now: {why}")
