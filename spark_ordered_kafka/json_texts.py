"""JSON that others have written: a value, or ValueError."""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any

_SHOWN = 100


def json_value(text: str | bytes) -> Any:
    """The value of a JSON text.

    Raises ValueError for what is no JSON (RFC 8259: NaN and Infinity are none), for numbers that a float cannot hold, for an
    object with two members of one name, of which parsers take different ones, and for more nesting than Python can follow.
    """
    try:
        return json.loads(text, object_pairs_hook=_members, parse_float=finite, parse_constant=_refused)
    except RecursionError as error:
        raise ValueError("the JSON is nested too deeply") from error


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"the name {twice[:_SHOWN]!r} is there twice in one object")
    return members


def finite(text: str) -> float:
    """A float; raises ValueError for infinity, which no JSON can hold again."""
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text[:_SHOWN]} is too large")
    return number


def _refused(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")
