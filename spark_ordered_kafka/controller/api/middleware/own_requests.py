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
from spark_ordered_kafka.controller.automation.requests import OwnRequest, Requested, SendRequest
from spark_ordered_kafka.controller.state.reviews import ReviewRecord

_HOST = "127.0.0.1"


def own_requests(app: ASGIApp, replay: Replay, now: Callable[[], float]) -> SendRequest:
    """Sends requests to ``app``, the governance in front of the routes."""

    def send(request: OwnRequest) -> Requested:
        record = ReviewRecord(
            method="POST",
            path=request.path,
            query=urlencode({"reason": request.reason[:MAX_REASON]}),
            body=to_json(request.body),
            reason=request.reason,
            principal=request.principal,
            host=_HOST,
            requested_at=now(),
        )
        state = {"request_id": uuid4().hex}
        # In a loop of its own: the caller is a thread without one.
        outcome = asyncio.run(replay.ask(app, replay.mutation(record), state))
        parsed = outcome.parsed
        if isinstance(parsed, dict) and parsed.get("review_id") is not None:
            return Requested(review_id=int(parsed["review_id"]), answer=parsed)
        return Requested(error=str(outcome.error()) if outcome.refused else None, answer=parsed)

    return send
