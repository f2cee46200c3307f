"""Request bodies: read as JSON, described for OpenAPI."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError

from spark_ordered_kafka.controller.api.errors import described
from spark_ordered_kafka.errors import ErrorCode, RequestError

_BodyT = TypeVar("_BodyT", bound=BaseModel)


def reader(kind: type[_BodyT]) -> Callable[[Request], Awaitable[_BodyT]]:
    """A dependency that reads the body as JSON: strict models tell JSON's string keys from wrong types only there."""

    async def read(request: Request) -> _BodyT:
        try:
            return kind.model_validate_json(await request.body())
        except ValidationError as error:
            raise RequestError(ErrorCode.INVALID_REQUEST, described(error.errors())) from error

    return read


def body(kind: type[BaseModel]) -> dict[str, Any]:
    """A route's keyword arguments that describe its body as a ``kind``."""
    schema = kind.model_json_schema(ref_template=f"#/components/schemas/{kind.__name__}/$defs/{{model}}")
    content = {"application/json": {"schema": schema}}
    return {"openapi_extra": {"requestBody": {"required": True, "content": content}}}
