"""Authenticates the caller of every request, before any other check."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from spark_ordered_kafka.controller import web
from spark_ordered_kafka.controller.access.authenticator import Authenticator, CredentialsError
from spark_ordered_kafka.controller.access.caller import ANONYMOUS, Caller, kafka_address
from spark_ordered_kafka.controller.api.http.errors import answer, answer_with
from spark_ordered_kafka.controller.service import ControllerService
from spark_ordered_kafka.errors import OrderedKafkaError

OPEN_PATHS: Final = frozenset({"/healthz", "/readyz", "/openapi.json", "/v1/caller", *web.FILES})
"""Open without credentials: liveness checks, what a login needs, and documents without data of a cluster."""

PEER_PRINCIPAL: Final = "peer_principal"
"""In the state of a connection (``scope["state"]``): the principal of the client's certificate."""


class Authentication:
    """ASGI middleware: puts the :class:`Caller` into ``scope["state"]``, or answers 401."""

    def __init__(self, app: ASGIApp, service: ControllerService) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Called per request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        authenticator = self._service.authenticator
        try:
            caller = await self._found(authenticator, Headers(scope=scope), scope)
        except CredentialsError as error:
            refusal = answer_with(
                error, HTTPStatus.UNAUTHORIZED, {"WWW-Authenticate": authenticator.challenge}
            )
            await refusal(scope, receive, send)
            return
        except OrderedKafkaError as error:
            await answer(error)(scope, receive, send)
            return
        scope.setdefault("state", {})["caller"] = caller
        await self._app(scope, receive, send)

    async def _found(self, authenticator: Authenticator, headers: Headers, scope: Scope) -> Caller:
        given = headers.getlist("authorization")
        if len(given) > 1:
            raise CredentialsError
        host = kafka_address(scope["client"][0]) if scope.get("client") else ""
        peer = scope.get("state", {}).get(PEER_PRINCIPAL)
        principal = await authenticator.principal(given[0] if given else None, peer, host)
        if principal is not None:
            return Caller(principal, host)
        if authenticator.required and scope["path"] not in OPEN_PATHS:
            raise CredentialsError(f"credentials are needed: {' or '.join(authenticator.methods)}")
        return Caller(ANONYMOUS, host)
