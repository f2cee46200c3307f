"""Taking the records of one assigned partition from librdkafka as Arrow batches: by the kernel, or by Python.

Both ways have one contract, :class:`Drain`. Neither knows what a gap, an end or an error means: that is the reader's
(D-112).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from spark_ordered_kafka.native.loading import kernel

HEADERS = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))
_SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
    ]
)
_SCHEMA_WITH_HEADERS = _SCHEMA.append(pa.field("headers", HEADERS))
_LEAST, _MOST = -(2**63), 2**63 - 1

_Pairs = list[tuple[str, bytes | None]]


@dataclass(frozen=True)
class Limits:
    """When a batch is full: it has so many ``records``, or ``bytes`` of keys, values and headers.

    The record that fills it is still in it, so that one of any size gets through.
    """

    records: int
    bytes: int


@dataclass(frozen=True)
class Drained:
    """What was taken: records, and after them perhaps an event.

    ``batch``: the columns key, value, offset, timestamp, timestampType (Spark's numbers) and, if asked for, headers; None
    without records. ``position``: the offset behind the last record and the control records that are known to follow it,
    the end asked for where a record at or beyond it was met, and where nothing was met the position given. ``event``: an
    error, or the end of the partition at ``event_offset``.
    """

    batch: pa.RecordBatch | None
    position: int
    event: KafkaError | None = None
    event_offset: int = -1


class Drain(Protocol):
    """The records of a partition, from one assignment of it: made before, and closed after it is taken back."""

    def take(self, position: int, end: int, limits: Limits, timeout: float) -> Drained:
        """Wait up to ``timeout`` seconds for the first record or event, and take what is there by then.

        Records at ``end`` or beyond it are dropped. Other threads of Python run meanwhile. Raises KafkaException as
        ``Consumer.poll``.
        """

    def close(self) -> None:
        """Give up what was fetched and not taken."""


class KernelDrain:
    """By librdkafka's own functions, from a queue of the partition's own."""

    def __init__(self, native: Any, consumer: Consumer, topic: str, partition: int, headers: bool) -> None:
        self._native = native
        self._consumer = consumer
        self._tp = TopicPartition(topic, partition)
        self._headers = headers
        self._partition = native.open_partition(consumer, topic, partition)

    def take(self, position: int, end: int, limits: Limits, timeout: float) -> Drained:
        """See :class:`Drain`."""
        # What is not of the partition: logs, statistics, and errors of the consumer itself.
        message = self._consumer.poll(0)
        if message is not None:
            return Drained(None, position, _error_of(message), _offset(message))
        array, reached, event, empty = self._native.drain(
            self._partition,
            position,
            end,
            limits.records,
            min(limits.bytes, _MOST),
            round(timeout * 1000),
            self._headers,
        )
        batch = None if array is None else pa.record_batch(_Exported(array, self._headers))
        if event is None:
            return Drained(
                batch,
                _behind_control(self._consumer, self._tp, reached, end) if empty and batch else reached,
            )
        code, text, offset = event
        return Drained(batch, reached, KafkaError(code, text), offset)

    def close(self) -> None:
        """See :class:`Drain`."""
        self._partition = None


class _Exported:
    """A struct array of the kernel, for pyarrow to import."""

    def __init__(self, array: Any, headers: bool) -> None:
        self._array = array
        self._schema = schema_of(headers)

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return self._schema.__arrow_c_schema__(), self._array


class PlainDrain:
    """By confluent-kafka alone, a Python object for each record."""

    def __init__(self, consumer: Consumer, topic: str, partition: int, headers: bool) -> None:
        self._consumer = consumer
        self._tp = TopicPartition(topic, partition)
        self._headers = headers
        self._waiting: deque[Message] = deque()

    def take(self, position: int, end: int, limits: Limits, timeout: float) -> Drained:
        """See :class:`Drain`."""
        if not self._waiting:
            self._fetch(min(limits.records, end - position), timeout)
        messages: list[Message] = []
        size = 0
        while self._waiting and len(messages) < limits.records and size < limits.bytes and position < end:
            message = self._waiting.popleft()
            error = message.error()
            if error is not None:
                return Drained(self._batch(messages), position, error, _offset(message))
            position = min(_offset(message) + 1, end)
            if _offset(message) < end:
                messages.append(message)
                size += len(message.key() or b"") + len(message.value() or b"")
        if messages and not self._waiting:
            position = _behind_control(self._consumer, self._tp, position, end)
        return Drained(self._batch(messages), position)

    def close(self) -> None:
        """See :class:`Drain`."""
        self._waiting.clear()

    def _fetch(self, wanted: int, timeout: float) -> None:
        first = self._consumer.poll(timeout)
        if first is None:
            return
        self._waiting.append(first)
        # What is there already is taken without waiting: the rest of the range may be control records only.
        if wanted > 1:
            self._waiting.extend(self._consumer.consume(wanted - 1, 0))

    def _batch(self, messages: Sequence[Message]) -> pa.RecordBatch | None:
        if not messages:
            return None
        stamps = [message.timestamp() for message in messages]
        columns = [
            pa.array([message.key() for message in messages], pa.binary()),
            pa.array([message.value() for message in messages], pa.binary()),
            pa.array([message.offset() for message in messages], pa.int64()),
            pa.array([_microseconds(stamp) for _, stamp in stamps], pa.int64()).view(_SCHEMA.field(3).type),
            # Java's TimestampType, which Spark shows, begins at -1.
            pa.array([kind - 1 for kind, _ in stamps], pa.int32()),
        ]
        if self._headers:
            columns.append(pa.array([_headers(message) for message in messages], HEADERS))
        return pa.RecordBatch.from_arrays(columns, schema=schema_of(self._headers))


def drain_of(consumer: Consumer, topic: str, partition: int, *, headers: bool) -> Drain:
    """The fastest way to take the records of a partition that is about to be assigned to ``consumer``."""
    native = kernel()
    if native is None:
        return PlainDrain(consumer, topic, partition, headers)
    return KernelDrain(native, consumer, topic, partition, headers)


def schema_of(headers: bool) -> pa.Schema:
    """The columns of a drained batch."""
    return _SCHEMA_WITH_HEADERS if headers else _SCHEMA


def _behind_control(consumer: Consumer, tp: TopicPartition, position: int, end: int) -> int:
    """The offset behind the control records that follow ``position``, as far as they are fetched, at most ``end``.

    To be asked only when every record that librdkafka gave out is counted in ``position``, and one of them came by this
    assignment: before, it may still be the position of the last one (D-114).
    """
    (found,) = consumer.position([tp])
    return min(max(position, found.offset), end)


def _error_of(message: Message) -> KafkaError:
    error = message.error()
    if error is None:
        raise RuntimeError(
            f"a record of {message.topic()}-{message.partition()} came by the consumer's own queue"
        )
    return error


def _offset(message: Message) -> int:
    offset = message.offset()
    return -1 if offset is None else offset


def _microseconds(milliseconds: int) -> int:
    return max(_LEAST, min(_MOST, milliseconds * 1000))


def _headers(message: Message) -> list[dict[str, str | bytes | None]] | None:
    headers = message.headers()
    # librdkafka hands a consumer a list of pairs; the mapping form is for producers.
    return None if headers is None else [{"key": key, "value": value} for key, value in cast(_Pairs, headers)]
