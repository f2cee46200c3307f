"""Delivery reports, from the threads that commit to the one that polls."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import chain
from typing import Any, cast

from confluent_kafka import KafkaError, KafkaException, Message

from spark_ordered_kafka.client.backlog import Chunk
from spark_ordered_kafka.client.records import DeliveryCallback
from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError, UnavailableError
from spark_ordered_kafka.kafka.producer import Row

_KAFKAS_OWN = range(0, 1000)
# Of an application that never polls; of more the oldest are dropped.
_MOST_EVENTS = 1000
# A callback and what it is called with; an event has no error.
_Call = tuple[Callable[[KafkaError | None, Any], object], KafkaError | None, Any]


class Attempt:
    """The reports of one attempt to commit a transaction; of no use when it is aborted.

    An object of its own, so that librdkafka's callbacks make no reference cycle with the producer.
    """

    def __init__(self) -> None:
        self.reports: list[_Call] = []
        self._takers: dict[int, DeliveryCallback] = {}

    def report(self, row: Row) -> None:
        """Replace the row's callback, if any, by one that notes its report here."""
        if (callback := row.get("callback")) is not None:
            row["callback"] = self._taker(callback)

    def _taker(self, callback: DeliveryCallback) -> DeliveryCallback:
        # By identity: equal callbacks need not be the same, and some cannot be hashed. The taker keeps it alive.
        taker = self._takers.get(id(callback))
        if taker is None:
            note = self.reports.append

            def taker(error: KafkaError | None, message: Message) -> None:
                note((callback, error, message))

            self._takers[id(callback)] = taker
        return taker


class Outbox:
    """Reports that wait to be served by ``poll()``; safe to share between threads."""

    def __init__(self) -> None:
        self._waiting: deque[_Call] = deque()
        self._events: deque[_Call] = deque(maxlen=_MOST_EVENTS)

    def __len__(self) -> int:
        return len(self._waiting) + len(self._events)

    def events(self, callback: Callable[[Any], object]) -> Callable[[Any], None]:
        """What librdkafka calls in place of a callback such as ``error_cb``: what it says waits here to be served."""

        def call(_: KafkaError | None, said: Any) -> None:
            callback(said)

        return lambda said: self._events.append((call, None, said))

    def committed(self, attempt: Attempt) -> None:
        """Report what a committed attempt delivered."""
        self._waiting.extend(attempt.reports)

    def given_up(self, topic: str, chunks: Iterable[Chunk], error: KafkaError) -> None:
        """Report records that will never be delivered."""
        for row in chain.from_iterable(chunk.rows(sorted(chunk.extras)) for chunk in chunks):
            if (callback := row.get("callback")) is not None:
                message = Message(topic=topic, key=row["key"], value=row["value"], error=error)
                self._waiting.append((callback, error, message))

    def serve(self) -> int:
        """Call the callbacks in the caller's thread; how many. What one raises is raised, the rest keeps waiting."""
        return _serve(self._events) + _serve(self._waiting)

    def serve_all(self) -> None:
        """Call all callbacks, also behind one that raises; what the first of those has raised is raised at the end."""
        first: Exception | None = None
        while self:
            try:
                self.serve()
            except Exception as error:  # noqa: BLE001 - raised below
                first = first or error
        if first is not None:
            raise first


def _serve(queue: deque[_Call]) -> int:
    # What comes meanwhile is for the next call. A call by a callback serves that and no more, or each would call the next.
    taken: deque[_Call] = deque()
    with suppress(IndexError):
        for _ in range(len(queue)):
            taken.append(queue.popleft())
    served = 0
    try:
        while taken:
            callback, error, said = taken.popleft()
            served += 1
            callback(error, said)
    finally:
        queue.extendleft(reversed(taken))
    return served


def kafka_error(error: BaseException) -> KafkaError:
    """One of our errors as a delivery report has it."""
    if isinstance(error, UnavailableError):
        return KafkaError(KafkaError._MSG_TIMED_OUT, str(error))
    if isinstance(error.__cause__, KafkaException):
        return cast(KafkaError, error.__cause__.args[0])
    if isinstance(error, OrderedKafkaError) and error.code in _KAFKAS_OWN and error.code != ErrorCode.NONE:
        return KafkaError(int(error.code), str(error))
    return KafkaError(KafkaError._FAIL, str(error))
