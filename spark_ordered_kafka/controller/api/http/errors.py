"""Errors as answers: the three fields of a result, and the HTTP status."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.api.http.routing import methods_at
from spark_ordered_kafka.controller.results import result
from spark_ordered_kafka.controller.zk.session import ZooKeeperError
from spark_ordered_kafka.errors import (
    ErrorCode,
    LayoutChangingError,
    OrderedKafkaError,
    RequestError,
    invalid_request,
)

_SHOWN = 100
_SHOWN_ERRORS = 10
_STATUS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: HTTPStatus.NOT_FOUND,
    ErrorCode.GROUP_ID_NOT_FOUND: HTTPStatus.NOT_FOUND,
    ErrorCode.RESOURCE_NOT_FOUND: HTTPStatus.NOT_FOUND,
    ErrorCode.TOPIC_ALREADY_EXISTS: HTTPStatus.CONFLICT,
    ErrorCode.PARTITION_CHANGE_IN_PROGRESS: HTTPStatus.CONFLICT,
    ErrorCode.LOG_TRUNCATED: HTTPStatus.CONFLICT,
    ErrorCode.ACTIVE_FOREIGN_PRODUCERS: HTTPStatus.CONFLICT,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: HTTPStatus.FORBIDDEN,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: HTTPStatus.FORBIDDEN,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: HTTPStatus.FORBIDDEN,
    # The controller's own errors at Kafka: callers' wrong credentials fail earlier, and callers have no transactional ids.
    ErrorCode.SASL_AUTHENTICATION_FAILED: HTTPStatus.INTERNAL_SERVER_ERROR,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: HTTPStatus.INTERNAL_SERVER_ERROR,
    ErrorCode.UNKNOWN_SERVER_ERROR: HTTPStatus.INTERNAL_SERVER_ERROR,
}
ERRORS: dict[int | str, dict[str, Any]] = {
    status.value: {"model": schemas.Result}
    for status in (
        HTTPStatus.TEMPORARY_REDIRECT,
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.UNAUTHORIZED,
        HTTPStatus.FORBIDDEN,
        HTTPStatus.NOT_FOUND,
        HTTPStatus.CONFLICT,
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        HTTPStatus.REQUEST_URI_TOO_LONG,
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        HTTPStatus.MISDIRECTED_REQUEST,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    )
}
"""Answers of every route, besides its own."""


class ContentTypeError(RequestError):
    """The content type of the body is not JSON."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INVALID_REQUEST, message)


def add_handlers(app: FastAPI) -> None:
    """Answer every error of the package, and of the framework, as a result."""

    @app.exception_handler(OrderedKafkaError)
    async def refuse(_: Request, error: OrderedKafkaError) -> Response:
        return answer(error)

    @app.exception_handler(RequestValidationError)
    async def refuse_invalid(_: Request, error: RequestValidationError) -> Response:
        return answer(invalid_request(described(list(error.errors()))))

    @app.exception_handler(HTTPException)
    async def refuse_route(request: Request, error: HTTPException) -> Response:
        refusal = invalid_request(f"{request.method} {request.url.path}: {error.detail}")
        headers = dict(error.headers or {})
        if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            # The framework names those of one route, but a path may have several.
            headers["Allow"] = ", ".join(methods_at(request.scope))
        return answer_with(refusal, error.status_code, headers)


def answer(error: OrderedKafkaError) -> JSONResponse:
    """The answer to a request that ``error`` ended."""
    if isinstance(error, LayoutChangingError):
        headers = {"Retry-After": f"{error.retry_after:g}"}
        return answer_with(error, HTTPStatus.SERVICE_UNAVAILABLE, headers)
    if isinstance(error, ContentTypeError):
        return answer_with(error, HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
    if isinstance(error, ZooKeeperError):
        # Perhaps done, perhaps not; idempotent requests may be sent to another controller.
        return answer_with(error, HTTPStatus.GATEWAY_TIMEOUT)
    if error.retriable:
        return answer_with(error, HTTPStatus.SERVICE_UNAVAILABLE)
    return answer_with(error, _STATUS.get(error.code, HTTPStatus.BAD_REQUEST))


def answer_with(
    error: OrderedKafkaError, status: int, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """The answer to a request that failed with ``error``, with a status of its own."""
    return JSONResponse(result(schemas.Result, error).model_dump(), status_code=int(status), headers=headers)


def described(errors: Sequence[Any]) -> str:
    """Pydantic's first errors, with fields and values."""
    lines = []
    for error in errors[:_SHOWN_ERRORS]:
        location = error["loc"]
        # FastAPI's location begins with the part of the request.
        location = location[1:] if location[:1] in (("body",), ("query",), ("path",)) else location
        field = ".".join(str(part)[:_SHOWN] for part in location)
        shown = "" if error["type"] == "missing" else f" has the value {str(error['input'])[:_SHOWN]!r}"
        lines.append(f"{field or 'the body'}{shown}: {error['msg']}")
    if len(errors) > _SHOWN_ERRORS:
        lines.append(f"and {len(errors) - _SHOWN_ERRORS} more of the kind")
    return "; ".join(lines)
