"""Filters in a query: a parameter may be repeated, and each may hold several values with commas between them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated

from fastapi import Query

from spark_ordered_kafka.errors import invalid_request

# int() takes the digits of every script, and underscores.
_NUMBER = re.compile("[0-9]{1,10}")
_INT32_MAX = 2**31 - 1
_SHOWN = 100

Filter = Annotated[
    list[str] | None, Query(description="May be repeated, or hold several values with commas.")
]


def texts(name: str, given: Sequence[str] | None) -> list[str]:
    """The values of parameter ``name``, each once, in the order in which they come; empty without the parameter.

    Raises RequestError INVALID_REQUEST for an empty value.
    """
    values = [value for one in given or () for value in one.split(",")]
    if "" in values:
        raise invalid_request(
            f"{name} has the value {','.join(given or ())[:_SHOWN]!r}: values with a comma between them are needed",
        )
    return list(dict.fromkeys(values))


def numbers(name: str, given: Sequence[str] | None) -> list[int]:
    """As :func:`texts`, as numbers from 0 to 2147483647; refuses others."""
    values = texts(name, given)
    for value in values:
        if _NUMBER.fullmatch(value) is None or int(value) > _INT32_MAX:
            raise invalid_request(
                f"{name} has the value {value[:_SHOWN]!r}: a number from 0 to {_INT32_MAX} is needed"
            )
    return list(dict.fromkeys(map(int, values)))
