"""Requests and answers as the models of :mod:`spark_ordered_kafka.client.schemas`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError

from spark_ordered_kafka.client.transport import Transport
from spark_ordered_kafka.errors import ConfigError

_AnswerT = TypeVar("_AnswerT", bound=BaseModel)


class TypedTransport(Transport):
    """A transport that knows the models."""

    def ask(
        self,
        answer: type[_AnswerT],
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: BaseModel | None = None,
        extra_timeout: float | None = None,
        repeatable: bool | None = None,
        key: str | None = None,
        retry_for: float | None = None,
    ) -> _AnswerT:
        """The controller's answer, validated. Arguments and errors are those of :meth:`Transport.send`."""

        def parse(content: bytes) -> _AnswerT:
            try:
                return answer.model_validate_json(content)
            except ValidationError as error:
                first = error.errors(include_url=False)[0]
                what = ".".join(map(str, first["loc"])) or "the body"
                raise ValueError(f"a {answer.__name__}: {what}: {first['msg']}") from error

        # An older controller refuses fields that it does not know: those left at their defaults are not sent.
        try:
            content = (
                None
                if body is None
                else body.model_dump_json(exclude_none=True, exclude_defaults=True).encode()
            )
        except PydanticSerializationError as error:
            raise ConfigError("the request", f"{method} {path}", f"cannot be sent: {error}") from error
        return self.send(
            parse,
            method,
            path,
            params=params,
            body=content,
            extra_timeout=extra_timeout,
            repeatable=repeatable,
            key=key,
            retry_for=retry_for,
        )

    def text(self, path: str) -> str:
        """The answer to a GET as it is. Raises as :meth:`Transport.send`."""
        return self.send(lambda content: content.decode("utf-8", "replace"), "GET", path)
