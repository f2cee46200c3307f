"""Requests that wait for a second principal (``review.required``)."""

from __future__ import annotations

from typing import Any, Literal

from spark_ordered_kafka.client.schemas.base import Answer, Open

ReviewStatus = Literal["pending", "approved", "in_doubt", "done", "failed", "discarded", "expired"]


class ReviewSummary(Answer):
    """A row of ``GET /v1/reviews``.

    ``status``: ``pending``: nothing was done yet; ``approved``: being carried out at this moment; ``in_doubt``: the
    controller that carried it out ended before it said with what result, so look at what the request is about; ``done``
    or ``failed``: carried out or refused, see ``answer_status``; ``discarded`` and ``expired``: never done.
    ``requested_by`` and ``decided_by`` are principals; times are seconds since the epoch.
    """

    review_id: int
    status: Open[ReviewStatus]
    method: str
    path: str
    query: str
    reason: str | None
    requested_by: str
    requested_at: float
    expires_at: float
    decided_by: str | None
    decided_at: float | None
    answer_status: int | None


class ReviewView(ReviewSummary):
    """``GET /v1/reviews/{id}``: with the ``body`` of the request, and the ``answer`` once it was carried out."""

    body: Any
    answer: Any


class ReviewList(Answer):
    """``GET /v1/reviews``, the newest first."""

    reviews: list[ReviewSummary]
