"""Rights before bodies: what a caller may not ask for is neither read nor looked at."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from fastapi import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from spark_ordered_kafka.controller.api.http import rights
from spark_ordered_kafka.controller.api.http.errors import answer, answer_with
from spark_ordered_kafka.controller.api.http.routing import mutation_of
from spark_ordered_kafka.errors import OrderedKafkaError, RequestError

RIGHTLESS: Final = "rightless"
"""In ``scope["state"]``: that the caller has none of the rights, to anything, of which the request needs one."""
_MAX_UNHEARD = 64 * 1024
"""Bytes of a body."""


class _UnheardError(Exception):
    """The rest of the body was not read."""


class Admission:
    """ASGI middleware, at followers, too: refuses who lacks the right that a route which may change something declares.

    Where rights depend on what the request names, who has them for nothing at all may send little, and is marked
    (:data:`RIGHTLESS`), so that whoever may do nothing costs neither memory nor a line in the audit log. Routes that only
    read check their callers before they read a body.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Called per request."""
        route = mutation_of(scope)
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
        """Let the request be answered item by item if it is small, and with ``error`` if not."""
        scope["state"][RIGHTLESS] = True
        received = 0

        async def bounded() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > _MAX_UNHEARD:
                raise _UnheardError
            return message

        try:
            await self._app(scope, bounded, send)
        except _UnheardError:
            # What is still on its way is not worth reading.
            await answer_with(error, HTTPStatus.FORBIDDEN, {"Connection": "close"})(scope, receive, send)
