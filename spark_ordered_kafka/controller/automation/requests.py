"""Requests that the leader makes on its own, through the API with a principal, a reason, reviews and audit lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from spark_ordered_kafka.controller.state.reviews import Reviews
from spark_ordered_kafka.errors import RequestError


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


SendRequest = Callable[[OwnRequest], Requested]


def review_state(reviews: Reviews, review_id: int | None) -> tuple[str | None, float | None]:
    """What a review still waits for, None: it does not wait; and when it was decided, or has expired."""
    if review_id is None:
        return None, None
    try:
        review, status = reviews.get(review_id)
    except RequestError:
        return None, None  # decided long ago, and deleted since
    if status in ("pending", "approved"):
        return f"review {review_id} waits for a second principal", None
    return None, review.expires_at if status == "expired" else review.decided_at
