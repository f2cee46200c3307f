"""Requests that the leader makes on its own, through the API with a principal, a reason, reviews and audit lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from spark_ordered_kafka.client.schemas import Open
from spark_ordered_kafka.client.schemas.reviews import ReviewStatus


@dataclass(frozen=True)
class OwnRequest:
    """``POST`` of ``body`` to ``path`` as ``principal``, with ``reason`` for the audit log."""

    principal: str
    path: str
    body: Mapping[str, Any]
    reason: str


@dataclass(frozen=True)
class Requested:
    """What became of it: ``review_id`` where it waits for a second principal, ``error`` if it was refused, else the answer."""

    review_id: int | None = None
    error: str | None = None
    answer: Any = None

    @property
    def outcome(self) -> Literal["refused", "requested", "in_review"]:
        """The same in a word, as decisions have it."""
        if self.error is not None:
            return "refused"
        return "requested" if self.review_id is None else "in_review"


SendRequest = Callable[[OwnRequest], Requested]


def waits(status: Open[ReviewStatus]) -> bool:
    """Whether a review waits for a second principal, or its request is being executed."""
    return status in ("pending", "approved")


def waiting_reason(review_id: int) -> str:
    """Why nothing else is requested while a review waits."""
    return f"review {review_id} waits for a second principal"
