"""Requests that change something, handed on by followers to the leader."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Final

import httpx
from fastapi import Request
from pydantic import ValidationError
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from spark_ordered_kafka.client.schemas import Result
from spark_ordered_kafka.controller.api.http.bodies import read_body
from spark_ordered_kafka.controller.api.http.caller import caller_of
from spark_ordered_kafka.controller.api.http.errors import answer, answer_with
from spark_ordered_kafka.controller.api.http.routing import ASKED_OF_THE_LEADER, is_mutating, route_of
from spark_ordered_kafka.controller.api.http.waiting import MAX_WAIT
from spark_ordered_kafka.controller.api.middleware.authentication import FORWARDED
from spark_ordered_kafka.controller.api.middleware.observing import REQUEST_ID
from spark_ordered_kafka.controller.api.middleware.signatures import (
    CALLER_HEADER,
    FORWARDED_HEADER,
    sign,
    target_of,
)
from spark_ordered_kafka.controller.service import ControllerService
from spark_ordered_kafka.controller.settings import TlsSettings
from spark_ordered_kafka.controller.zk.election import Leader
from spark_ordered_kafka.controller.zk.records import LeaderRecord
from spark_ordered_kafka.errors import ErrorCode, RequestError, UnavailableError

_log = logging.getLogger(__name__)

PATIENCE: Final = 7.0
"""Seconds that a request waits for a leader: less than a client's 10 s, so that it hears why."""
_REFUSED_PAUSE: Final = 0.2
_CONNECT_TIMEOUT: Final = 2.0
_LONGEST: Final = MAX_WAIT + 60.0
_DEPOSED_GRACE: Final = 2.0
"""Seconds in which a leader that has stepped down still answers what it was asked."""

_REQUEST_ID: Final = REQUEST_ID.lower().encode()
# RFC 9110, 7.6.1.
_HOP_BY_HOP: Final = frozenset(
    {
        *(b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection"),
        *(b"te", b"trailer", b"transfer-encoding", b"upgrade"),
    }
)
# The caller's credentials stay here: the signature vouches for what was found by them. So does the page that it is, which was judged
# by this controller's name.
_NOT_HANDED_ON: Final = _HOP_BY_HOP | {
    *(b"host", b"content-length", b"authorization", b"expect", _REQUEST_ID),
    *(b"origin", b"sec-fetch-site"),
    *(CALLER_HEADER.encode(), FORWARDED_HEADER.encode()),
}
_NOT_PASSED_ON: Final = _HOP_BY_HOP | {b"date", b"server", _REQUEST_ID}
# The request has not reached anybody.
_NOT_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)


