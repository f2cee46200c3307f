"""Reason, review and audit log: what a request that may change something must pass before its route."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from spark_ordered_kafka.controller.api.http.bodies import off_loop, read_body, replayed
from spark_ordered_kafka.controller.api.http.caller import Caller, caller_of
from spark_ordered_kafka.controller.api.http.errors import answer
from spark_ordered_kafka.controller.api.http.routing import mutation_of
from spark_ordered_kafka.controller.api.http.thread_pools import AUDIT
from spark_ordered_kafka.controller.api.middleware.admission import WITHOUT_RIGHTS
from spark_ordered_kafka.controller.api.middleware.mutations import Mutation
from spark_ordered_kafka.controller.api.middleware.outcomes import Outcome
from spark_ordered_kafka.controller.api.middleware.own_requests import own_requests
from spark_ordered_kafka.controller.api.middleware.replay import Replay
from spark_ordered_kafka.controller.api.middleware.review_subject import check_unchanged, topic_hashes
from spark_ordered_kafka.controller.service import ControllerService
from spark_ordered_kafka.controller.state.reviews import ReviewRecord, review_view
from spark_ordered_kafka.errors import OrderedKafkaError, invalid_request
from spark_ordered_kafka.updates import updated

# Cancelling is never delayed, and decisions about reviews need no review.
_WITHOUT_REVIEW = frozenset(
    {
        ("DELETE", "/v1/topics/{topic}/change"),
        ("DELETE", "/v1/reassignments/{request_id}"),
        ("POST", "/v1/reviews/{review_id}/approve"),
        ("POST", "/v1/reviews/{review_id}/discard"),
    }
)

_AUDITED_PATH = 1000


@dataclass(frozen=True)
class Approval:
    """Marks a request that comes from a review. It is in ``scope["state"]``, which clients cannot set."""

    review_id: int
    approver: str


@dataclass(frozen=True)
class _Governed:
    """A request that is not a check: ``fields`` are in all of its audit lines."""

    mutation: Mutation
    reason: str | None
    approval: Approval | None
    fields: dict[str, Any]


class Governance:
    """ASGI middleware in front of the routes, at the leader.

    A request that only checks (``validate_only``) passes: it needs neither reason nor review, and is not audited.
    Routes find this object as ``request.state.governance``.
    """

    def __init__(self, app: ASGIApp, service: ControllerService, fastapi: FastAPI) -> None:
        self._app = app
        self._service = service
        self._replay = Replay(fastapi)
        service.send_own = own_requests(self, self._replay, time.time)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Called per request."""
        route = mutation_of(scope)
        if route is None:
            await self._app(scope, receive, send)
            return
        body = await read_body(scope, receive)
        if body is None:
            return  # the client went away before it had said all
        scope.setdefault("state", {})["governance"] = self
        try:
            # Otherwise this process could become the leader now, and the request skip all that follows.
            self._service.require_active()
            mutation = await off_loop(body, Mutation.of, scope, route, body, caller_of(Request(scope)))
            checks_only, reason = mutation.checks_only, mutation.reason
        except OrderedKafkaError as error:
            await answer(error)(scope, receive, send)
            return
        if checks_only:
            await self._app(scope, replayed(mutation.body, receive), send)
            return
        if scope["state"].get(WITHOUT_RIGHTS, False):
            # It changes nothing, so answer it as a check and do not audit it: callers without rights could fill the disk.
            denied = await self._checked(mutation, mutation.caller)
            if denied is not None and denied.refused:
                answered = Response(denied.content, denied.status, media_type="application/json")
                await answered(scope, receive, send)
                return
        approval = scope["state"].get("approval")
        refusal = None
        try:
            mutation = await self._pinned(mutation)
        except OrderedKafkaError as error:
            refusal = error  # which is audited like any other
        governed = _Governed(mutation, reason, approval, _fields(scope, mutation, reason, approval))
        response = await self._review(governed, refusal)
        if response is None:
            await self._carry_out(governed, scope, receive, send)
        else:
            await response(scope, receive, send)

    async def carry_out(self, review_id: int, record: ReviewRecord, request_id: str) -> Outcome:
        """Carry out a claimed review as its requester's request."""
        approval = Approval(review_id, record.decided_by or "")
        state = {"approval": approval, "request_id": request_id}
        return await self._replay.ask(self, self._replay.mutation(record), state)

    async def check_rights(self, record: ReviewRecord, caller: Caller) -> None:
        """Raises RequestError unless ``caller`` may make the same request, and it can still be carried out."""
        checked = await self._checked(self._replay.mutation(record), caller)
        if checked is not None and (checked.refused or checked.unauthorized):
            raise checked.error()

    async def check_unchanged(self, record: ReviewRecord) -> None:
        """Raises RequestError INVALID_REQUEST unless the topics are still those of the stored request."""
        now = await run_in_threadpool(topic_hashes, self._service, self._replay.mutation(record))
        check_unchanged(record.topics, now)

    async def _checked(self, mutation: Mutation, caller: Caller) -> Outcome | None:
        """The answer to ``caller`` when the route only checks the request; None for a route that cannot.

        Raises RequestError when ``caller`` lacks the right that such a route needs.
        """
        check = mutation.check(caller)
        if check is None:
            await self._replay.check_rights(replace(mutation, caller=caller))
            return None
        return await self._replay.ask(self._app, check, {})

    async def _pinned(self, mutation: Mutation) -> Mutation:
        """With the number of the latest reassignment in place of ``latest``: later, another one may be the latest.

        Raises RequestError when the caller lacks the right, or there is none.
        """
        params = mutation.path_params
        if params.get("request_id") != "latest":
            return mutation
        await self._replay.check_rights(mutation)
        number = await run_in_threadpool(self._service.reassignment_queries.number, "latest")
        return mutation.at({**params, "request_id": number})

    async def _review(self, governed: _Governed, refusal: OrderedKafkaError | None) -> Response | None:
        """The answer to a request that is stored or refused; None for one to carry out, which is then in the audit log."""
        settings, mutation = self._service.settings, governed.mutation
        try:
            if governed.reason is None and settings.reason_required:
                raise invalid_request(
                    "reason is missing: say why in the query parameter reason (--reason of ordered-kafka)"
                )
            requested = {**governed.fields, "body": mutation.shown_body()}
            await AUDIT.run(self._service.audit.require, "requested", requested)
            if refusal is not None:
                raise refusal
            if (
                settings.review_required
                and governed.approval is None
                and (mutation.method, mutation.route.path) not in _WITHOUT_REVIEW
            ):
                response = await self._submitted(governed)
            else:
                return None
        except OrderedKafkaError as error:
            response = answer(error)
        await self._audit_answer(governed, Outcome(response.status_code, bytes(response.body)))
        return response

    async def _submitted(self, governed: _Governed) -> Response:
        """Store a request for review, unless it would be refused already."""
        mutation, reviews = governed.mutation, self._service.reviews
        record = ReviewRecord(
            method=mutation.method,
            path=mutation.path,
            query=mutation.without("wait"),  # the approver does not wait for the changes
            body=mutation.body,
            reason=governed.reason,
            principal=mutation.caller.principal,
            host=mutation.caller.host,
            requested_at=reviews.now(),
            key=mutation.key,
        )
        review_id = await run_in_threadpool(reviews.earlier, record)
        if review_id is None:
            # Before the check, so that a later change does not count as checked.
            topics = await run_in_threadpool(topic_hashes, self._service, mutation)
            checked = await self._checked(mutation, mutation.caller)
            if checked is not None and checked.refused:
                return Response(checked.content, checked.status, media_type="application/json")
            record = updated(record, topics=topics)
            review_id = await run_in_threadpool(reviews.add, record)
        view = review_view(review_id, *await run_in_threadpool(reviews.get, review_id))
        return JSONResponse(view.model_dump(mode="json"), HTTPStatus.ACCEPTED)

    async def _carry_out(self, governed: _Governed, scope: Scope, receive: Receive, send: Send) -> None:
        # A request without an answer has hit a bug.
        status, content = int(HTTPStatus.INTERNAL_SERVER_ERROR), bytearray()

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                content.extend(message.get("body", b""))
            await send(message)

        try:
            await self._app(
                governed.mutation.scope(scope), replayed(governed.mutation.body, receive), watched
            )
        finally:
            await self._audit_answer(governed, Outcome(status, bytes(content)))

    async def _audit_answer(self, governed: _Governed, outcome: Outcome) -> None:
        fields = {**governed.fields, **outcome.audited()}
        await AUDIT.run(self._service.audit.add, "answered", fields)


def _fields(
    scope: Scope, mutation: Mutation, reason: str | None, approval: Approval | None
) -> dict[str, Any]:
    return {
        "request_id": scope["state"].get("request_id"),
        "principal": mutation.caller.principal,
        "host": mutation.caller.host,
        "method": mutation.method,
        "route": mutation.route.path,
        "path": mutation.path[:_AUDITED_PATH],
        **mutation.shown_topics(),
        "reason": reason,
        "review_id": None if approval is None else approval.review_id,
        "approver": None if approval is None else approval.approver,
    }
