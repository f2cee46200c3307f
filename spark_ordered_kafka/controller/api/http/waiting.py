"""Answers that wait for the end of started work."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Annotated

from fastapi import Query
from fastapi.concurrency import run_in_threadpool

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.api.http.items import retrieve_exception
from spark_ordered_kafka.controller.reassign.requests.queries import ReassignmentQueries
from spark_ordered_kafka.controller.reassign.requests.replication import Moving, ReplicationFactors
from spark_ordered_kafka.controller.results import result
from spark_ordered_kafka.controller.state.change import FinishedChange
from spark_ordered_kafka.controller.topics.leaving import Leaving
from spark_ordered_kafka.controller.zk.session import DeposedError
from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError, UnavailableError, error_name
from spark_ordered_kafka.updates import updated

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0

MAX_WAIT = 600.0
"""Seconds a request may wait for its changes."""
Wait = Annotated[float | None, Query(gt=0, le=MAX_WAIT, allow_inf_nan=False)]
"""A parameter of a route: seconds to wait for the end of what it starts."""


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


async def await_leaving(
    what: str,
    begun: Sequence[tuple[schemas.TopicResult, Leaving | None] | OrderedKafkaError],
    deadline: float,
    timeout: float,
) -> list[schemas.TopicResult | OrderedKafkaError]:
    """Results of deletions or releases, at the latest at ``deadline`` (monotonic seconds). For messages: ``what`` they are, and
    the whole time they had."""
    going = [None if isinstance(one, OrderedKafkaError) or one[1] is None else one[1] for one in begun]
    pending = [asyncio.wrap_future(leaving.done) for leaving in going if leaving is not None]
    if pending:
        await asyncio.wait(pending, timeout=max(0.0, deadline - time.monotonic()))
    for one in pending:
        one.add_done_callback(retrieve_exception)
    found: list[schemas.TopicResult | OrderedKafkaError] = []
    for item, leaving in zip(begun, going, strict=True):
        if isinstance(item, OrderedKafkaError):
            found.append(item)
        elif leaving is None:
            found.append(item[0])
        elif not leaving.done.done():
            why = "" if leaving.failure is None else f"; so far: {leaving.failure}"
            found.append(
                UnavailableError(
                    f"the {what} is not done within {timeout:g} s: it continues in the background{why}"
                )
            )
        elif (error := leaving.done.exception()) is None:
            found.append(item[0])
        elif isinstance(error, DeposedError):
            found.append(UnavailableError(f"the next controller completes the {what}: {error}"))
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
    """The results once the replicas are in place, or ``wait`` seconds later."""
    deadline = time.monotonic() + wait
    pause = _FIRST_PAUSE
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
        pause = min(2 * pause, _LONGEST_PAUSE)
    for index, one in going.items():
        how = "Kafka continues it" if one.request_id is None else f"reassignment {one.request_id} continues"
        late = UnavailableError(f"its replicas are still being moved after {wait:g} s: {how}")
        found[index] = result(schemas.TopicResult, late, topic=one.topic)
    return found


async def await_begun(
    queries: ReassignmentQueries, answer: schemas.ReplicaLogDirsResult, wait: float
) -> schemas.ReplicaLogDirsResult:
    """The answer once the moves of its request have begun, but for those that wait for others, or ``wait`` seconds later.
    Replicas whose moves have failed by then have the error."""
    if answer.request_id is None:
        return answer
    deadline = time.monotonic() + wait
    while True:
        try:
            view = await run_in_threadpool(queries.view, answer.request_id)
        except OrderedKafkaError:
            return answer  # the request is stored, and its status says later how it is
        if view.complete or view.waiting == 0 or view.moving or time.monotonic() >= deadline:
            break
        await asyncio.sleep(_FIRST_PAUSE)
    failed = {
        (row.topic, row.partition): row
        for row in view.replicas
        if row.error_code not in (ErrorCode.NONE, ErrorCode.REASSIGNMENT_IN_PROGRESS)
    }
    rows = []
    for row in answer.replicas:
        error = failed.get((row.topic, row.partition))
        fields = {} if error is None else error.model_dump(include=set(schemas.Result.model_fields))
        rows.append(updated(row, **fields))
    return updated(answer, replicas=rows)


def _ended(
    item: schemas.TopicResult, future: asyncio.Future[FinishedChange] | None, wait: float
) -> schemas.TopicResult:
    if future is None:
        return item
    code: int
    if not future.done():
        code, message = (
            ErrorCode.REQUEST_TIMED_OUT,
            f"change {item.change_id} is still in progress after {wait:g} s",
        )
    elif (error := future.exception()) is not None:
        code, message = ErrorCode.NOT_CONTROLLER, f"the next controller resumes the change: {error}"
    elif (finished := future.result()).outcome == "done":
        return item
    elif finished.error_code is not None:
        code, message = finished.error_code, finished.error_message or finished.outcome
    else:
        code, message = ErrorCode.INVALID_REQUEST, f"change {item.change_id} was cancelled"
    return updated(item, error_code=int(code), error=error_name(code), error_message=message)
