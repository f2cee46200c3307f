"""Answers about several topics, for each its own, given in time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import TypeVar

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.access.acls import Operation
from spark_ordered_kafka.controller.api.http.caller import Caller
from spark_ordered_kafka.controller.api.http.thread_pools import RIGHTS
from spark_ordered_kafka.controller.results import result
from spark_ordered_kafka.controller.service import ControllerService
from spark_ordered_kafka.controller.topics.batches import check_named, in_order
from spark_ordered_kafka.controller.zk.session import ZooKeeperError
from spark_ordered_kafka.errors import OrderedKafkaError, UnavailableError

DEFAULT_TIMEOUT = 60.0
"""Seconds, of requests that do not say ``timeout_ms``; Kafka's ``default.api.timeout.ms``."""

_ValueT = TypeVar("_ValueT")


def seconds(timeout_ms: int | None) -> float:
    """How long a request may take."""
    return DEFAULT_TIMEOUT if timeout_ms is None else timeout_ms / 1000


async def outcomes(
    executor: Executor, work: Sequence[Callable[[], _ValueT]], timeout: float
) -> list[_ValueT | OrderedKafkaError]:
    """What each call of ``work`` returned or raised, made one after another by a thread of ``executor``.

    After ``timeout`` seconds those that have not begun are left out, and one that has goes on without being waited for;
    its error says so. On the event loop, not in a thread of the pool: waiting requests must not starve writers' checks.
    """
    futures = in_order(executor, work)
    waiting = [asyncio.wrap_future(future) for future in futures]
    for one in waiting:
        one.add_done_callback(_look_at)
    if waiting:
        await asyncio.wait(waiting, timeout=timeout)
    # The last first, or the thread would begin with the next while the one before it is left out.
    left_out = {index for index in reversed(range(len(futures))) if futures[index].cancel()}
    found: list[_ValueT | OrderedKafkaError] = []
    for index, future in enumerate(futures):
        if index in left_out:
            found.append(UnavailableError(f"not begun within {timeout:g} s: nothing was done"))
        elif not future.done():
            found.append(UnavailableError(f"not done within {timeout:g} s: it goes on, look for its end"))
        elif (error := future.exception()) is None:
            found.append(future.result())
        elif isinstance(error, OrderedKafkaError):
            found.append(error)
        else:
            raise error
    return found


async def each(
    service: ControllerService,
    caller: Caller,
    operation: Operation | None,
    work: Sequence[tuple[str, Callable[[], _ValueT]]],
    timeout: float,
) -> list[_ValueT | OrderedKafkaError]:
    """:func:`outcomes` of the work for each topic that a request names, by the threads of ``service``.

    Topics that the caller may not do ``operation`` to (None: whatever is needed was checked), or that are named twice,
    are refused. Raises RequestError INVALID_REQUEST when none is named.
    """
    topics = [topic for topic, _ in work]
    refused = check_named(topics)
    if operation is not None:
        refused |= await RIGHTS.run(service.access.refusals, caller, operation, topics)
    done = await outcomes(service.workers, [call for topic, call in work if topic not in refused], timeout)
    for one in done:
        if isinstance(one, ZooKeeperError):
            raise one  # another controller may tell, and begin with the rest
    rest = iter(done)
    return [refused[topic] if topic in refused else next(rest) for topic in topics]


def topic_results(
    topics: Sequence[str], found: Sequence[schemas.TopicResult | OrderedKafkaError]
) -> schemas.TopicResults:
    """Outcomes as the API shows them; ``topics`` are those of the outcomes."""
    return schemas.TopicResults(
        topics=[
            result(schemas.TopicResult, one, topic=topic) if isinstance(one, OrderedKafkaError) else one
            for topic, one in zip(topics, found, strict=True)
        ]
    )


def begun_results(
    topics: Sequence[str], begun: Sequence[tuple[schemas.TopicResult, _ValueT | None] | OrderedKafkaError]
) -> tuple[list[schemas.TopicResult], list[_ValueT | None]]:
    """Results of what was begun, and what goes on for each."""
    results: list[schemas.TopicResult] = []
    going: list[_ValueT | None] = []
    for topic, one in zip(topics, begun, strict=True):
        if isinstance(one, OrderedKafkaError):
            results.append(result(schemas.TopicResult, one, topic=topic))
            going.append(None)
        else:
            results.append(one[0])
            going.append(one[1])
    return results, going


def bounded(wait: float, timeout_ms: int | None, deadline: float) -> float:
    """Seconds to wait for the end of what was begun; ``deadline`` in ``time.monotonic()`` seconds is that of the request,
    if it was given one."""
    return wait if timeout_ms is None else min(wait, max(0.0, deadline - time.monotonic()))


def _look_at(future: asyncio.Future[_ValueT]) -> None:
    """Or asyncio complains about errors that come after the answer; they are in the log already."""
    if not future.cancelled():
        future.exception()


def only(found: list[schemas.TopicResult | OrderedKafkaError]) -> schemas.TopicResult:
    """The result of a request for one topic, whose error is that of the whole request."""
    (one,) = found
    if isinstance(one, OrderedKafkaError):
        raise one
    return one
