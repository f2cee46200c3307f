"""Changes whose controller steps down while it is asked to wait for their end."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from spark_ordered_kafka.client.schemas import TopicResult
from spark_ordered_kafka.client.transport import TAKE_OVER
from spark_ordered_kafka.errors import ErrorCode, UnavailableError

_PAUSE = 0.1

Ask = Callable[[Sequence[int], float | None], Sequence[TopicResult]]
"""Sends the items of these positions, always under the same key, and waits so many seconds (None: not) for their ends."""


def settled(
    ask: Ask,
    count: int,
    wait: float | None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> list[TopicResult]:
    """Results of ``count`` items; those that a controller left to the next one are those of the next one.

    A controller that steps down answers NOT_CONTROLLER for what it has begun, and the next one continues it. Asked again
    with the same key, that one begins nothing anew, and waits (D-139). Raises what the first question raises.
    """
    deadline = clock() + (TAKE_OVER if wait is None else wait)
    results = list(ask(range(count), wait))
    while True:
        left = [index for index, item in enumerate(results) if item.error_code == ErrorCode.NOT_CONTROLLER]
        if not left or clock() >= deadline:
            return results
        sleep(min(_PAUSE, max(0.0, deadline - clock())))
        try:
            again = ask(left, None if wait is None else max(_PAUSE, deadline - clock()))
        except UnavailableError:
            # These results have the id of the change, which continues.
            return results
        for index, item in zip(left, again, strict=True):
            results[index] = item
