"""How long a caller waits, and a controller may take to answer beyond a client's own timeout; seconds."""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Callable
from numbers import Real
from typing import Any

from spark_ordered_kafka.errors import ConfigError

_REQUEST_TIMEOUT = 60.0
# Once Ctrl-C, or the end of the process, is on its way.
_INTERRUPTED = 2.0
DRAIN_TIMEOUT = 30.0
"""To ask brokers and group coordinators before it answers."""
PLAN_TIMEOUT = 120.0
"""To ask all brokers about all replicas, to wait for another plan and to make one for a large cluster."""


def patience_of(timeout_ms: int | None) -> float:
    """For a request that says ``timeout_ms``; without it, the controller's own limit."""
    return _REQUEST_TIMEOUT if timeout_ms is None else timeout_ms / 1000


def limit_of(timeout: Any) -> float | None:
    """The seconds of a ``timeout``; None, or a negative one: without limit. Raises ConfigError for what is no number."""
    if timeout is None:
        return None
    # The usual types first: poll() asks for each record.
    seconds = timeout if isinstance(timeout, (int, float)) else _seconds(timeout)
    if seconds != seconds:
        raise ConfigError("timeout", timeout, "seconds as a number; a negative one waits without limit")
    return seconds if 0 <= seconds <= threading.TIMEOUT_MAX else None


def deadline_of(timeout: Any, clock: Callable[[], float]) -> float:
    """When the time of a ``timeout`` is up, as :func:`limit_of`; infinity: never."""
    limit = limit_of(timeout)
    return math.inf if limit is None else clock() + limit


def patience_at_end() -> float:
    """Seconds to wait for brokers at a client's end (-1: until they answer): they may be what Ctrl-C was pressed for."""
    error = sys.exc_info()[1]
    return -1.0 if error is None or isinstance(error, Exception) else _INTERRUPTED


def _seconds(timeout: Any) -> float:
    """Of another kind of number; NaN of anything else."""
    return float(timeout) if isinstance(timeout, Real) else math.nan