class Forwarding:
    """ASGI middleware: at a follower, sends what is to be changed to the leader, and its answer back.

    While there is no leader, or its address refuses connections, the request waits for one, :data:`PATIENCE` seconds at
    most; then NOT_CONTROLLER says that nothing was done. A request that was sent and not answered is never sent again: 502
    or 504 say that it may have been carried out. What another controller has handed on is not handed on again.
    """

    def __init__(self, app: ASGIApp, service: ControllerService) -> None:
        self._app = app
        self._service = service
        self._tls = _context(service.settings.tls)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Called per request."""
        if self._service.active or not _is_forwardable(scope):
            await self._app(scope, receive, send)
            return
        inbox = _Inbox(receive)
        try:
            if await inbox.body() is not None:  # else the client went away before it had said all
                with _news_of(self._service.leader) as news:
                    await self._answer(scope, inbox, send, news)
        finally:
            inbox.close()

    async def _answer(self, scope: Scope, inbox: _Inbox, send: Send, news: asyncio.Event) -> None:
        service = self._service
        deadline = time.monotonic() + PATIENCE
        reason = "there is no leader"
        while True:
            news.clear()  # before the look: what happens after it is not missed
            if service.active:
                await self._app(scope, inbox.replay, send)
                return
            leader, pause = service.leader.record, PATIENCE
            if leader is not None and leader.id != service.id and not service.stopping:
                if scope.get("state", {}).get(FORWARDED, False):
                    reason = "this controller does not lead (any more)"
                    break
                handover = _Handover(service.leader, leader, _request(scope, inbox.content, leader))
                refused = await handover.run(self._tls, news, inbox, send)
                if refused is None:
                    return
                reason, pause = refused, _REFUSED_PAUSE
            left = deadline - time.monotonic()
            if left <= 0.0 or service.stopping:
                break
            await _first(news.wait(), inbox.gone(), timeout=min(pause, left))
            if inbox.gone().done():
                return
        refusal = RequestError(ErrorCode.NOT_CONTROLLER, f"nothing was done: {reason}")
        await answer(refusal)(scope, inbox.replay, send)


@contextmanager
def _news_of(leader: Leader) -> Iterator[asyncio.Event]:
    """Set with all that happens to the leadership."""
    loop, news = asyncio.get_running_loop(), asyncio.Event()

    def tell() -> None:
        loop.call_soon_threadsafe(news.set)

    with leader.telling(tell):
        yield news


async def _first(*awaited: Awaitable[Any], timeout: float | None = None) -> None:
    """Wait until one of them is done, or ``timeout`` seconds; a coroutine among them is ended then."""
    tasks = [asyncio.ensure_future(one) for one in awaited]
    try:
        await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one, task in zip(awaited, tasks, strict=True):
            if task is not one:
                task.cancel()


class _Inbox:
    """What a client sends: its body, which is kept to be sent or read again, and then that it has gone."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._replayed = False
        self._gone: asyncio.Task[Message] | None = None
        self.content = b""

    def close(self) -> None:
        """Wait for nothing more."""
        if self._gone is not None:
            self._gone.cancel()

    async def body(self) -> bytes | None:
        """All of it; None when the client went away first."""
        body = await read_body(self._receive)
        if body is not None:
            self.content = body
        return body

    def gone(self) -> asyncio.Task[Message]:
        """Done when the client has gone."""
        if self._gone is None:
            self._gone = asyncio.create_task(self._next())
        return self._gone

    async def replay(self) -> Message:
        """The body once more, and then what the client does."""
        if not self._replayed:
            self._replayed = True
            return {"type": "http.request", "body": self.content, "more_body": False}
        return await asyncio.shield(self.gone())

    async def _next(self) -> Message:
        return await self._receive()


class _Handover:
    """One request on its way to one leader. ``current`` says who leads by now."""

    def __init__(self, current: Leader, leader: LeaderRecord, request: httpx.Request) -> None:
        self._current = current
        self._leader = leader
        self._request = request

    async def run(self, tls: ssl.SSLContext, news: asyncio.Event, inbox: _Inbox, send: Send) -> str | None:
        """Send the request, and back its answer, or that there is none. Returns why it was certainly not carried out."""
        # A connection of its own: one that is kept alive may be closed from the other side with the request on its way.
        async with httpx.AsyncClient(verify=tls, trust_env=False) as client:
            sending = asyncio.create_task(client.send(self._request, stream=True))
            try:
                await self._await(sending, news, inbox)
                if inbox.gone().done():
                    return None
                response = sending.result()
            except _NOT_SENT as error:
                return f"{self._leader.url} cannot be reached: {error or type(error).__name__}"
            except (httpx.HTTPError, TimeoutError) as error:
                await self._doubt(error, inbox, send)
                return None
            finally:
                sending.cancel()
            try:
                return await _pass_on(response, send)
            finally:
                await response.aclose()

    async def _await(self, sending: asyncio.Task[httpx.Response], news: asyncio.Event, inbox: _Inbox) -> None:
        """Wait for the answer, but not long for that of a leader that is no longer one: then raises TimeoutError."""
        while not self._is_deposed():
            news.clear()
            if not self._is_deposed():
                await _first(sending, inbox.gone(), news.wait())
            if sending.done() or inbox.gone().done():
                return
        await _first(sending, inbox.gone(), timeout=_DEPOSED_GRACE)
        if not sending.done() and not inbox.gone().done():
            raise TimeoutError("it does not lead any more")

    def _is_deposed(self) -> bool:
        now = self._current.record
        return now is None or now.epoch != self._leader.epoch

    async def _doubt(self, error: Exception, inbox: _Inbox, send: Send) -> None:
        slow = isinstance(error, (httpx.TimeoutException, TimeoutError))
        status = HTTPStatus.GATEWAY_TIMEOUT if slow else HTTPStatus.BAD_GATEWAY
        doubt = UnavailableError(
            f"{self._leader.url}, which the request was handed to, did not answer ({error or type(error).__name__})"
        )
        _log.warning("%s %s: %s", self._request.method, self._request.url.path, doubt)
        await answer_with(doubt, status)({"type": "http"}, inbox.replay, send)


