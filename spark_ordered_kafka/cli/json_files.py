"""Files with the JSON of a request."""

from __future__ import annotations

from typing import BinaryIO, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.json_texts import json_value

_SHOWN = 60
"""Characters of a wrong value that an error shows."""

_ModelT = TypeVar("_ModelT", bound=BaseModel)


def read_json(kind: type[_ModelT], file: BinaryIO, option: str) -> _ModelT:
    """The parsed content of the file that ``option`` names.

    Raises:
        ConfigError: it is not JSON (names the line), or a field is missing, unknown or of a wrong type (names the field).
    """
    content = file.read()
    try:
        model = kind.model_validate_json(content)
        json_value(content)  # pydantic takes the last of two members with one name
    except ValidationError as error:
        wrong = error.errors(include_url=False)
        more = f"; and {len(wrong) - 1} more like it" if len(wrong) > 1 else ""
        name = getattr(file, "name", "<stdin>")
        raise ConfigError(option, name, f"{_described(wrong[0])}{more}") from None
    except ValueError as error:
        raise ConfigError(option, getattr(file, "name", "<stdin>"), f"Invalid JSON: {error}") from None
    return model


def _described(error: ErrorDetails) -> str:
    if error["type"] == "json_invalid":
        return error["msg"]
    field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error["loc"])
    shown = "" if error["type"] == "missing" else f" has the value {str(error['input'])[:_SHOWN]!r}"
    return f"{field.removeprefix('.') or 'the JSON'}{shown}: {error['msg']}"
