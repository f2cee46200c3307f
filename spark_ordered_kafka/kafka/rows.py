"""Requests that Kafka answers row by row, and questions that each broker answers for itself: who failed, and why."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeVar

from kafka import errors as kafka_errors

from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError, RequestError, UnavailableError
from spark_ordered_kafka.kafka.leaders import CHUNK
from spark_ordered_kafka.kafka.requests import BrokerRequests, broker_error, is_transient, refusal, translated
from spark_ordered_kafka.kafka.values import PartitionId

T = TypeVar("T")
K = TypeVar("K")
Answer = tuple[int, "str | None"]
"""Kafka's error code and message for one row."""

# What says nothing about the row: Kafka's controller moved, is busy, has just started, or did not answer the broker in time.
_REPEATED = frozenset(
    {
        kafka_errors.UnknownError.errno,
        kafka_errors.NotControllerError.errno,
        kafka_errors.RequestTimedOutError.errno,
        kafka_errors.ThrottlingQuotaExceededError.errno,
    }
)


def by_topic(tps: Iterable[PartitionId]) -> dict[str, list[int]]:
    """The partitions of each topic, in the order in which they come."""
    partitions: dict[str, list[int]] = defaultdict(list)
    for topic, partition in tps:
        partitions[topic].append(partition)
    return dict(partitions)


def answer_of(tp: PartitionId, code: int, message: str | None) -> Answer:
    """The answer for one partition, whose message names it."""
    topic, partition = tp
    return code, f"{topic}-{partition}: {message or broker_error(code).description}"


def chunks(rows: Collection[T]) -> Iterator[list[T]]:
    """``rows`` in pieces that fit into one request."""
    listed = list(rows)
    for first in range(0, len(listed), CHUNK):
        yield listed[first : first + CHUNK]


def ask_rows(
    requests: BrokerRequests,
    rows: Sequence[K],
    ask: Callable[[Sequence[K], float], Awaitable[Mapping[K, Answer]]],
    timeout: float,
    what: str,
) -> dict[K, RequestError]:
    """Have Kafka do something to each of ``rows``, which does no harm when it is done twice; those that failed.

    Args:
        ask: sends one request for some of the rows, at most 1,000, until a deadline in ``time.monotonic()`` seconds.
            What it raises is about all of them.
        timeout: seconds for each request and its repetitions.
        what: begins the message of an error, as "reassign partitions".

    Raises:
        RequestError: Kafka refused a request as a whole; earlier chunks are done.
        UnavailableError: no answer in time; some may have been done.
    """
    failures: dict[K, RequestError] = {}
    for chunk in chunks(rows):
        left: dict[K, Answer | None] = dict.fromkeys(chunk)
        attempt = partial(_ask_left, ask, left, failures, what)
        try:
            requests.retry(attempt, time.monotonic() + timeout, what)
        except UnavailableError:
            if None in left.values():
                raise
            failures |= {row: refusal(*answer, what) for row, answer in left.items() if answer is not None}
    return failures


async def _ask_left(
    ask: Callable[[Sequence[K], float], Awaitable[Mapping[K, Answer]]],
    left: dict[K, Answer | None],
    failures: dict[K, RequestError],
    what: str,
    deadline: float,
) -> None:
    """Take off ``left`` what is done or refused; raises a transient error while some are left."""
    answers = await ask(list(left), deadline)
    for row in list(left):
        code, message = answers.get(row, (ErrorCode.UNKNOWN_SERVER_ERROR, f"Kafka says nothing about {row}"))
        left[row] = (code, message)
        if code in _REPEATED:
            continue
        del left[row]
        if code != 0:
            failures[row] = refusal(code, message, what)
    for answer in left.values():
        if answer is not None:
            raise broker_error(*answer)


def ask_each(
    requests: BrokerRequests,
    questions: Mapping[int, Callable[[float], Awaitable[T]]],
    timeout: float,
    what: str,
) -> dict[int, T | OrderedKafkaError]:
    """Every broker's answer to its question, all asked at the same time; the error of one that has none.

    A broker that is not alive has RequestError BROKER_NOT_AVAILABLE at once; one that hangs or cannot be reached is asked
    again until the time is up and has UnavailableError then, so the slowest one decides how long this takes.

    Args:
        questions: broker id -> coroutine function that is given a deadline in ``time.monotonic()`` seconds.
        timeout: seconds.
        what: begins the message of an error, as "describe log directories".

    Raises:
        RequestError: the cluster refuses to say which brokers it has.
    """
    if not questions:
        return {}
    answers: dict[int, T | OrderedKafkaError] = {}
    # May be better the next time.
    failed: dict[int, kafka_errors.KafkaError] = {}

    def explained(error: kafka_errors.KafkaError) -> OrderedKafkaError:
        return translated(error, what, requests.servers)

    async def ask(deadline: float) -> None:
        """Ask those that have not answered; raises a transient error while some have not."""
        live = await requests.broker_ids(deadline)
        for broker in questions.keys() - answers.keys() - set(live):
            message = f"{what}: broker {broker} is not alive"
            answers[broker] = RequestError(ErrorCode.BROKER_NOT_AVAILABLE, message)
        open_ = [broker for broker in questions if broker not in answers]
        outcomes = await requests.settle(questions[broker](deadline) for broker in open_)
        for broker, outcome in zip(open_, outcomes, strict=True):
            failed.pop(broker, None)
            if not isinstance(outcome, kafka_errors.KafkaError):
                answers[broker] = outcome
            elif is_transient(outcome):
                failed[broker] = outcome
            else:
                answers[broker] = explained(outcome)
        for error in failed.values():
            raise error

    try:
        requests.retry(ask, time.monotonic() + timeout, what)
    except UnavailableError as error:
        for broker in questions.keys() - answers.keys():
            answers[broker] = explained(failed[broker]) if broker in failed else error
    return {broker: answers[broker] for broker in questions}


def as_refusal(error: OrderedKafkaError) -> RequestError:
    """The error of a whole broker as that of one of its rows."""
    return error if isinstance(error, RequestError) else RequestError(error.code, str(error))