async def _pass_on(response: httpx.Response, send: Send) -> str | None:
    """Send the leader's answer, or return why it has certainly done nothing."""
    chunks: AsyncIterator[bytes] = response.aiter_raw()
    if response.status_code == HTTPStatus.SERVICE_UNAVAILABLE:
        body = b"".join([chunk async for chunk in chunks])
        refusal = _refusal(body)
        if refusal is not None:
            return f"{response.request.url}: {refusal}"
        chunks = _once(body)
    headers = [
        (name.lower(), value) for name, value in response.headers.raw if name.lower() not in _NOT_PASSED_ON
    ]
    await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
    # Should the leader die in the middle, the connection to the client breaks off, too.
    async for chunk in chunks:
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
    return None


def _refusal(body: bytes) -> str | None:
    """The message of NOT_CONTROLLER, if ``body`` is that."""
    try:
        result = Result.model_validate_json(body)
    except ValidationError:
        return None
    return str(result.error_message) if result.error_code == ErrorCode.NOT_CONTROLLER else None


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body


def _is_forwardable(scope: Scope) -> bool:
    if scope["type"] != "http":
        return False
    route = route_of(scope)
    if route is None or scope["method"] not in (route.methods or ()):
        return False
    if route.path in ASKED_OF_THE_LEADER:
        return True
    return route.path.startswith("/v1/") and is_mutating(scope["method"], route.path)


def _request(scope: Scope, body: bytes, leader: LeaderRecord) -> httpx.Request:
    headers = [(name, value) for name, value in scope["headers"] if name.lower() not in _NOT_HANDED_ON]
    headers.append((CALLER_HEADER.encode(), caller_of(Request(scope)).header().encode()))
    if (request_id := scope.get("state", {}).get("request_id")) is not None:
        headers.append((_REQUEST_ID, str(request_id).encode()))
    target = target_of(
        (scope.get("raw_path") or scope["path"].encode()).partition(b"?")[0], scope["query_string"]
    )
    # Once for each attempt: no leader takes a signature twice.
    signature = sign(leader.token, scope["method"], target, Headers(raw=headers), body, time.time())
    headers.append((FORWARDED_HEADER.encode(), signature.encode()))
    base = httpx.URL(leader.url)
    timeout = httpx.Timeout(_LONGEST, connect=_CONNECT_TIMEOUT)
    return httpx.Request(
        scope["method"],
        base.copy_with(raw_path=base.raw_path.rstrip(b"/") + target.encode("latin-1")),
        headers=headers,
        content=body,
        extensions={"timeout": timeout.as_dict()},
    )


def _context(tls: TlsSettings | None) -> ssl.SSLContext:
    """Trusts the other controllers, and shows this one's certificate."""
    context = ssl.create_default_context(cafile=None if tls is None else tls.ca_location)
    if tls is not None:
        context.load_cert_chain(tls.certificate_location, tls.key_location, lambda: tls.key_password or "")
    return context
