"""The stream of what changes, as server-sent events."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import FastAPI, Query, Response
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.access.acls import CLUSTER, Operation, ResourceType
from spark_ordered_kafka.controller.api.http.caller import Caller, CallerOf
from spark_ordered_kafka.controller.api.http.errors import answer
from spark_ordered_kafka.controller.api.http.items import retrieve_exception
from spark_ordered_kafka.controller.api.http.rights import by_item
from spark_ordered_kafka.controller.api.http.thread_pools import RIGHTS
from spark_ordered_kafka.controller.monitoring.events import Known, Sample
from spark_ordered_kafka.controller.results import result
from spark_ordered_kafka.controller.service import ControllerService
from spark_ordered_kafka.controller.shared_query import Answer
from spark_ordered_kafka.errors import OrderedKafkaError, UnavailableError

MAX_LISTENERS = 100
MAX_OF_ONE = 20
"""Listeners of one principal, where callers are known (D-351)."""
MAX_DURATION = 300_000
"""Milliseconds, after which a listener must show its credentials again."""
_MEDIA_TYPE: Final = "text/event-stream"
_TICK = 1.0
_HEARTBEAT = 10.0
_PATIENCE = 5.0
"""Seconds to wait for a sample before the listener is sent a heartbeat."""
_RIGHTS = (
    "DESCRIBE on each topic that is shown; DESCRIBE on the cluster for controllers, reassignments and reviews"
)
_KINDS: Final = ((Operation.DESCRIBE, ResourceType.TOPIC), (Operation.DESCRIBE, ResourceType.CLUSTER))
"""Of which a listener needs one."""
EVENTS: Final[dict[str, type[schemas.Answer]]] = {
    "controller": schemas.Readiness,
    "controllers": schemas.ControllerList,
    "topics": schemas.TopicsEvent,
    "reassignments": schemas.ReassignmentsEvent,
    "reviews": schemas.ReviewList,
    "unavailable": schemas.Result,
}
"""The data of each event."""


def _event_schema(name: str, data: type[schemas.Answer]) -> dict[str, Any]:
    content = {"$ref": f"#/components/schemas/{data.__name__}"}
    text = {"type": "string", "contentMediaType": "application/json", "contentSchema": content}
    return {
        "type": "object",
        "properties": {"event": {"const": name}, "data": text},
        "required": ["event", "data"],
    }


# As OpenAPI 3.2 has it: the schema is that of one event.
_SCHEMA = {"oneOf": [_event_schema(*event) for event in EVENTS.items()]}
_OK: dict[int | str, dict[str, Any]] = {HTTPStatus.OK.value: {"content": {_MEDIA_TYPE: {"schema": _SCHEMA}}}}


class _Listeners:
    """The streams that are open, by principal; used on the event loop alone. ``known``: whether principals are proven, so that
    one who takes all places would take them from others."""

    def __init__(self, *, known: bool) -> None:
        self._known = known
        self._of: Counter[str] = Counter()

    def add(self, principal: str) -> None:
        """Raises UnavailableError when there are too many."""
        count, own = self._of.total(), self._of[principal]
        if self._known and own >= MAX_OF_ONE:
            raise UnavailableError(
                f"{own} listeners of {principal} are connected, which is the maximum for one: close some, and try again"
            )
        if count >= MAX_LISTENERS:
            raise UnavailableError(f"{count} listeners are connected, which is the maximum: try again")
        self._of[principal] += 1

    def remove(self, principal: str) -> None:
        """Give the place of one back."""
        self._of[principal] -= 1
        self._of += Counter()  # without those at zero


def add_routes(app: FastAPI, service: ControllerService) -> None:
    """Add it to ``app``."""
    listeners = _Listeners(known=service.settings.authentication.required)
    rights = by_item(service, _RIGHTS, *_KINDS)

    @app.get("/v1/events", response_class=Response, responses=_OK, dependencies=[rights])
    async def get_events(
        caller: CallerOf, timeout_ms: Annotated[int, Query(ge=1, le=MAX_DURATION)] = MAX_DURATION
    ) -> Response:
        """Server-sent events: what the caller may see of the cluster now, then what changes, for ``timeout_ms`` milliseconds.

        ``controller`` (Readiness) is this controller's role, ``controllers`` (ControllerList), ``topics`` (TopicsEvent),
        ``reassignments`` (ReassignmentsEvent), ``reviews`` (ReviewList) are there at the beginning and whenever they differ;
        ``unavailable`` (Result) says why nothing is known. A comment comes every ten seconds without an event. Any controller
        answers. With 100 listeners at a controller, or 20 of one principal, it answers further ones 503.
        """
        await RIGHTS.run(service.access.check_any, caller, _KINDS)
        return _EventResponse(service, caller, timeout_ms / 1000, listeners)


class _EventResponse(StreamingResponse):
    """Starlette ends the iteration when the client goes away."""

    def __init__(
        self, service: ControllerService, caller: Caller, seconds: float, listeners: _Listeners
    ) -> None:
        super().__init__(_stream(service, caller, seconds), media_type=_MEDIA_TYPE)
        self._principal, self._listeners = caller.principal, listeners

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 503 when there are too many listeners."""
        try:
            self._listeners.add(self._principal)
        except UnavailableError as busy:
            await answer(busy)(scope, receive, send)
            return
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._listeners.remove(self._principal)


async def _stream(service: ControllerService, caller: Caller, seconds: float) -> AsyncIterator[str]:
    loop = asyncio.get_running_loop()
    now = sent_at = loop.time()
    deadline = now + seconds
    known, unavailable = Known(), False
    yield "retry: 1000\n\n"
    while now < deadline and not service.stopping:
        text = ""
        try:
            sample = await _sample(service, min(_PATIENCE, deadline - now))
            if sample is not None and (unavailable or sample is not known.sample):
                news = await RIGHTS.run(_news, service, caller, known, sample)
                if unavailable and not news:
                    news = [("controller", sample.value.role)]  # the listener must hear that it is over
                text, unavailable = "".join(_event(*one) for one in news), False
        except OrderedKafkaError as error:
            if not unavailable:
                text, unavailable = _event("unavailable", result(schemas.Result, error)), True
        now = loop.time()
        if not text and now - sent_at >= _HEARTBEAT:
            text = ":\n\n"
        if text:
            sent_at = now
            yield text
        await asyncio.sleep(max(0.0, min(_TICK, deadline - now)))
        now = loop.time()


async def _sample(service: ControllerService, patience: float) -> Answer[Sample] | None:
    """A sample that is fresh enough; None if none comes in time."""
    events = service.events
    waiting = asyncio.wrap_future(events.query.outcome(events.max_age))
    waiting.add_done_callback(retrieve_exception)
    done, _ = await asyncio.wait({waiting}, timeout=patience)
    return waiting.result() if done else None


def _news(
    service: ControllerService, caller: Caller, known: Known, sample: Answer[Sample]
) -> list[tuple[str, schemas.Answer]]:
    topics = [row.topic for row in sample.value.topics.topics]
    shown = {str(name) for name in service.access.among(caller, Operation.DESCRIBE, topics)}
    sees_cluster = service.access.allowed(caller, Operation.DESCRIBE, CLUSTER)
    return known.news(sample, shown, sees_cluster=sees_cluster)


def _event(name: str, data: schemas.Answer) -> str:
    # JSON has no line breaks of its own, so one field is enough.
    return f"event: {name}\ndata: {data.model_dump_json()}\n\n"
