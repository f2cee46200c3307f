"""Requests for the leader that reach another controller."""

from __future__ import annotations

import asyncio
import time
from http import HTTPStatus

from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from spark_ordered_kafka.controller.api.http.bodies import read_body, replayed
from spark_ordered_kafka.controller.api.http.errors import answer, answer_with
from spark_ordered_kafka.controller.api.http.routing import LEADER_READS, is_mutating, route_of
from spark_ordered_kafka.controller.service import ControllerService
from spark_ordered_kafka.controller.zk.records import LeaderRecord
from spark_ordered_kafka.errors import ErrorCode, RequestError


class Redirects:
    """ASGI middleware: a follower answers requests for the leader with 307 and the same path at the leader's URL.

    Without a leader, or while this controller becomes one, the request waits at most ``Timing.leader_wait`` seconds; then
    NOT_CONTROLLER says that nothing was done.
    """

    def __init__(self, app: ASGIApp, service: ControllerService) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Called per request."""
        if self._service.active or not _needs_leader(scope):
            await self._app(scope, receive, send)
            return
        # An answer before the end of the body would break the connection of a client that still sends.
        body = await read_body(scope, receive)
        if body is None:
            return
        leader = await self._await_leader()
        if leader is not None:
            await _redirect(scope, leader)(scope, receive, send)
        elif self._service.active:
            await self._app(scope, replayed(body, receive), send)
        else:
            refusal = RequestError(ErrorCode.NOT_CONTROLLER, "nothing was done: there is no leader")
            await answer(refusal)(scope, receive, send)

    async def _await_leader(self) -> LeaderRecord | None:
        """Another controller that leads; None when this one does, or none does in time."""
        service, loop, changed = self._service, asyncio.get_running_loop(), asyncio.Event()
        deadline = time.monotonic() + service.settings.timing.leader_wait

        def on_change() -> None:
            loop.call_soon_threadsafe(changed.set)

        with service.leader.listening(on_change):
            while not service.active and not service.stopping:
                leader = service.leader.record
                if leader is not None and leader.id != service.id:
                    return leader
                try:
                    await asyncio.wait_for(changed.wait(), deadline - time.monotonic())
                except TimeoutError:
                    return None
                changed.clear()
        return None


def _needs_leader(scope: Scope) -> bool:
    if scope["type"] != "http":
        return False
    route = route_of(scope)
    if route is None or scope["method"] not in (route.methods or ()):
        return False
    if route.path in LEADER_READS:
        return True
    return route.path.startswith("/v1/") and is_mutating(scope["method"], route.path)


def _redirect(scope: Scope, leader: LeaderRecord) -> JSONResponse:
    # As it was sent, percent-encoded.
    raw_path = scope.get("raw_path") or scope["path"].encode()
    path, query = (part.decode("latin-1") for part in (raw_path.partition(b"?")[0], scope["query_string"]))
    location = leader.url.rstrip("/") + path + (f"?{query}" if query else "")
    refusal = RequestError(ErrorCode.NOT_CONTROLLER, f"nothing was done: {leader.url} leads")
    return answer_with(refusal, HTTPStatus.TEMPORARY_REDIRECT, {"Location": location})
