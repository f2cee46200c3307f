"""Requests and answers as the models of :mod:`spark_ordered_kafka.client.schemas`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypedDict, TypeVar, Unpack

from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError

from spark_ordered_kafka.client.transport import Transport
from spark_ordered_kafka.client.waits import patience_of
from spark_ordered_kafka.errors import ConfigError

_AnswerT = TypeVar("_AnswerT", bound=BaseModel)


class Options(TypedDict, total=False):
    """Arguments of :meth:`Transport.send`."""

    params: Mapping[str, str]
    extra_timeout: float | None
    repeatable: bool | None
    key: str | None
    retry_for: float | None


class TypedTransport(Transport):
    """A transport that knows the models."""

    def ask(
        self,
        answer: type[_AnswerT],
        method: str,
        path: str,
        body: BaseModel | None = None,
        **options: Unpack[Options],
    ) -> _AnswerT:
        """The controller's answer, validated. Options and errors are those of :meth:`Transport.send`."""

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
        return self.send(parse, method, path, body=content, **options)

    def text(self, path: str) -> str:
        """The answer to a GET as it is. Raises as :meth:`Transport.send`."""
        return self.send(lambda content: content.decode("utf-8", "replace"), "GET", path)


class Calls:
    """Part of a client of the API."""

    _transport: TypedTransport

    def _get(
        self, answer: type[_AnswerT], path: str, *, extra_timeout: float | None = None, **params: object
    ) -> _AnswerT:
        return self._transport.ask(answer, "GET", path, params=query(**params), extra_timeout=extra_timeout)

    def _post(
        self, answer: type[_AnswerT], path: str, body: BaseModel | None = None, **options: Unpack[Options]
    ) -> _AnswerT:
        """The controller may take as long as the request says, where it has a ``timeout_ms``."""
        said = {} if body is None else vars(body)
        if "timeout_ms" in said:
            options.setdefault("extra_timeout", patience_of(said["timeout_ms"]))
        return self._transport.ask(answer, "POST", path, body, **options)


def query(**params: object) -> dict[str, str]:
    """The parameters that say something: neither None nor False nor an empty list. Items have commas between them."""
    lists = {
        name: ",".join(map(str, value)) or None
        for name, value in params.items()
        if isinstance(value, Iterable) and not isinstance(value, str)
    }
    return {
        name: "true" if value is True else str(value)
        for name, value in (params | lists).items()
        if value is not None and value is not False
    }
