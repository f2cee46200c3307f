"""The caller of every request, found before anything else looks at it."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from spark_ordered_kafka.controller.access.authenticator import Authenticator, CredentialsError
from spark_ordered_kafka.controller.access.caller import ANONYMOUS, Caller, kafka_address
from spark_ordered_kafka.controller.api.http.bodies import read_body, replayed
from spark_ordered_kafka.controller.api.http.errors import answer, answer_with
from spark_ordered_kafka.controller.api.middleware.signatures import (
    CALLER_HEADER,
    FORWARDED_HEADER,
    Signatures,
    is_body,
    target_of,
)
from spark_ordered_kafka.controller.service import ControllerService
from spark_ordered_kafka.controller.zk.session import DeposedError
from spark_ordered_kafka.errors import OrderedKafkaError

OPEN_PATHS: Final = frozenset({"/healthz", "/readyz", "/openapi.json"})
"""Asked without credentials, too: by those who look whether the process lives, and what holds nothing of a cluster."""

PEER_PRINCIPAL: Final = "peer_principal"
"""In the state of a connection (``scope["state"]``): the principal of the client's certificate."""

FORWARDED: Final = "forwarded"
"""In ``scope["state"]``: whether another controller has handed the request on."""
_INTERNAL: Final = (CALLER_HEADER.encode(), FORWARDED_HEADER.encode())


class Authentication:
    """ASGI middleware: puts the :class:`Caller` into ``scope["state"]``, or answers 401.

    A follower that hands a request on has authenticated the caller itself, and proves by a signature that it is a
    controller. Whoever else sends its headers has them taken away.
    """

    def __init__(self, app: ASGIApp, service: ControllerService) -> None:
        self._app = app
        self._service = service
        self._signatures = Signatures()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Called per request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        authenticator = self._service.authenticator
        headers = Headers(scope=scope)
        scope["headers"] = [pair for pair in scope["headers"] if pair[0].lower() not in _INTERNAL]
        try:
            handed_on = CALLER_HEADER in headers and FORWARDED_HEADER in headers
            if handed_on:
                caller = Caller.from_header(headers[CALLER_HEADER])
                signed = await self._signed(headers, scope, receive)
                if signed is None:
                    return  # the client went away before it had said all
                receive = signed
            else:
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

    async def _signed(self, headers: Headers, scope: Scope, receive: Receive) -> Receive | None:
        """Gives the body that a controller has handed on; raises DeposedError or RequestError when none did."""
        path: bytes = scope.get("raw_path") or scope["path"].encode()
        target = target_of(path.partition(b"?")[0], scope["query_string"])
        digest = self._signatures.check(self._service.forwarding_token, scope["method"], target, headers)
        # Not before: without the key nobody makes this process read.
        body = await read_body(receive)
        if body is None:
            return None
        if not is_body(body, digest):
            raise DeposedError
        return replayed(body, receive)
