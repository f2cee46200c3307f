"""Logging and metrics of every request, and its id."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from http import HTTPStatus
from uuid import uuid4

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.contextvars import bound_contextvars

from spark_ordered_kafka.controller.api.http.caller import Caller
from spark_ordered_kafka.controller.api.http.errors import answer
from spark_ordered_kafka.controller.api.http.routing import READING_METHODS, route_of
from spark_ordered_kafka.controller.monitoring.metrics import Metrics
from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError, RequestError, UnavailableError

REQUEST_ID = "X-Request-Id"

_log = logging.getLogger(__name__)
_access = logging.getLogger("spark_ordered_kafka.access")
# The id appears in the log, in the audit log and in headers of further requests.
_REQUEST_ID = re.compile(r"[!-~]{1,128}")
_PROBES = frozenset({"/healthz", "/readyz", "/metrics"})
_SHOWN = 300


def _stopped(scope: Scope) -> OrderedKafkaError:
    """What a request gets that the stop of this controller ends. Clients ask another one where nothing was done."""
    if scope["method"] in READING_METHODS:
        return RequestError(ErrorCode.NOT_CONTROLLER, "nothing was done: this controller stops")
    return UnavailableError("this controller stops: what was asked for may be done, or get done yet")


class Observing:
    """ASGI middleware, the outermost: gives a request its id, logs it, counts it, answers unexpected errors, and forbids
    caching (D-140)."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Called per request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get(REQUEST_ID, "")
        request_id = given if _REQUEST_ID.fullmatch(given) else uuid4().hex
        scope.setdefault("state", {})["request_id"] = request_id
        with bound_contextvars(request_id=request_id):
            await self._observe(scope, receive, send, request_id)

    async def _observe(self, scope: Scope, receive: Receive, send: Send, request_id: str) -> None:
        started = time.monotonic()
        status: int | None = None

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers[REQUEST_ID] = request_id
                # An answer is valid at its moment only: a cached layout would mislead writers.
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        except asyncio.CancelledError:
            # uvicorn cancels what has not ended some seconds after the process was asked to stop.
            if status is not None:
                raise
            await answer(_stopped(scope))(scope, receive, send_with_id)
        except Exception:  # a bug of any kind, and the caller gets an answer of the API's form
            _log.exception("%s %s met a bug", scope["method"], _path(scope))
            if status is not None:
                raise
            bug = RequestError(ErrorCode.UNKNOWN_SERVER_ERROR, "internal error, see the controller's log")
            await answer(bug)(scope, receive, send_with_id)
        finally:
            # 499: the client went away before it was answered (nginx's number).
            self._keep(scope, 499 if status is None else status, time.monotonic() - started)

    def _keep(self, scope: Scope, status: int, seconds: float) -> None:
        route = route_of(scope)
        template = "none" if route is None else route.path
        self._metrics.observe_request(scope["method"], template, status, seconds)
        level = logging.DEBUG if template in _PROBES and status < HTTPStatus.BAD_REQUEST else logging.INFO
        caller = scope["state"].get("caller")
        _access.log(
            level,
            "%s %s %d",
            scope["method"],
            _path(scope),
            status,
            extra={
                "route": template,
                "status": status,
                "milliseconds": round(seconds * 1000, 1),
                "principal": caller.principal if isinstance(caller, Caller) else None,
            },
        )


def _path(scope: Scope) -> str:
    """As it was sent, percent-encoded: without control characters, and without the query."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode("ascii", "backslashreplace")
    return raw.partition(b"?")[0].decode("latin-1")[:_SHOWN]
