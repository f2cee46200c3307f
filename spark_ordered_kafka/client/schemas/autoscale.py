"""Automatic partition counts."""

from __future__ import annotations

from typing import Literal

from spark_ordered_kafka.client.schemas.base import Answer, Open

AutoscaleMode = Literal["off", "observe", "act"]
AutoscaleAction = Literal["none", "grow", "shrink"]
AutoscaleOutcome = Literal["none", "proposed", "held", "requested", "in_review", "refused"]
AutoscaleRule = Literal[
    "bounds", "cooldown", "budget", "quiet_hours", "unsplittable_key", "under_way", "members"
]


class AutoscaleDecision(Answer):
    """A decision at ``at`` (seconds since the epoch), when the topic had ``count`` partitions.

    ``action`` and ``target`` are what the load warranted, ``held_by`` the rule that kept it from being done, ``reason`` says why
    with the figures. ``outcome``: ``proposed`` in mode ``observe``, ``held`` by a rule, ``requested``, ``in_review`` where it
    waits for a second principal, or ``refused``.
    """

    at: float
    count: int
    action: Open[AutoscaleAction]
    target: int
    held_by: Open[AutoscaleRule] | None
    outcome: Open[AutoscaleOutcome]
    reason: str


class AutoscaleChange(Answer):
    """A change requested at ``at`` (seconds since the epoch), which counts for cool-down and budget."""

    at: float
    source: int
    target: int


class AutoscaleGroup(Answer):
    """What a consumer group reads of a topic: records behind and records read per second, by partition."""

    group: str
    lag: list[float]
    read_per_second: list[float]
    members: int


class AutoscaleObservation(Answer):
    """The newest load, by partition and per second. ``peak`` is the busiest partition's part of the target."""

    at: float
    bytes_per_second: list[float]
    records_per_second: list[float]
    peak: float
    groups: list[AutoscaleGroup]


class AutoscaleTopic(Answer):
    """A topic with its ``mode``, the newest ``observation`` and ``decision``, the changes of the last day and earlier
    decisions, the newest first.

    ``observation`` is None until two samples were taken, and at controllers that do not lead.
    """

    topic: str
    mode: Open[AutoscaleMode]
    count: int
    observation: AutoscaleObservation | None
    decision: AutoscaleDecision | None
    changes: list[AutoscaleChange]
    history: list[AutoscaleDecision]


class AutoscaleList(Answer):
    """``GET /v1/autoscale``: the topics under management that the caller may describe."""

    topics: list[AutoscaleTopic]
