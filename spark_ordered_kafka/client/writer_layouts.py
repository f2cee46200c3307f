"""The one question that a writing task has for the controllers: under which layout it writes.

Each worker process of Spark imports what its tasks need before its first row. So this answer is a plain class, checked by
hand: the models of all others take longer to import than the rest of a task.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, cast

from spark_ordered_kafka.client.paths import topic_path
from spark_ordered_kafka.client.transport import Transport
from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.errors import OrderedKafkaError
from spark_ordered_kafka.ordering import HASH_NAMES

_LAYOUT_RETRY = 0.05
"""Seconds between two questions for a layout. ``Retry-After`` counts whole seconds, but most closings take less."""

HashName = Literal["murmur3", "murmur2", "crc32"]

_FieldT = TypeVar("_FieldT")


@dataclass(frozen=True)
class EarlierLayout:
    """Where earlier epochs may still hold a key of a compacted topic.

    Under ``undeleted_partition_count`` partition p was written below ``ends[p]``; once its log start has reached that,
    nothing of those epochs is left there. 0, or an index beyond the list: no key has moved away from p since.
    """

    undeleted_partition_count: int
    ends: list[int]


@dataclass(frozen=True)
class WriterLayoutView:
    """``GET /v1/topics/{t}/layout?writer=true``: what a writer needs. A linearizable read; 503 while closing.

    ``earlier``: one entry per earlier partition count of a compacted topic; empty for every other topic.
    """

    topic: str
    topic_id: str
    cluster_id: str
    hash: HashName
    ordered_delivery: bool
    initial_partition_count: int
    undeleted_partition_count: int
    layout_epoch: int
    earlier: list[EarlierLayout] = field(default_factory=list)


class WriterLayoutCalls:
    """Part of :class:`~spark_ordered_kafka.client.controller.ControllerClient`, which says what they raise."""

    _transport: Transport

    def writer_layout(self, topic: str, *, retry_for: float | None = None) -> WriterLayoutView:
        """What a writer needs to place records; a linearizable read. ``retry_for`` instead of the client's own.

        Raises LayoutChangingError while a partition change is closing.
        """
        return self._transport.send(
            parse_writer_layout,
            "GET",
            topic_path(topic, "layout"),
            params={"writer": "true"},
            topic=topic,
            retry_for=retry_for,
        )

    def wait_for_layout(
        self,
        topic: str,
        timeout: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> WriterLayoutView:
        """The writer's layout, waiting while a change is closing or no controller answers.

        Raises the last retriable error once ``timeout`` (seconds) has passed.
        """
        deadline = clock() + timeout
        while True:
            try:
                return self.writer_layout(topic, retry_for=0.0)
            except OrderedKafkaError as error:
                if not error.retriable or clock() >= deadline:
                    raise
                sleep(min(_LAYOUT_RETRY, max(0.0, deadline - clock())))


class WriterLayouts(WriterLayoutCalls):
    """A client of the controllers that asks for nothing else. Safe to share between threads."""

    def __init__(self, connection: Connection) -> None:
        self._transport = Transport.of(connection)


def parse_writer_layout(content: bytes) -> WriterLayoutView:
    """The answer as a controller sends it; fields that are not known are left out.

    Raises ValueError saying what it is not.
    """
    try:
        body = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"a WriterLayoutView: the body: {error}") from error
    hash_name = _field(body, "hash", str)
    if hash_name not in HASH_NAMES:
        raise ValueError(f"a WriterLayoutView: hash: one of {', '.join(HASH_NAMES)} is needed")
    return WriterLayoutView(
        topic=_field(body, "topic", str),
        topic_id=_field(body, "topic_id", str),
        cluster_id=_field(body, "cluster_id", str),
        hash=cast(HashName, hash_name),
        ordered_delivery=_field(body, "ordered_delivery", bool),
        initial_partition_count=_field(body, "initial_partition_count", int),
        undeleted_partition_count=_field(body, "undeleted_partition_count", int),
        layout_epoch=_field(body, "layout_epoch", int),
        earlier=[_earlier(one) for one in _field(body, "earlier", list)] if "earlier" in body else [],
    )


def _earlier(body: object) -> EarlierLayout:
    ends = _field(body, "ends", list)
    if any(type(end) is not int for end in ends):
        raise ValueError("a WriterLayoutView: ends: whole numbers are needed")
    return EarlierLayout(_field(body, "undeleted_partition_count", int), ends)


def _field(body: object, name: str, kind: type[_FieldT]) -> _FieldT:
    found: Any = body.get(name) if isinstance(body, Mapping) else None
    # Not isinstance(): to Python, true is a number.
    if type(found) is not kind:
        raise ValueError(f"a WriterLayoutView: {name}: {kind.__name__} is needed")
    checked: _FieldT = found
    return checked
