"""Which route a request is for, and whether that one changes anything."""

from __future__ import annotations

from fastapi.routing import APIRoute
from starlette.routing import Match, Route
from starlette.types import Scope

READING_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing (RFC 9110, section 9.2.1)."""
LEADER_READS = frozenset({"/v1/writer-names", "/v1/writer-names/release"})
"""Routes without lasting changes whose answers must come from one controller."""
_READS = frozenset(
    {
        *LEADER_READS,
        "/v1/layouts",
        "/v1/topics/{topic}/truncations",
        "/v1/topics/{topic}/misrouted",
        "/v1/reassignments/plan",
        "/v1/reassignments/verify",
    }
)
"""Routes that have a body and change nothing."""


def route_of(scope: Scope) -> Route | None:
    """The route that answers the request, or would with another method; None: there is none at this path."""
    found = scope.get("route")
    if isinstance(found, Route):
        return found
    partial = None
    for route in scope["app"].routes:
        if not isinstance(route, Route):
            continue
        match, _ = route.matches(scope)
        if match is Match.FULL:
            return route
        if match is Match.PARTIAL and partial is None:
            partial = route
    return partial


def operation_of(scope: Scope) -> APIRoute | None:
    """The route of the API that answers the request; None when there is none at this path for this method."""
    route = route_of(scope)
    if not isinstance(route, APIRoute) or scope["method"] not in (route.methods or ()):
        return None
    return route


def methods_at(scope: Scope) -> list[str]:
    """The methods that any route answers at the request's path."""
    routes = (route for route in scope["app"].routes if isinstance(route, Route))
    at_path = [route for route in routes if route.matches(scope)[0] is not Match.NONE]
    return sorted({method for route in at_path for method in route.methods or ()})


def route_with_body_of(scope: Scope) -> APIRoute | None:
    """The route of a request that may have a body; None for every other one, without a lookup."""
    if scope["type"] != "http" or scope["method"] in READING_METHODS:
        return None
    return operation_of(scope)


def mutation_of(scope: Scope) -> APIRoute | None:
    """The route of a request that may change something, which has none of :data:`READING_METHODS`."""
    route = route_with_body_of(scope)
    return None if route is None or route.path in _READS else route


def is_mutating(method: str, template: str) -> bool:
    """Whether a request by ``method`` to the route ``template`` (``/v1/topics/{topic}``) may change anything."""
    return method not in READING_METHODS and template not in _READS
