"""Answers that wait for the end of what was begun."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import Future

from fastapi.concurrency import run_in_threadpool

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.reassign.requests.replication import Moving, ReplicationFactors
from spark_ordered_kafka.controller.results import result
from spark_ordered_kafka.controller.state.change import FinishedChange
from spark_ordered_kafka.controller.zk.session import DeposedError
from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError, UnavailableError

_FIRST_LOOK, _LAST_LOOK = 0.05, 1.0

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


async def await_deletions(
    begun: Sequence[tuple[schemas.TopicResult, Future[None] | None] | OrderedKafkaError],
    left: float,
    timeout: float,
) -> list[schemas.TopicResult | OrderedKafkaError]:
    """What became of deletions ``left`` seconds later, or earlier; ``timeout`` is what they had in all."""
    going = [None if isinstance(one, OrderedKafkaError) or one[1] is None else one[1] for one in begun]
    pending = [asyncio.wrap_future(future) for future in going if future is not None]
    if pending:
        await asyncio.wait(pending, timeout=left)
    for one in pending:
        one.add_done_callback(_look_at)
    found: list[schemas.TopicResult | OrderedKafkaError] = []
    for item, future in zip(begun, going, strict=True):
        if isinstance(item, OrderedKafkaError):
            found.append(item)
        elif future is None:
            found.append(item[0])
        elif not future.done():
            found.append(
                UnavailableError(f"the deletion was begun and is not done within {timeout:g} s: it goes on")
            )
        elif (error := future.exception()) is None:
            found.append(item[0])
        elif isinstance(error, DeposedError):
            found.append(UnavailableError(f"the next controller goes on with the deletion: {error}"))
        elif isinstance(error, OrderedKafkaError):
            found.append(error)
        else:
            raise error
    return found


async def await_replicas(
    replication: ReplicationFactors,
    results: Sequence[schemas.TopicResult],
    moving: Sequence[Moving | None],
    wait: float,
) -> list[schemas.TopicResult]:
    """The results once the replicas are where they are to be, or ``wait`` seconds later."""
    deadline = time.monotonic() + wait
    pause = _FIRST_LOOK
    found = list(results)
    going = {index: one for index, one in enumerate(moving) if one is not None}
    while going:
        for index, one in list(going.items()):
            try:
                if not await run_in_threadpool(replication.ended, one):
                    continue
            except OrderedKafkaError as error:
                if error.retriable:
                    continue
                found[index] = result(schemas.TopicResult, error, topic=one.topic)
            del going[index]
        left = deadline - time.monotonic()
        if not going or left <= 0:
            break
        await asyncio.sleep(min(pause, left))
        pause = min(2 * pause, _LAST_LOOK)
    for index, one in going.items():
        late = UnavailableError(f"its replicas are still being moved after {wait:g} s: Kafka goes on with it")
        found[index] = result(schemas.TopicResult, late, topic=one.topic)
    return found


def _look_at(future: asyncio.Future[None]) -> None:
    """Or asyncio complains about errors that come after the answer; they are in the log already."""
    if not future.cancelled():
        future.exception()


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
