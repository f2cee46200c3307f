"""Limits of requests' size and number, checked before anything is kept."""

from __future__ import annotations

from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from spark_ordered_kafka.controller.api.http.errors import answer_with
from spark_ordered_kafka.controller.api.http.routing import mutation_of
from spark_ordered_kafka.controller.api.middleware.authentication import OPEN_PATHS
from spark_ordered_kafka.errors import RequestError, UnavailableError, invalid_request

MAX_BODY = 8 * 1024 * 1024
"""Bytes. Explicit replicas of 100,000 partitions take 2 to 3 MB."""
MAX_BODIES = 8 * MAX_BODY
"""Bytes of all bodies being received or processed; a waiting request keeps its own."""
MAX_PATH = 8 * 1024
"""Characters, percent-encoded. A topic's name has up to 249; the names of groups are what may be longer."""
MAX_QUERY = 60_000
"""Characters: a list of 10,000 partition numbers takes 49,000; uvicorn takes 65,536 for all that precedes the body."""
MAX_REQUESTS = 4000
"""Concurrent requests. Probes are not counted."""
MAX_CHANGES = 500
"""Concurrent requests that may change something: those that wait (``?wait=``) must leave room for those of writers."""


class _BodyRefusedError(Exception):
    """The rest of the body was not read."""

    def __init__(self, status: HTTPStatus, refusal: RequestError | UnavailableError) -> None:
        super().__init__(str(refusal))
        self.status = status
        self.refusal = refusal


class Limits:
    """ASGI middleware: refuses requests beyond the limits, without reading them into memory."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._requests = 0
        self._changes = 0
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Called per request."""
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        too_long = _too_long(scope)
        if too_long is not None:
            refusal = invalid_request(too_long)
            await _refuse(scope, receive, send, HTTPStatus.REQUEST_URI_TOO_LONG, refusal)
            return
        changes = mutation_of(scope) is not None
        if self._requests >= MAX_REQUESTS or (changes and self._changes >= MAX_CHANGES):
            going = f"{self._requests} requests are under way, {self._changes} of them changes"
            busy = UnavailableError(f"nothing was done: {going}; ask again")
            await _refuse(scope, receive, send, HTTPStatus.SERVICE_UNAVAILABLE, busy)
            return
        self._requests += 1
        self._changes += changes
        try:
            await self._bounded(scope, receive, send)
        finally:
            self._requests -= 1
            self._changes -= changes

    async def _bounded(self, scope: Scope, receive: Receive, send: Send) -> None:
        length = Headers(scope=scope).get("content-length", "")
        if length.isdecimal() and int(length[:20]) > MAX_BODY:
            await _refuse(scope, receive, send, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, _too_large())
            return
        received = 0
        answering = False

        async def bounded() -> Message:
            nonlocal received
            message = await receive()
            if message["type"] == "http.request":
                size = len(message.get("body", b""))
                received += size
                self._held += size
                self._check(received)
            return message

        async def watched(message: Message) -> None:
            nonlocal answering
            answering = True
            await send(message)

        try:
            await self._app(scope, bounded, watched)
        except _BodyRefusedError as refused:
            if answering:
                raise
            await _refuse(scope, receive, send, refused.status, refused.refusal)
        finally:
            self._held -= received

    def _check(self, received: int) -> None:
        if received > MAX_BODY:
            raise _BodyRefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, _too_large())
        if self._held > MAX_BODIES:
            busy = UnavailableError(
                "nothing was done: too many large bodies are under way already; ask again"
            )
            raise _BodyRefusedError(HTTPStatus.SERVICE_UNAVAILABLE, busy)


def _too_long(scope: Scope) -> str | None:
    for name, value, bound in (
        ("the path", scope.get("raw_path") or scope["path"], MAX_PATH),
        ("the query", scope["query_string"], MAX_QUERY),
    ):
        if len(value) > bound:
            return f"{name} has {len(value)} characters: at most {bound} are taken"
    return None


def _too_large() -> RequestError:
    reason = f"the body has more than {MAX_BODY} bytes, which is the most that is taken"
    return invalid_request(reason)


async def _refuse(
    scope: Scope, receive: Receive, send: Send, status: HTTPStatus, refusal: RequestError | UnavailableError
) -> None:
    # The rest of the body is not read, so the connection cannot be used again.
    await answer_with(refusal, status, {"Connection": "close"})(scope, receive, send)
