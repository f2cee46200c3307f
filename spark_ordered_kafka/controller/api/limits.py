"""Bounds on what a request may bring along, checked before anything of it is kept."""

from __future__ import annotations

from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from spark_ordered_kafka.controller.api.errors import answer_with
from spark_ordered_kafka.errors import ErrorCode, RequestError

MAX_BODY = 8 * 1024 * 1024
"""Bytes. Explicit replicas of 100,000 partitions take 2 to 3 MB."""
MAX_PATH = 8 * 1024
"""Characters, percent-encoded. A topic's name has up to 249; the names of groups are what may be longer."""
MAX_QUERY = 60_000
"""Characters: a list of 10,000 partition numbers takes 49,000; uvicorn takes 65,536 for all that precedes the body."""


class _BodyTooLargeError(Exception):
    """The rest of the body was not read."""


class Limits:
    """ASGI middleware: refuses what exceeds the bounds, without reading it into memory."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Called per request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = _too_long(scope)
        if refusal is not None:
            await _refuse(scope, receive, send, HTTPStatus.REQUEST_URI_TOO_LONG, refusal)
            return
        length = Headers(scope=scope).get("content-length", "")
        if length.isdecimal() and int(length[:20]) > MAX_BODY:
            await _refuse_body(scope, receive, send)
            return
        received = 0
        answering = False

        async def bounded() -> Message:
            nonlocal received
            message = await receive()
            if message["type"] == "http.request":
                received += len(message.get("body", b""))
                if received > MAX_BODY:
                    raise _BodyTooLargeError
            return message

        async def watched(message: Message) -> None:
            nonlocal answering
            answering = True
            await send(message)

        try:
            await self._app(scope, bounded, watched)
        except _BodyTooLargeError:
            if answering:
                raise
            await _refuse_body(scope, receive, send)


def _too_long(scope: Scope) -> str | None:
    for name, value, bound in (
        ("the path", scope.get("raw_path") or scope["path"], MAX_PATH),
        ("the query", scope["query_string"], MAX_QUERY),
    ):
        if len(value) > bound:
            return f"{name} has {len(value)} characters: at most {bound} are taken"
    return None


async def _refuse_body(scope: Scope, receive: Receive, send: Send) -> None:
    reason = f"the body has more than {MAX_BODY} bytes, which is the most that is taken"
    await _refuse(scope, receive, send, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, reason)


async def _refuse(scope: Scope, receive: Receive, send: Send, status: HTTPStatus, reason: str) -> None:
    # What is still on its way is not worth reading, so the connection cannot be used again.
    headers = {"Connection": "close"}
    refusal = RequestError(ErrorCode.INVALID_REQUEST, reason)
    await answer_with(refusal, status, headers)(scope, receive, send)
