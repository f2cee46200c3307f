"""The caller of a request, as a dependency of routes."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from spark_ordered_kafka.controller.access.caller import ANONYMOUS, Caller

__all__ = ["ANONYMOUS", "Caller", "CallerOf", "caller_of"]


def caller_of(request: Request) -> Caller:
    """The caller that the authentication found; for use as a dependency of routes."""
    caller = getattr(request.state, "caller", None)
    if isinstance(caller, Caller):
        return caller
    return Caller(ANONYMOUS, "" if request.client is None else request.client.host)


CallerOf = Annotated[Caller, Depends(caller_of)]
"""A parameter of a route: who sends the request."""
