"""Request bodies: read as JSON, described for OpenAPI."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, ParamSpec, TypeVar

from fastapi import Request
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json
from starlette.types import Message, Receive

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.api.http.errors import ContentTypeError, described
from spark_ordered_kafka.controller.api.http.thread_pools import BODIES
from spark_ordered_kafka.errors import ErrorCode, RequestError

_BodyT = TypeVar("_BodyT", bound=BaseModel)
_ResultT = TypeVar("_ResultT")
_Params = ParamSpec("_Params")
_JSON = "application/json"
_MAX_DESCRIBED = 10_000
_SHOWN = 100
_BOUNDS = (("values", (b",", b"[", b"{"), 1_000_000), ("names", (b":",), 400_000))
"""What may be in a body, how its bytes tell, and how much of it. Explicit replicas of 100,000 partitions are 400,000 values and
100,000 names; a plan of 90,000 partitions, which is as long as a body may be, has 990,000 and 360,000."""
_SMALL = 64 * 1024
"""Bytes that are looked at in no time."""
COMPONENTS = "#/components/schemas/"


def reader(kind: type[_BodyT]) -> Callable[[Request], Awaitable[_BodyT]]:
    """A dependency that reads the body as JSON: strict models tell JSON's string keys from wrong types only there."""

    async def read(request: Request) -> _BodyT:
        require_json(request.headers.get("content-type"))
        content = await request.body()
        return await looked_at(content, _validated, kind, content)

    return read


async def looked_at(
    body: bytes, look: Callable[_Params, _ResultT], *args: _Params.args, **named: _Params.kwargs
) -> _ResultT:
    """What ``look`` makes of ``body``; unless that is small, in a thread: the event loop answers others meanwhile."""
    if len(body) <= _SMALL:
        return look(*args, **named)
    return await BODIES.run(look, *args, **named)


def _validated(kind: type[_BodyT], content: bytes) -> _BodyT:
    parsed_json(content)
    try:
        return kind.model_validate_json(content)
    except ValidationError as error:
        raise RequestError(ErrorCode.INVALID_REQUEST, _described(error)) from error


def parsed_json(body: bytes) -> Any:
    """The JSON of a body. Raises RequestError INVALID_REQUEST for what is none, and for an object with two members of one
    name: which of them counts depends on who reads it (RFC 8259, section 4), so one might be checked and the other done. Also
    for one that would take much more memory than its bytes.
    """
    # Before it is parsed, which takes memory, and time in which no other thread runs. Those in texts are counted, too, which
    # does not matter at such numbers.
    for what, signs, most in _BOUNDS:
        there = sum(map(body.count, signs))
        if there > most:
            raise RequestError(
                ErrorCode.INVALID_REQUEST,
                f"the body has about {there} {what}: at most {most} are taken, divide the request",
            )
    try:
        parsed = from_json(body, allow_inf_nan=False)
        # Of what is JSON, and not too deep, by now. Numbers are not looked at.
        json.loads(body, object_pairs_hook=_members, parse_int=str, parse_float=str)
    except ValueError as error:
        raise RequestError(ErrorCode.INVALID_REQUEST, f"the body is not JSON: {error}") from error
    return parsed


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > schemas.MAX_ITEMS:
        raise RequestError(
            ErrorCode.INVALID_REQUEST,
            f"the body has an object with {len(pairs)} members: at most {schemas.MAX_ITEMS} are taken, divide the request",
        )
    members = dict(pairs)
    if len(members) < len(pairs):
        ((doubled, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise RequestError(
            ErrorCode.INVALID_REQUEST,
            f"the body has {doubled[:_SHOWN]!r} twice in one object: each name may be there once",
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
    """Raises ContentTypeError unless the header says JSON in UTF-8.

    A page of another site can let a browser send any other type, with the user's credentials, without asking first.
    """
    kind, _, parameters = (content_type or "").partition(";")
    charset = parameters.strip().lower()
    if kind.strip().lower() != _JSON or charset not in ("", "charset=utf-8", 'charset="utf-8"'):
        shown = "is missing" if content_type is None else f"has the value {content_type[:100]!r}"
        raise ContentTypeError(f"the header Content-Type {shown}: {_JSON} is needed")


def body(*kinds: type[BaseModel]) -> dict[str, Any]:
    """A route's keyword arguments that describe its body as one of ``kinds``, of
    :mod:`spark_ordered_kafka.client.schemas`."""
    references = [{"$ref": COMPONENTS + kind.__name__} for kind in kinds]
    content = {_JSON: {"schema": references[0] if len(kinds) == 1 else {"anyOf": references}}}
    return {"openapi_extra": {"requestBody": {"required": True, "content": content}}}


def models_of(route: APIRoute) -> tuple[type[BaseModel], ...]:
    """What :func:`body` was told for the route; empty: it takes no body."""
    described_body = (route.openapi_extra or {}).get("requestBody")
    if described_body is None:
        return ()
    schema = described_body["content"][_JSON]["schema"]
    references: list[dict[str, str]] = schema.get("anyOf", [schema])
    return tuple(getattr(schemas, one["$ref"].removeprefix(COMPONENTS)) for one in references)


async def read_body(receive: Receive) -> bytes | None:
    """The whole body, which the limits in front of this bound; None when the client went away before its end."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += message.get("body", b"")
        if not message.get("more_body", False):
            return bytes(body)


def replayed(body: bytes, receive: Receive) -> Receive:
    """Says ``body`` again, and then what comes after it."""
    said = False

    async def again() -> Message:
        nonlocal said
        if said:
            return await receive()
        said = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again
