"""Errors as answers: the three fields of a result, and the HTTP status that goes with them."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.views import result
from spark_ordered_kafka.errors import ErrorCode, LayoutChangingError, OrderedKafkaError, RequestError

_STATUS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: HTTPStatus.NOT_FOUND,
    ErrorCode.GROUP_ID_NOT_FOUND: HTTPStatus.NOT_FOUND,
    ErrorCode.TOPIC_ALREADY_EXISTS: HTTPStatus.CONFLICT,
    ErrorCode.PARTITION_CHANGE_IN_PROGRESS: HTTPStatus.CONFLICT,
    ErrorCode.LOG_TRUNCATED: HTTPStatus.CONFLICT,
    ErrorCode.ACTIVE_FOREIGN_PRODUCERS: HTTPStatus.CONFLICT,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: HTTPStatus.FORBIDDEN,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: HTTPStatus.FORBIDDEN,
    ErrorCode.UNKNOWN_SERVER_ERROR: HTTPStatus.INTERNAL_SERVER_ERROR,
}
ERRORS: dict[int | str, dict[str, Any]] = {
    status.value: {"model": schemas.Result}
    for status in (
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.NOT_FOUND,
        HTTPStatus.CONFLICT,
        HTTPStatus.SERVICE_UNAVAILABLE,
    )
}
"""What every route may answer beside its own."""


def add_handlers(app: FastAPI) -> None:
    """Let every error of the package, and of the framework, be answered as a result."""
    app.add_exception_handler(OrderedKafkaError, _refuse)
    app.add_exception_handler(RequestValidationError, _refuse_invalid)
    app.add_exception_handler(HTTPException, _refuse_route)


def answer(error: OrderedKafkaError) -> JSONResponse:
    """The answer to a request that ``error`` ended."""
    if isinstance(error, LayoutChangingError):
        headers = {"Retry-After": f"{error.retry_after:g}"}
        return _answer(error, HTTPStatus.SERVICE_UNAVAILABLE, headers)
    if error.retriable:
        return _answer(error, HTTPStatus.SERVICE_UNAVAILABLE)
    return _answer(error, _STATUS.get(error.code, HTTPStatus.BAD_REQUEST))


def described(errors: list[Any]) -> str:
    """What pydantic found wrong, with fields and values."""
    lines = []
    for error in errors:
        field = ".".join(str(part) for part in error["loc"] if part not in ("body", "query", "path"))
        shown = "" if error["type"] == "missing" else f" has the value {str(error['input'])[:100]!r}"
        lines.append(f"{field or 'the body'}{shown}: {error['msg']}")
    return "; ".join(lines)


def _answer(error: OrderedKafkaError, status: int, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse(result(schemas.Result, error).model_dump(), status_code=status, headers=headers)


async def _refuse(_: Request, error: Exception) -> Response:
    if not isinstance(error, OrderedKafkaError):
        raise error
    return answer(error)


async def _refuse_invalid(_: Request, error: Exception) -> Response:
    if not isinstance(error, RequestValidationError):
        raise error
    refusal = RequestError(ErrorCode.INVALID_REQUEST, described(list(error.errors())))
    return _answer(refusal, HTTPStatus.BAD_REQUEST)


async def _refuse_route(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    refusal = RequestError(ErrorCode.INVALID_REQUEST, f"{request.method} {request.url.path}: {error.detail}")
    return _answer(refusal, error.status_code)
