"""What the processes of a query ask the controllers: layouts, and what the logs still have of them.

Each of these processes imports what it needs before its first row. So these answers are dataclasses, which msgspec reads:
the models of all others take a quarter of a second to import.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar

import msgspec

from spark_ordered_kafka.client.paths import topic_path
from spark_ordered_kafka.client.transport import Transport
from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.errors import OrderedKafkaError

_LAYOUT_RETRY = 0.05
"""Seconds between two questions for a layout. ``Retry-After`` counts whole seconds, but most closings take less."""

HashName = Literal["murmur3", "murmur2", "crc32"]

_AnswerT = TypeVar("_AnswerT")


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


@dataclass(frozen=True)
class LayoutView:
    """One committed layout epoch; ``starts[p]`` is the first offset of partition p that can hold its records.

    ``ordered_delivery`` False: writers were not held to this layout, so any partition may have records of any key.
    ``stray_from``: of a layout that covers partitions that no change has made, the first of them.
    """

    epoch: int
    undeleted_partition_count: int
    starts: list[int]
    leader_epochs: list[int]
    committed_at: float
    ordered_delivery: bool = True
    stray_from: int | None = None


@dataclass(frozen=True)
class LayoutHistoryView:
    """``GET /v1/topics/{t}/layout``: the layouts from ``from_epoch`` on. A linearizable read.

    Layouts all of whose records are gone are folded: then the first one is later than was asked for, and whatever lies
    before its starts was deleted.
    """

    topic: str
    topic_id: str
    cluster_id: str
    hash: HashName
    ordered_delivery: bool
    initial_partition_count: int
    layouts: list[LayoutView]
    changing: bool


@dataclass(frozen=True)
class PositionCheck:
    """A position, and the leader epoch (KIP-320) that the log was read under up to there."""

    # For the controller, which reads it as part of a request.
    __pydantic_config__ = {"extra": "forbid", "strict": True}  # noqa: RUF012 - no field

    partition: int
    offset: int
    leader_epoch: int


@dataclass(frozen=True)
class TruncationView:
    """The log of ``partition`` written under ``leader_epoch`` ends at ``end_offset``, below ``offset``.

    ``layout_epoch`` names the layout whose start ``offset`` is; None for a position that was asked about.
    """

    partition: int
    offset: int
    leader_epoch: int
    end_offset: int
    layout_epoch: int | None = None


@dataclass(frozen=True)
class Truncations:
    """``POST /v1/topics/{t}/truncations``."""

    topic: str
    topic_id: str
    truncations: list[TruncationView]


class LayoutCalls:
    """Part of :class:`~spark_ordered_kafka.client.controller.ControllerClient`, which says what they raise."""

    _transport: Transport

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

    def layout(self, topic: str, from_epoch: int = 0) -> LayoutHistoryView:
        """The committed layouts from ``from_epoch`` on; a linearizable read."""
        params = {"from_epoch": str(from_epoch)}
        return self._transport.send(
            reader(LayoutHistoryView), "GET", topic_path(topic, "layout"), params=params
        )

    def truncations(
        self,
        topic: str,
        positions: Sequence[PositionCheck] = (),
        partitions: Sequence[int] | None = None,
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

    def close(self) -> None:
        """Close the connections; the client cannot be used afterwards."""
        self._transport.close()

    def __enter__(self) -> Layouts:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def reader(answer: type[_AnswerT]) -> Callable[[bytes], _AnswerT]:
    """Makes an answer of a body; fields that are not known are left out. Raises ValueError saying what it is not."""

    def read(content: bytes) -> _AnswerT:
        try:
            return msgspec.json.decode(content, type=answer)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ValueError(f"a {answer.__name__}: {error}") from error

    return read
