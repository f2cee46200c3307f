"""Idempotency keys of requests that are sent again."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from spark_ordered_kafka.client.transport import IDEMPOTENCY_KEY
from spark_ordered_kafka.controller.api.http.errors import answer
from spark_ordered_kafka.controller.topics.idempotency import keyed
from spark_ordered_kafka.errors import RequestError


class Keys:
    """ASGI middleware, the innermost: runs the route under the request's idempotency key."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Called per request."""
        key = Headers(scope=scope).get(IDEMPOTENCY_KEY) if scope["type"] == "http" else None
        try:
            with keyed(key):
                await self._app(scope, receive, send)
        except RequestError as error:  # the application answers its own
            await answer(error)(scope, receive, send)
