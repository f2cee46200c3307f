"""Who sent a request."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import Request

ANONYMOUS = "User:ANONYMOUS"
"""``KafkaPrincipal.ANONYMOUS``."""


@dataclass(frozen=True)
class Caller:
    """``principal`` is as Kafka prints it (``User:alice``); ``host`` is the address the request came from."""

    principal: str
    host: str


def caller_of(request: Request) -> Caller:
    """The caller that the authentication found; for use as a dependency of routes."""
    caller = getattr(request.state, "caller", None)
    if isinstance(caller, Caller):
        return caller
    return Caller(ANONYMOUS, "" if request.client is None else request.client.host)
