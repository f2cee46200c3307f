"""Answers that wait for the end of changes."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.change import FinishedChange
from spark_ordered_kafka.errors import ErrorCode

MAX_WAIT = 600.0
"""Seconds a request may wait for its changes."""


async def await_changes(
    results: list[schemas.TopicResult], futures: list[Future[FinishedChange] | None], wait: float
) -> list[schemas.TopicResult]:
    """The results once the changes of ``futures`` have ended, or ``wait`` seconds later.

    On the event loop, not in a thread of the pool: waiting requests must not starve writers' checks.
    """
    wrapped = [None if future is None else asyncio.wrap_future(future) for future in futures]
    pending = [future for future in wrapped if future is not None]
    if pending:
        await asyncio.wait(pending, timeout=wait)
    return [_ended(item, future, wait) for item, future in zip(results, wrapped, strict=True)]


def _ended(
    item: schemas.TopicResult, future: asyncio.Future[FinishedChange] | None, wait: float
) -> schemas.TopicResult:
    if future is None:
        return item
    if not future.done():
        code, message = ErrorCode.REQUEST_TIMED_OUT, f"change {item.change_id} goes on after {wait:g} s"
    elif (error := future.exception()) is not None:
        code, message = ErrorCode.NOT_CONTROLLER, f"the next controller goes on with the change: {error}"
    elif (finished := future.result()).outcome == "done":
        return item
    elif finished.error_code is not None:
        code, message = ErrorCode(finished.error_code), finished.error_message or finished.outcome
    else:
        code, message = ErrorCode.INVALID_REQUEST, f"change {item.change_id} was cancelled"
    return item.model_copy(update={"error_code": int(code), "error": code.name, "error_message": message})
