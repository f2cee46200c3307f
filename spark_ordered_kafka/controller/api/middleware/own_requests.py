"""Requests that the controller makes itself: through the API's own reasons, reviews, rights and audit log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from urllib.parse import urlencode
from uuid import uuid4

from pydantic_core import to_json
from starlette.types import ASGIApp

from spark_ordered_kafka.controller.api.middleware.mutations import MAX_REASON
from spark_ordered_kafka.controller.api.middleware.replay import Replay
from spark_ordered_kafka.controller.autoscale.autoscaler import PRINCIPAL, RequestChange, Requested
from spark_ordered_kafka.controller.state.reviews import ReviewRecord

_METHOD, _PATH = "POST", "/v1/partition-counts"
_HOST = "127.0.0.1"
_TIMEOUT_MS = 10_000


def partition_count_requests(app: ASGIApp, replay: Replay, now: Callable[[], float]) -> RequestChange:
    """Sends ``POST /v1/partition-counts`` of :data:`PRINCIPAL` to ``app``, the governance in front of the routes."""

    def request(topic: str, count: int, reason: str) -> Requested:
        record = ReviewRecord(
            method=_METHOD,
            path=_PATH,
            query=urlencode({"reason": reason[:MAX_REASON]}),
            body=to_json({"topics": [{"topic": topic, "partition_count": count}], "timeout_ms": _TIMEOUT_MS}),
            reason=reason,
            principal=PRINCIPAL,
            host=_HOST,
            requested_at=now(),
        )
        state = {"request_id": uuid4().hex}
        # In a loop of its own: the caller is a thread without one.
        outcome = asyncio.run(replay.ask(app, replay.mutation(record), state))
        parsed = outcome.parsed
        if isinstance(parsed, dict) and parsed.get("review_id") is not None:
            return Requested(review_id=int(parsed["review_id"]))
        return Requested(error=str(outcome.error()) if outcome.refused else None)

    return request
