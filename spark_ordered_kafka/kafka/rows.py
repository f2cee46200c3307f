"""Requests that Kafka answers row by row, and questions that each broker answers for itself: who failed, and why."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Generic, TypeVar

from kafka import errors as kafka_errors

from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError, RequestError, UnavailableError
from spark_ordered_kafka.kafka.leaders import CHUNK
from spark_ordered_kafka.kafka.requests import BrokerRequests, broker_error, is_transient, refusal, translated
from spark_ordered_kafka.kafka.values import PartitionId

T = TypeVar("T")
K = TypeVar("K")
Answer = tuple[int, "str | None"]
"""Kafka's error code and message for one row."""

# What says nothing about the row: Kafka's controller moved, is busy, or did not answer the broker in time.
_REPEATED = frozenset(
    {
        kafka_errors.NotControllerError.errno,
        kafka_errors.RequestTimedOutError.errno,
        kafka_errors.ThrottlingQuotaExceededError.errno,
    }
)


def by_topic(places: Iterable[PartitionId]) -> dict[str, list[int]]:
    """The partitions of each topic, in the order in which they come."""
    partitions: dict[str, list[int]] = defaultdict(list)
    for topic, partition in places:
        partitions[topic].append(partition)
    return dict(partitions)


def placed(place: PartitionId, code: int, message: str | None) -> Answer:
    """The answer for one partition, whose message names it."""
    topic, partition = place
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


class _Each(Generic[T]):
    """What brokers have answered so far; ``answers`` are final, ``failed`` may be better the next time."""

    def __init__(
        self, requests: BrokerRequests, questions: Mapping[int, Callable[[float], Awaitable[T]]], what: str
    ) -> None:
        self._requests = requests
        self._questions = questions
        self._what = what
        self.answers: dict[int, T | OrderedKafkaError] = {}
        self.failed: dict[int, kafka_errors.KafkaError] = {}

    async def ask(self, deadline: float) -> None:
        """Ask those that have not answered; raises a transient error while some have not."""
        live = await self._requests.broker_ids(deadline)
        for broker in self._questions.keys() - self.answers.keys() - set(live):
            message = f"{self._what}: broker {broker} is not alive"
            self.answers[broker] = RequestError(ErrorCode.BROKER_NOT_AVAILABLE, message)
        open_ = [broker for broker in self._questions if broker not in self.answers]
        outcomes = await self._requests.settle(self._questions[broker](deadline) for broker in open_)
        for broker, outcome in zip(open_, outcomes, strict=True):
            self.failed.pop(broker, None)
            if not isinstance(outcome, kafka_errors.KafkaError):
                self.answers[broker] = outcome
            elif is_transient(outcome):
                self.failed[broker] = outcome
            else:
                self.answers[broker] = self.explained(outcome)
        for error in self.failed.values():
            raise error

    def explained(self, error: kafka_errors.KafkaError) -> OrderedKafkaError:
        return translated(error, self._what, self._requests.servers)


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
    each = _Each(requests, questions, what)
    try:
        requests.retry(each.ask, time.monotonic() + timeout, what)
    except UnavailableError as error:
        for broker in questions.keys() - each.answers.keys():
            failed = each.failed.get(broker)
            each.answers[broker] = error if failed is None else each.explained(failed)
    return {broker: each.answers[broker] for broker in questions}


def as_refusal(error: OrderedKafkaError) -> RequestError:
    """The error of a whole broker as that of one of its rows."""
    return error if isinstance(error, RequestError) else RequestError(error.code, str(error))
