"""How long a controller may take to answer, beyond a client's own timeout; seconds."""

from __future__ import annotations

_REQUEST_TIMEOUT = 60.0
DRAIN_TIMEOUT = 30.0
"""To ask brokers and group coordinators before it answers."""
PLAN_TIMEOUT = 120.0
"""To ask all brokers about all replicas, to wait for another plan and to make one for a large cluster."""


def patience_of(timeout_ms: int | None) -> float:
    """For a request that says ``timeout_ms``; without it, the controller's own limit."""
    return _REQUEST_TIMEOUT if timeout_ms is None else timeout_ms / 1000
