"""The caller of every request, found before anything else looks at it."""

from __future__ import annotations

import hmac
from http import HTTPStatus
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from spark_ordered_kafka.controller.access.authenticator import Authenticator, CredentialsError
from spark_ordered_kafka.controller.access.caller import ANONYMOUS, Caller, kafka_address
from spark_ordered_kafka.controller.api.errors import answer, answer_with
from spark_ordered_kafka.controller.election import DeposedError
from spark_ordered_kafka.controller.service import ControllerService
from spark_ordered_kafka.errors import OrderedKafkaError

OPEN_PATHS: Final = frozenset({"/healthz", "/readyz", "/openapi.json"})
"""Asked without credentials, too: by those who look whether the process lives, and what holds nothing of a cluster."""

PEER_PRINCIPAL: Final = "peer_principal"
"""In the state of a connection (``scope["state"]``): the principal of the client's certificate."""

CALLER_HEADER: Final = "x-ordered-kafka-caller"
FORWARDED_HEADER: Final = "x-ordered-kafka-forwarded"
FORWARDED: Final = "forwarded"
"""In ``scope["state"]``: whether another controller has handed the request on."""
_INTERNAL: Final = (CALLER_HEADER.encode(), FORWARDED_HEADER.encode())


class Authentication:
    """ASGI middleware: puts the :class:`Caller` into ``scope["state"]``, or answers 401.

    A follower that hands a request on has authenticated the caller itself, and proves with the leader's token that it is a
    controller. Whoever else sends its headers has them taken away.
    """

    def __init__(self, app: ASGIApp, service: ControllerService) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Called per request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        authenticator = self._service.authenticator
        headers = Headers(scope=scope)
        scope["headers"] = [pair for pair in scope["headers"] if pair[0].lower() not in _INTERNAL]
        try:
            caller = self._forwarded(headers)
            handed_on = caller is not None
            if caller is None:
                caller = await self._found(authenticator, headers, scope)
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
        scope["state"][FORWARDED] = handed_on
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

    def _forwarded(self, headers: Headers) -> Caller | None:
        token, caller = headers.get(FORWARDED_HEADER), headers.get(CALLER_HEADER)
        if token is None or caller is None:
            return None
        expected = self._service.forwarding_token
        if expected is None or not hmac.compare_digest(token.encode(), expected.encode()):
            # Meant for the leader that this process was. Whoever handed it on asks the next one.
            raise DeposedError
        return Caller.from_header(caller)
