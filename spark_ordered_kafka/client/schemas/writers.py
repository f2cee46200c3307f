"""Bodies about the names of one-off writers."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from spark_ordered_kafka.client.schemas.base import Answer, Request

_Text = Annotated[str, Field(max_length=249)]


class WriterNameRequest(Request):
    """``POST /v1/writer-names``. ``topic``: what is to be written to; None: several topics, or not known yet."""

    topic: _Text | None = None


class WriterName(Answer):
    """A name that no other writer was given, or one that was given back; ``nonce`` says who was given it."""

    writer: str
    nonce: str


class WriterNameRelease(Request):
    """``POST /v1/writer-names/release``: its writer has ended. The fields are those of the hand-out."""

    topic: _Text | None = None
    writer: _Text
    nonce: _Text
