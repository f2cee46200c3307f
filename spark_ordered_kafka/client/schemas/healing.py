"""Self-healing."""

from __future__ import annotations

from typing import Literal

from spark_ordered_kafka.client.schemas.base import Answer, Open

HealingMode = Literal["off", "observe", "act"]
HealingKind = Literal[
    "broker_away",
    "log_dir_offline",
    "leaders_uneven",
    "leader_bytes_uneven",
    "log_dirs_uneven",
    "disks_uneven",
    "disk_full",
]
HealingAction = Literal[
    "drain", "replace_replicas", "elect_leaders", "balance_leaders", "balance_log_dirs", "balance"
]
HealingRule = Literal[
    "too_many", "unhealthy", "under_way", "cooldown", "quiet_hours", "budget", "one_at_a_time"
]
HealingOutcome = Literal[
    "proposed",
    "held",
    "requested",
    "in_review",
    "refused",
    "nothing_to_do",
    "withdrawn",
    "done",
    "failed",
    "cancelled",
]


class HealingDirectory(Answer):
    """A log directory: bytes of its replicas, and free and all bytes of its volume, None where not known."""

    path: str
    online: bool
    used_bytes: int
    free_bytes: int | None
    total_bytes: int | None


class HealingBroker(Answer):
    """A broker that is up or has replicas. ``write_rate``: bytes per second that are written to the partitions it leads.

    ``preferred``: partitions that it would lead by the order of their replicas. ``log_dirs``: None where it did not answer.
    """

    broker: int
    alive: bool
    hosted: int
    leaders: int
    preferred: int
    write_rate: float | None
    log_dirs: list[HealingDirectory] | None


class HealingFinding(Answer):
    """What is not as it should be since ``since`` (seconds since the epoch).

    ``subject`` is a broker's id, followed by a path for a log directory; empty for the whole cluster.
    """

    kind: Open[HealingKind]
    subject: str
    since: float
    reason: str


class HealingProposal(Answer):
    """What would help; ``held_by`` is the rule that keeps it from being requested."""

    action: Open[HealingAction]
    brokers: list[int]
    held_by: Open[HealingRule] | None
    reason: str


class HealingDecision(Answer):
    """What became of a proposal at ``at`` (seconds since the epoch).

    ``outcome``: ``proposed`` in mode ``observe``, ``held`` by a rule, ``requested``, ``in_review``, ``refused``,
    ``nothing_to_do`` where no plan changes anything, ``withdrawn`` when its reason was gone; ``done``, ``failed`` or
    ``cancelled`` once the reassignment ``request_id`` has ended. Bytes are those to move, -1 where not known.
    """

    at: float
    action: Open[HealingAction]
    brokers: list[int]
    outcome: Open[HealingOutcome]
    held_by: Open[HealingRule] | None
    reason: str
    partitions: int | None = None
    bytes_to_move: int | None = None
    request_id: int | None = None


class HealingView(Answer):
    """``GET /v1/healing``. ``at`` is the time of the observation, None until there is one, and at controllers that do not lead.

    ``requests_in_last_day`` count for the budget ``requests_per_day``. ``history`` has the last decisions, the newest first.
    """

    mode: Open[HealingMode]
    at: float | None
    brokers: list[HealingBroker]
    findings: list[HealingFinding]
    proposals: list[HealingProposal]
    requests_in_last_day: int
    requests_per_day: int
    history: list[HealingDecision]
