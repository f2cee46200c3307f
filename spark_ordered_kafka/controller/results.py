"""Errors as the results of the API's items."""

from __future__ import annotations

from typing import TypeVar

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.errors import OrderedKafkaError, RequestError

_ResultT = TypeVar("_ResultT", bound=schemas.Result)

_MAX_MESSAGE = 4000
"""Characters."""


def result(kind: type[_ResultT], error: OrderedKafkaError, **fields: object) -> _ResultT:
    """``error`` as the three fields of a result."""
    message = error.message if isinstance(error, RequestError) else str(error)
    if len(message) > _MAX_MESSAGE:  # it names what was sent, which may be megabytes
        message = f"{message[:_MAX_MESSAGE]}…"
    return kind.model_validate(
        {**fields, "error_code": int(error.code), "error": error.name, "error_message": message}
    )
