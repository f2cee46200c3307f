"""Request bodies, read as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, ParamSpec, TypeVar, get_args

from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.api.http.errors import ContentTypeError, described
from spark_ordered_kafka.controller.api.http.thread_pools import BODIES
from spark_ordered_kafka.errors import invalid_request
from spark_ordered_kafka.json_texts import finite

_ResultT = TypeVar("_ResultT")
_Params = ParamSpec("_Params")
_JSON = "application/json"
_MAX_DESCRIBED = 10_000
_SHOWN = 100
_BOUNDS = (("values", (b",", b"[", b"{"), 1_000_000), ("names", (b":",), 400_000))
"""Limits of a body: a name, the bytes that are counted, and the maximum. Explicit replicas of 100,000 partitions are 400,000
values and 100,000 names; a plan of 90,000 partitions, the maximum size of a body, has 990,000 and 360,000."""
_SMALL = 64 * 1024
"""Bytes up to which a body is parsed on the event loop."""


class JsonRoute(APIRoute):
    """A route whose body, declared as FastAPI has it, is parsed and validated here (D-222)."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """FastAPI's handler, which gets the body as the model that it declares, or is not called."""
        handle, models = super().get_route_handler(), models_of(self)
        if not models:
            return handle

        async def read(request: Request) -> Response:
            require_json(request.headers.get("content-type"))
            validated = _ValidatedRequest(request.scope, request.receive)
            content = await validated.body()
            validated.model = await off_loop(content, _validated, models, content)
            return await handle(validated)

        return read


class _ValidatedRequest(Request):
    model: BaseModel

    async def json(self) -> BaseModel:
        """What FastAPI takes for parsed JSON, and validates: a model passes as it is."""
        return self.model


async def off_loop(
    body: bytes, parse: Callable[_Params, _ResultT], *args: _Params.args, **named: _Params.kwargs
) -> _ResultT:
    """The result of ``parse``, called in a thread unless ``body`` is small, so that the event loop is not blocked."""
    if len(body) <= _SMALL:
        return parse(*args, **named)
    return await BODIES.run(parse, *args, **named)


def _validated(models: Sequence[type[BaseModel]], content: bytes) -> BaseModel:
    model = _chosen(models, parsed_json(content))
    try:
        return model.model_validate_json(content)
    except ValidationError as error:
        raise invalid_request(_described(error)) from error


def _chosen(models: Sequence[type[BaseModel]], parsed: Any) -> type[BaseModel]:
    """The last of ``models`` whose required fields ``parsed`` has; of none, the first."""
    names = parsed if isinstance(parsed, dict) else {}
    for model in reversed(models):
        if all(name in names for name, field in model.model_fields.items() if field.is_required()):
            return model
    return models[0]


def parsed_json(body: bytes) -> Any:
    """The JSON of a body. Raises RequestError INVALID_REQUEST for invalid JSON; for an object with two members of one name,
    since parsers differ in which one counts (RFC 8259, section 4); and for one that would take much more memory than its
    bytes.
    """
    # Before parsing, which takes memory, and time in which no other thread runs. The count includes characters in texts, which
    # does not matter at such numbers (D-146).
    for what, signs, most in _BOUNDS:
        count = sum(map(body.count, signs))
        if count > most:
            raise invalid_request(
                f"the body has about {count} {what}: at most {most} are taken, divide the request"
            )
    try:
        parsed = from_json(body, allow_inf_nan=False)
        # The body is valid JSON of limited depth here, and pydantic takes 1e999 for infinity. Whole numbers stay texts.
        json.loads(body, object_pairs_hook=_members, parse_int=str, parse_float=finite)
    except ValueError as error:
        raise invalid_request(f"the body is not JSON: {error}") from error
    return parsed


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > schemas.MAX_ITEMS:
        raise invalid_request(
            f"the body has an object with {len(pairs)} members: at most {schemas.MAX_ITEMS} are taken, divide the request"
        )
    members = dict(pairs)
    if len(members) < len(pairs):
        ((duplicate, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise invalid_request(
            f"the body has {duplicate[:_SHOWN]!r} twice in one object: each name may be there once"
        )
    return members


def _described(error: ValidationError) -> str:
    # Pydantic writes down all or nothing: of millions, that takes gigabytes, and longer than ZooKeeper waits for the leader.
    if error.error_count() > _MAX_DESCRIBED:
        return (
            f"the body has {error.error_count()} wrong fields, which are too many to name: send fewer at once"
        )
    return described(error.errors(include_url=False))


def require_json(content_type: str | None) -> None:
    """Raises ContentTypeError unless the header is JSON in UTF-8 (D-144).

    A page of another site can let a browser send any other type, with the user's credentials, without a preflight.
    """
    kind, _, parameters = (content_type or "").partition(";")
    charset = parameters.strip().lower()
    if kind.strip().lower() != _JSON or charset not in ("", "charset=utf-8", 'charset="utf-8"'):
        shown = "is missing" if content_type is None else f"has the value {content_type[:100]!r}"
        raise ContentTypeError(f"the header Content-Type {shown}: {_JSON} is needed")


def models_of(route: APIRoute) -> tuple[type[BaseModel], ...]:
    """The models of which a body of the route may be; empty: it takes no body."""
    if route.body_field is None:
        return ()
    declared = route.body_field.field_info.annotation
    return get_args(declared) or (declared,)


async def read_body(scope: Scope, receive: Receive) -> bytes | None:
    """The whole body, which the limits in front of this bound; None when the client went away before its end."""
    try:
        return await Request(scope, receive).body()
    except ClientDisconnect:
        return None


def replayed(body: bytes, receive: Receive) -> Receive:
    """Receives ``body`` again, and then the messages after it."""
    sent = False

    async def again() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again
