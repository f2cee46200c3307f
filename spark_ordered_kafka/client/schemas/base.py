"""What all bodies share."""

from __future__ import annotations

import re
from typing import Annotated, Literal, TypeAlias, TypeVar, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from spark_ordered_kafka.client.layout_answers import HashName as HashName

ChangeKind = Literal["expand", "shrink", "order", "unorder"]
ChangeOutcome = Literal["done", "cancelled", "failed"]
PartitionStatus = Literal["live", "marked", "deleted"]

KINDS: tuple[ChangeKind, ...] = get_args(ChangeKind)

MAX_ITEMS = 200_000
"""Of a list or map in a request: as many as partitions that a topic may be created with."""

MAX_CONFIGS = 1000
"""Of a topic in a request; Kafka 4 knows 30."""

_ItemT = TypeVar("_ItemT")
_WordT = TypeVar("_WordT")
_CANONICAL = re.compile(r"0|-?[1-9][0-9]{0,99}")

Int32 = Annotated[int, Field(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, Field(ge=-(2**63), le=2**63 - 1)]
"""Kafka's integers: what does not fit is refused before it is looked at."""

TimeoutMs = Annotated[int, Field(ge=1, le=600_000)]
"""Milliseconds that a request may take."""


def _canonical(name: object) -> object:
    """Of the many ways to write a number, the one: as names in JSON, ``"1"`` and ``"01"`` would hide one another."""
    if isinstance(name, str):
        if _CANONICAL.fullmatch(name) is None:
            raise ValueError("a number is needed, in digits 0-9 without +, _, blanks and leading zeros")
        return int(name)
    return name


Number = Annotated[int, BeforeValidator(_canonical)]
"""A number that is text where it comes from: a name in JSON, a part of a path."""
Open: TypeAlias = _WordT | str
"""One of the words that this version knows, or a later version's, which is shown as it is. Of answers and znodes; what
users send has the known words alone."""
Many = Annotated[list[_ItemT], Field(max_length=MAX_ITEMS)]
"""A list in a request. What is too long is refused before its items are looked at."""
Replicas = Annotated[list[_ItemT], Field(max_length=1000, fail_fast=True)]
"""What is said of each replica of a partition: brokers, or log directories."""
Assignments = Annotated[dict[Number, Replicas[int]], Field(max_length=MAX_ITEMS)]
"""Partition -> broker ids, preferred leader first."""


class Request(BaseModel):
    """Base of request bodies: a misspelt field is refused instead of ignored."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Answer(BaseModel):
    """Base of answer bodies: immutable, unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Result(Answer):
    """Outcome of one item, and of a request that fails whole. ``error_code`` 0 (``NONE``) means done."""

    error_code: int = 0
    error: str = "NONE"
    error_message: str | None = None
