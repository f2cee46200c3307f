"""Values and errors as answers of the API."""

from __future__ import annotations

from typing import TypeVar

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.errors import OrderedKafkaError, RequestError

_AnswerT = TypeVar("_AnswerT", bound=schemas.Answer)
_ResultT = TypeVar("_ResultT", bound=schemas.Result)

_MAX_MESSAGE = 4000
"""Characters."""


def view(kind: type[_AnswerT], source: object, **more: object) -> _AnswerT:
    """An answer with what ``source`` has under the same names as its fields, and with ``more``, which wins."""
    same = {name: getattr(source, name) for name in kind.model_fields if hasattr(source, name)}
    return kind.model_validate(same | more)


def result(kind: type[_ResultT], error: OrderedKafkaError, **fields: object) -> _ResultT:
    """``error`` as the three fields of a result."""
    message = error.message if isinstance(error, RequestError) else str(error)
    if len(message) > _MAX_MESSAGE:  # it names what was sent, which may be megabytes
        message = f"{message[:_MAX_MESSAGE]}…"
    return kind.model_validate(
        {**fields, "error_code": int(error.code), "error": error.name, "error_message": message}
    )
