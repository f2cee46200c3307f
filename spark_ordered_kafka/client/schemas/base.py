"""What all bodies share."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

HashName = Literal["murmur3", "murmur2", "crc32"]
ChangeKind = Literal["expand", "shrink", "order", "unorder"]
ChangeStep = Literal["planned", "creating", "closing", "fencing", "boundaries", "committing"]
ChangeOutcome = Literal["done", "cancelled", "failed"]


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
