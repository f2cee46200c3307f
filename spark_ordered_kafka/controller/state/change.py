"""Partition changes in the topics' records: one that a newer controller has begun, and how a change ended. PURE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from spark_ordered_kafka.client.schemas.base import ChangeKind, ChangeOutcome, Open
from spark_ordered_kafka.controller.change.protocol import Change
from spark_ordered_kafka.controller.zk.records import OPEN, NewerRecordError
from spark_ordered_kafka.errors import ErrorCode, RequestError


class NewerChange(BaseModel):
    """A change of an unknown kind or step, by a newer controller. It is shown and otherwise left alone."""

    model_config = OPEN

    id: str
    topic: str
    kind: str
    source: int
    target: int
    started_at: float
    step: str = "planned"
    force: bool = False
    closing_at: float | None = None
    fenced: int = 0
    total_fences: int = 0
    cancel_requested: bool = False

    @property
    def closing(self) -> bool:
        """Whether a writer that asks for the layout must wait: from ``closing`` on, including unknown later steps."""
        return self.closing_at is not None


AnyChange = Change | NewerChange


@dataclass(frozen=True)
class FinishedChange:
    """Record of a change that has ended; ``unknown``: members that a newer controller has written."""

    id: str
    kind: Open[ChangeKind]
    source: int
    target: int
    outcome: Open[ChangeOutcome]
    started_at: float
    finished_at: float
    writer_pause_seconds: float = 0.0
    fenced: int = 0
    error_code: int | None = None
    error_message: str | None = None
    unknown: Mapping[str, Any] = field(default_factory=dict, hash=False)


def own_change(topic: str, change: AnyChange | None) -> Change | None:
    """The topic's change; raises NewerRecordError if a newer controller has begun it."""
    if isinstance(change, NewerChange):
        raise NewerRecordError(
            f"change {change.id} of topic {topic!r} (kind {change.kind}, step {change.step}) was begun by a newer controller"
        )
    return change


def refuse_second(topic: str, pending: AnyChange | None) -> None:
    """Raises RequestError PARTITION_CHANGE_IN_PROGRESS, or NewerRecordError, if the topic has a ``pending`` change."""
    pending = own_change(topic, pending)
    if pending is None:
        return
    what = (
        f"is switching ordered delivery {'on' if pending.kind == 'order' else 'off'}"
        if pending.source == pending.target
        else f"is changing from {pending.source} to {pending.target} partitions"
    )
    raise RequestError(
        ErrorCode.PARTITION_CHANGE_IN_PROGRESS,
        f"topic {topic!r} {what} (change {pending.id}, step {pending.step}): wait for its end or cancel it",
    )
