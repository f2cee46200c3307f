"""Errors as answers: the three fields of a result, and the HTTP status that goes with them."""

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
from spark_ordered_kafka.errors import ErrorCode, LayoutChangingError, OrderedKafkaError, RequestError

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
    # Of the controller itself, at Kafka: callers whose credentials are wrong do not get as far as here.
    ErrorCode.SASL_AUTHENTICATION_FAILED: HTTPStatus.INTERNAL_SERVER_ERROR,
    ErrorCode.UNKNOWN_SERVER_ERROR: HTTPStatus.INTERNAL_SERVER_ERROR,
}
ERRORS: dict[int | str, dict[str, Any]] = {
    status.value: {"model": schemas.Result}
    for status in (
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.UNAUTHORIZED,
        HTTPStatus.FORBIDDEN,
        HTTPStatus.NOT_FOUND,
        HTTPStatus.CONFLICT,
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        HTTPStatus.REQUEST_URI_TOO_LONG,
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        HTTPStatus.MISDIRECTED_REQUEST,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    )
}
"""What every route may answer beside its own."""


class ContentTypeError(RequestError):
    """The body is said to be something else than JSON."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INVALID_REQUEST, message)


def add_handlers(app: FastAPI) -> None:
    """Let every error of the package, and of the framework, be answered as a result."""
    app.add_exception_handler(OrderedKafkaError, _refuse)
    app.add_exception_handler(RequestValidationError, _refuse_invalid)
    app.add_exception_handler(HTTPException, _refuse_route)


def answer(error: OrderedKafkaError) -> JSONResponse:
    """The answer to a request that ``error`` ended."""
    if isinstance(error, LayoutChangingError):
        headers = {"Retry-After": f"{error.retry_after:g}"}
        return answer_with(error, HTTPStatus.SERVICE_UNAVAILABLE, headers)
    if isinstance(error, ContentTypeError):
        return answer_with(error, HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
    if isinstance(error, ZooKeeperError):
        # Not known to be done or not; what may be asked twice had better be asked of another controller.
        return answer_with(error, HTTPStatus.GATEWAY_TIMEOUT)
    if error.retriable:
        return answer_with(error, HTTPStatus.SERVICE_UNAVAILABLE)
    return answer_with(error, _STATUS.get(error.code, HTTPStatus.BAD_REQUEST))


def answer_with(
    error: OrderedKafkaError, status: int, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """The answer to a request that ``error`` ended, with a status that the error's code does not tell."""
    return JSONResponse(result(schemas.Result, error).model_dump(), status_code=int(status), headers=headers)


def described(errors: Sequence[Any]) -> str:
    """What pydantic found wrong, with fields and values: the first few of it."""
    lines = []
    for error in errors[:_SHOWN_ERRORS]:
        location = error["loc"]
        # FastAPI says first which part of the request it was.
        location = location[1:] if location[:1] in (("body",), ("query",), ("path",)) else location
        field = ".".join(str(part)[:_SHOWN] for part in location)
        shown = "" if error["type"] == "missing" else f" has the value {str(error['input'])[:_SHOWN]!r}"
        lines.append(f"{field or 'the body'}{shown}: {error['msg']}")
    if len(errors) > _SHOWN_ERRORS:
        lines.append(f"and {len(errors) - _SHOWN_ERRORS} more of the kind")
    return "; ".join(lines)


async def _refuse(_: Request, error: Exception) -> Response:
    if not isinstance(error, OrderedKafkaError):
        raise error
    return answer(error)


async def _refuse_invalid(_: Request, error: Exception) -> Response:
    if not isinstance(error, RequestValidationError):
        raise error
    refusal = RequestError(ErrorCode.INVALID_REQUEST, described(list(error.errors())))
    return answer(refusal)


async def _refuse_route(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    refusal = RequestError(ErrorCode.INVALID_REQUEST, f"{request.method} {request.url.path}: {error.detail}")
    headers = dict(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        # The framework names those of one route, but a path may have several.
        headers["Allow"] = ", ".join(methods_at(request.scope))
    return answer_with(refusal, error.status_code, headers)
