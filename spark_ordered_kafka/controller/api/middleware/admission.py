"""Rights before bodies: the body of a request that the caller may not make is not read (D-163)."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from fastapi import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from spark_ordered_kafka.controller.api.http import rights
from spark_ordered_kafka.controller.api.http.errors import answer, answer_with
from spark_ordered_kafka.controller.api.http.routing import route_with_body_of
from spark_ordered_kafka.errors import OrderedKafkaError, RequestError

WITHOUT_RIGHTS: Final = "rightless"
"""In ``scope["state"]``: whether the caller has none of the rights that the request may need."""
_MAX_UNAUTHORIZED_BODY = 64 * 1024
"""Bytes of a body."""


class _BodyTooLargeError(Exception):
    """The rest of the body was not read."""


class Admission:
    """ASGI middleware, at followers, too: refuses callers without the right that a route declares, except of requests without
    a body, whose routes check it themselves.

    Where rights depend on the request's content, a caller without any such right may send only a small body, and the request
    is marked (:data:`WITHOUT_RIGHTS`), so that it costs neither memory nor a line in the audit log.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Called per request."""
        route = route_with_body_of(scope)
        if route is not None:
            _, matched = route.matches(scope)
            request = Request({**scope, **matched})
            for declared in rights.declared(route):
                try:
                    await declared.admit(request)
                except RequestError as error:
                    if isinstance(declared, rights.CheckedByItem):
                        await self._bounded(error, scope, receive, send)
                    else:
                        await answer(error)(scope, receive, send)
                    return
                except OrderedKafkaError as error:
                    await answer(error)(scope, receive, send)
                    return
        await self._app(scope, receive, send)

    async def _bounded(self, error: RequestError, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a small request item by item, a large one with ``error``."""
        scope["state"][WITHOUT_RIGHTS] = True
        received = 0

        async def bounded() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > _MAX_UNAUTHORIZED_BODY:
                raise _BodyTooLargeError
            return message

        try:
            await self._app(scope, bounded, send)
        except _BodyTooLargeError:
            # The rest of the body is not read.
            await answer_with(error, HTTPStatus.FORBIDDEN, {"Connection": "close"})(scope, receive, send)
