"""Requests that the controller sends to its own routes: stored ones, and checks of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

import httpx2
from fastapi import FastAPI, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from spark_ordered_kafka.client.transport import IDEMPOTENCY_KEY
from spark_ordered_kafka.controller.api.http import rights
from spark_ordered_kafka.controller.api.http.caller import Caller
from spark_ordered_kafka.controller.api.http.routing import operation_of
from spark_ordered_kafka.controller.api.middleware.mutations import Mutation
from spark_ordered_kafka.controller.api.middleware.outcomes import Outcome
from spark_ordered_kafka.controller.state.reviews import ReviewRecord
from spark_ordered_kafka.errors import invalid_request


class Replay:
    """``fastapi`` has the routes."""

    def __init__(self, fastapi: FastAPI) -> None:
        self._fastapi = fastapi

    def mutation(self, record: ReviewRecord) -> Mutation:
        """The stored request. Raises RequestError INVALID_REQUEST when its route no longer exists."""
        scope = self._scope(record.method, record.path, record.query, record.key)
        route = operation_of(scope)
        if route is None:
            raise invalid_request(f"there is no route for {record.method} {record.path} any more")
        return Mutation.of(scope, route, record.body, Caller(record.principal, record.host))

    async def ask(self, app: ASGIApp, mutation: Mutation, state: Mapping[str, Any]) -> Outcome:
        """The answer of ``app`` to the request, sent as its caller's, with ``state``."""

        async def replay_app(scope: Scope, receive: Receive, send: Send) -> None:
            # The path as it was received, not as httpx2 would encode it.
            own = self._scope(mutation.method, mutation.path, mutation.query, mutation.key)
            inside = {**scope, **own, "state": {**state, "caller": mutation.caller}}
            await app(inside, receive, send)

        transport = httpx2.ASGITransport(replay_app, raise_app_exceptions=False)
        async with httpx2.AsyncClient(transport=transport, base_url="http://controller") as client:
            answer = await client.request(mutation.method, "/", content=mutation.body)
        return Outcome(answer.status_code, answer.content)

    async def check_rights(self, mutation: Mutation) -> None:
        """Raises RequestError *_AUTHORIZATION_FAILED by the rights that the route declares."""
        scope = self._scope(mutation.method, mutation.path, mutation.query, mutation.key)
        _, matched = mutation.route.matches(scope)
        request = Request({**scope, **matched, "state": {"caller": mutation.caller}})
        for declared in rights.declared(mutation.route):
            if isinstance(declared, rights.Right):
                await declared(request)

    def _scope(self, method: str, path: str, query: str, key: str | None) -> dict[str, Any]:
        headers = [(b"content-type", b"application/json")]
        if key is not None:
            headers.append((IDEMPOTENCY_KEY.lower().encode(), key.encode()))
        return {
            "type": "http",
            "app": self._fastapi,
            "method": method,
            "path": unquote(path),
            "root_path": "",
            "raw_path": path.encode("latin-1"),
            "query_string": query.encode("latin-1"),
            "headers": headers,
        }
