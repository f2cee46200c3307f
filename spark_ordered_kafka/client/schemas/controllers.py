"""Bodies about the controllers themselves."""

from __future__ import annotations

from typing import Any, Literal

from spark_ordered_kafka.client.schemas.base import Answer, Open, Result

Role = Literal["leader", "follower"]
AuthenticationMethod = Literal["basic", "bearer", "certificate"]


class Readiness(Result):
    """What a controller does that is ready. ``leader`` is the leader's URL and ``epoch`` its controller epoch; None while
    there is none that serves."""

    role: Open[Role] | None = None
    leader: str | None = None
    epoch: int | None = None


class ControllerView(Answer):
    """A controller that lives: it has a session with ZooKeeper."""

    id: str
    url: str
    role: Open[Role]


class ControllerList(Answer):
    """All controllers. ``leader`` is the leader's URL and ``epoch`` its controller epoch; None while there is none."""

    controllers: list[ControllerView]
    leader: str | None = None
    epoch: int | None = None


class CallerView(Answer):
    """``GET /v1/caller``: who sends the request, and what this controller demands of callers.

    ``methods``: how callers may prove who they are; empty: they need not and cannot. ``reason_required``: a change needs the
    query parameter ``reason``; ``review_required``: it waits for a second principal.
    """

    principal: str
    authentication_required: bool
    methods: list[Open[AuthenticationMethod]]
    reason_required: bool
    review_required: bool


class AuditLines(Answer):
    """``GET /v1/audit-log``: lines as they are in the audit log of ``controller``, the newest first.

    Each has ``time`` (ISO 8601) and ``event``: ``requested``, ``answered`` or ``ended``; the other members depend on it.
    """

    controller: str
    lines: list[dict[str, Any]]
