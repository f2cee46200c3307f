"""What the processes of a query ask the controllers: layouts, and which of their records the logs have lost.

Answers are read by msgspec: the pydantic models of all others take a quarter of a second to import, in each process of a
query (D-214).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Self, TypeVar

import msgspec

from spark_ordered_kafka.client.layout_answers import (
    LayoutHistories,
    LayoutHistoryView,
    PositionCheck,
    Truncations,
    WriterLayoutView,
)
from spark_ordered_kafka.client.paths import topic_path
from spark_ordered_kafka.client.transport import Transport
from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError, RequestError
from spark_ordered_kafka.kafka.shared_answers import SHARED_ANSWERS

_LAYOUT_RETRY = 0.05
"""Seconds between two questions for a layout. ``Retry-After`` counts whole seconds, but most closings take less."""

_MOST_TOPICS = 500
"""Of a request for layouts, so that it takes a controller a fraction of a second."""

_AnswerT = TypeVar("_AnswerT")


class LayoutCalls:
    """Part of :class:`~spark_ordered_kafka.client.controller.ControllerClient`, which says what they raise."""

    _transport: Transport

    def close(self) -> None:
        """Close the connections; the client cannot be used afterwards."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def through_take_overs(self) -> AbstractContextManager[None]:
        """As :meth:`Transport.through_take_overs`."""
        return self._transport.through_take_overs()

    def writer_layout(self, topic: str, *, retry_for: float | None = None) -> WriterLayoutView:
        """What a writer needs to place records; a linearizable read. ``retry_for`` instead of the client's own.

        Raises LayoutChangingError while a partition change is closing.
        """
        return self._transport.send(
            reader(WriterLayoutView),
            "GET",
            topic_path(topic, "layout"),
            params={"writer": "true"},
            topic=topic,
            retry_for=retry_for,
            is_quick=True,
        )

    def wait_for_layout(self, topic: str, timeout: float) -> WriterLayoutView:
        """The writer's layout, waiting while a change is closing or no controller answers.

        A change fences all writers of a process at once: those that ask as this client does share the answers (D-489).
        Raises the last retriable error once ``timeout`` (seconds) has passed.
        """
        deadline = time.monotonic() + timeout
        question = (self._transport.asker, topic)
        while True:
            try:
                return SHARED_ANSWERS.get(question, lambda: self.writer_layout(topic, retry_for=0.0))
            except OrderedKafkaError as error:
                left = deadline - time.monotonic()
                if not error.retriable or left <= 0.0:
                    raise
                pause = min(_LAYOUT_RETRY, left)
                time.sleep(pause)  # the controller answers at once while a change is closing

    def layout(self, topic: str, from_epoch: int = 0) -> LayoutHistoryView:
        """The committed layouts from ``from_epoch`` on; a linearizable read."""
        params = {"from_epoch": str(from_epoch)}
        return self._transport.send(
            reader(LayoutHistoryView), "GET", topic_path(topic, "layout"), params=params, is_quick=True
        )

    def layouts(self, asked: Sequence[tuple[str, int]]) -> list[LayoutHistoryView | RequestError]:
        """As :meth:`layout` of each topic and ``from_epoch``, or what it raises: all in one request, if they are not many.

        What is refused there is asked for by itself, since that route has more words for the reason.
        """
        found: list[LayoutHistoryView | RequestError] = []
        try:
            while len(asked) > 1 and len(found) < len(asked):
                found += self._some_layouts(asked[len(found) : len(found) + _MOST_TOPICS])
        except RequestError as error:
            # Controllers of earlier versions have no such route.
            if error.code is not ErrorCode.INVALID_REQUEST:
                raise
        return found + [self._layout_or_error(topic, from_epoch) for topic, from_epoch in asked[len(found) :]]

    def _some_layouts(self, asked: Sequence[tuple[str, int]]) -> list[LayoutHistoryView | RequestError]:
        """Of the first ones, of one at least."""
        question = {"topics": [{"topic": topic, "from_epoch": from_epoch} for topic, from_epoch in asked]}
        body = json.dumps(question).encode()
        answer = self._transport.send(
            _read_histories, "POST", "/v1/layouts", body=body, repeatable=True, is_quick=True
        )
        return [
            self._layout_or_error(*question) if row.history is None else row.history
            for question, row in zip(asked, answer.topics, strict=False)
        ]

    def _layout_or_error(self, topic: str, from_epoch: int) -> LayoutHistoryView | RequestError:
        try:
            return self.layout(topic, from_epoch)
        except RequestError as error:
            return error

    def truncations(
        self, topic: str, positions: Sequence[PositionCheck] = (), partitions: Sequence[int] | None = None
    ) -> Truncations:
        """Which of these positions, and of the layouts' starts, the logs have lost (KIP-320).

        ``partitions``: those whose starts are asked about; None: all. The leaders of others are not needed.
        """
        question: dict[str, object] = {"positions": positions}
        if partitions is not None:
            question["partitions"] = partitions
        return self._transport.send(
            reader(Truncations),
            "POST",
            topic_path(topic, "truncations"),
            body=msgspec.json.encode(question),
            repeatable=True,
        )


class Layouts(LayoutCalls):
    """A client of the controllers that asks for nothing else. Safe to share between threads."""

    def __init__(
        self, connection: Connection, *, timeout: float = 10.0, retry_for: float | None = None
    ) -> None:
        self._transport = Transport.of(connection, timeout=timeout, retry_for=retry_for)


def reader(answer: type[_AnswerT]) -> Callable[[bytes], _AnswerT]:
    """Makes an answer of a body; fields that are not known are left out. Raises ValueError saying what it is not."""

    def read(content: bytes) -> _AnswerT:
        try:
            return msgspec.json.decode(content, type=answer)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ValueError(f"a {answer.__name__}: {error}") from error

    return read


def _read_histories(content: bytes) -> LayoutHistories:
    answer = reader(LayoutHistories)(content)
    if not answer.topics:
        raise ValueError("a LayoutHistories with a topic")
    return answer
