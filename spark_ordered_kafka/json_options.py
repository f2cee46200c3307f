"""Options whose values are JSON, checked against their shapes."""

from __future__ import annotations

from typing import Annotated, TypeVar

from pydantic import Field, StringConstraints, TypeAdapter, ValidationError

from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.json_texts import json_value

_Partition = Annotated[int, Field(ge=0, lt=2**31)]
_PartitionName = Annotated[str, StringConstraints(pattern=r"^(0|[1-9][0-9]{0,8})$")]
_Long = Annotated[int, Field(ge=-(2**63), lt=2**63)]
_NUMBERS = TypeAdapter(dict[str, dict[_PartitionName, _Long]])
_PARTITIONS = TypeAdapter(dict[str, Annotated[frozenset[_Partition], Field(min_length=1)]])
_ParsedT = TypeVar("_ParsedT")


def longs(option: str, value: str, expected: str) -> dict[str, dict[str, int]]:
    """A number of 64 bits per topic and partition; raises ConfigError saying what was ``expected``."""
    return _parsed(_NUMBERS, option, value, expected)


def partitions(option: str, value: str, expected: str) -> dict[str, frozenset[int]]:
    """Partitions per topic, at least one each; raises ConfigError saying what was ``expected``."""
    return _parsed(_PARTITIONS, option, value, expected)


def _parsed(adapter: TypeAdapter[_ParsedT], option: str, value: str, expected: str) -> _ParsedT:
    try:
        parsed = adapter.validate_json(value, strict=True)
        json_value(value)  # pydantic takes the last of two members with one name
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        at = ".".join(map(str, first["loc"]))
        raise ConfigError(option, value, f"{expected}; {at + ': ' if at else ''}{first['msg']}") from error
    except ValueError as error:
        raise ConfigError(option, value, f"{expected}; {error}") from error
    return parsed
