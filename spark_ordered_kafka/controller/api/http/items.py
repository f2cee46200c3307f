"""Answers about several topics, each with its own result, in time."""

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
"""Seconds, for requests without ``timeout_ms``; Kafka's ``default.api.timeout.ms``."""

_ValueT = TypeVar("_ValueT")


def seconds(timeout_ms: int | None) -> float:
    """Time limits of a request."""
    return DEFAULT_TIMEOUT if timeout_ms is None else timeout_ms / 1000


async def outcomes(
    executor: Executor, work: Sequence[Callable[[], _ValueT]], timeout: float
) -> list[_ValueT | OrderedKafkaError]:
    """What each call of ``work`` returned or raised; a thread of ``executor`` makes the calls one after another.

    After ``timeout`` seconds, calls that have not begun are skipped, and a running one continues in the background; its error
    says so. On the event loop, not in a thread of the pool: waiting requests must not starve writers' checks.
    """
    futures = in_order(executor, work)
    waiting = [asyncio.wrap_future(future) for future in futures]
    for one in waiting:
        one.add_done_callback(retrieve_exception)
    if waiting:
        await asyncio.wait(waiting, timeout=timeout)
    # The last first, or the thread would start the next call while this one is cancelled.
    skipped = {index for index in reversed(range(len(futures))) if futures[index].cancel()}
    found: list[_ValueT | OrderedKafkaError] = []
    for index, future in enumerate(futures):
        if index in skipped:
            found.append(UnavailableError(f"not begun within {timeout:g} s: nothing was done"))
        elif not future.done():
            found.append(UnavailableError(f"not done within {timeout:g} s: it continues in the background"))
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

    Refuses topics that the caller may not do ``operation`` to (None: already checked), and topics named twice. Raises
    RequestError INVALID_REQUEST when none is named.
    """
    topics = [topic for topic, _ in work]
    refused = check_named(topics)
    if operation is not None:
        refused |= await RIGHTS.run(service.access.refusals, caller, operation, topics)
    done = await outcomes(service.workers, [call for topic, call in work if topic not in refused], timeout)
    for one in done:
        if isinstance(one, ZooKeeperError):
            raise one  # another controller may know the outcome, and start the rest
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
    """Results of started work, and the running part of each."""
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
    """Seconds to wait for started work; ``deadline`` in ``time.monotonic()`` seconds is that of the request, if it has
    one."""
    return wait if timeout_ms is None else min(wait, max(0.0, deadline - time.monotonic()))


def retrieve_exception(future: asyncio.Future[_ValueT]) -> None:
    """Prevents asyncio's complaint about an unread error after the answer; the error is in the log already."""
    if not future.cancelled():
        future.exception()


def only(found: list[_ValueT | OrderedKafkaError]) -> _ValueT:
    """The result of a request for one thing, whose error is that of the whole request."""
    (one,) = found
    if isinstance(one, OrderedKafkaError):
        raise one
    return one
