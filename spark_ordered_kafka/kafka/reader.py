"""Reading offset ranges of partitions into Arrow record batches.

:func:`read_segments` is the contract: segments in, Arrow batches out. It is written with confluent-kafka and pyarrow;
a faster kernel can take its place behind the same signature.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import pyarrow as pa
from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from spark_ordered_kafka.config import Connection, Misrouted
from spark_ordered_kafka.errors import DataLossError, UnavailableError
from spark_ordered_kafka.kafka.clients import (
    NO_COORDINATOR,
    OUT_OF_RANGE,
    STALE_METADATA,
    consumer_properties,
    translate,
)
from spark_ordered_kafka.kafka.segments import Segment, offset_of
from spark_ordered_kafka.kafka.strays import StrayCounter, Strays

_LOG = logging.getLogger(__name__)
BATCH_RECORDS = 10_000
# org.apache.kafka.common.record.TimestampType, as Spark's own format shows it.
_SPARK_TIMESTAMP_TYPE = {TIMESTAMP_NOT_AVAILABLE: -1, TIMESTAMP_CREATE_TIME: 0, TIMESTAMP_LOG_APPEND_TIME: 1}
_Pairs = list[tuple[str, bytes | None]]
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@dataclass(frozen=True)
class ReadSettings:
    """How to read. ``misrouted``: what to do about records that lie where their keys do not belong;
    ``stall_timeout`` (seconds): how long no progress is borne before UnavailableError."""

    connection: Connection
    include_headers: bool
    fail_on_data_loss: bool
    misrouted: Misrouted = "warn"
    stall_timeout: float = 60.0


def read_segments(
    settings: ReadSettings,
    segments: Sequence[Segment],
    schema: pa.Schema,
    on_strays: Callable[[Sequence[Strays]], None] = lambda _: None,
) -> Iterator[pa.RecordBatch]:
    """The records of the segments, one segment after another, as batches of ``schema``.

    A segment is done when the *position* reaches its end: the end may fall on control records, aborted records or a
    compaction gap. Raises DataLossError when records are gone and ``fail_on_data_loss`` is set, UnavailableError when
    the broker stalls, MisroutedRecordError under ``misrouted=fail``. The tombstones that writers of a compacted topic put
    into earlier partitions of a key are left out: delivered, they would delete live state.
    """
    consumer = _consumer(settings.connection)
    strays = StrayCounter(settings.misrouted)
    try:
        for segment in segments:
            for messages in _messages(consumer, segment, settings):
                kept = strays.judge(messages, segment)
                if kept:
                    yield to_batch(kept, segment.epoch, settings.include_headers, schema)
    except KafkaException as error:
        raise translate(error.args[0], "reading") from error
    finally:
        consumer.unassign()
        on_strays(strays.found)


@lru_cache(maxsize=4)
def _consumer(connection: Connection) -> Consumer:
    # One per worker process and configuration: connections and metadata outlive the task.
    return Consumer(consumer_properties(connection.kafka))


def _messages(consumer: Consumer, segment: Segment, settings: ReadSettings) -> Iterator[list[Message]]:
    position = segment.start
    log_end: int | None = None
    _assign(consumer, segment, position)
    deadline = time.monotonic() + settings.stall_timeout
    while position < segment.end:
        first = consumer.poll(0.25)
        if first is None:
            if time.monotonic() > deadline:
                _give_up(segment, position, log_end, settings)
                return
            continue
        # What is there already is taken without waiting: the rest of the range may be control records only.
        wanted = min(BATCH_RECORDS, segment.end - position) - 1
        fetched = [first, *consumer.consume(wanted, 0)] if wanted > 0 else [first]
        codes = {error.code() for message in fetched if (error := message.error()) is not None}
        messages, reached, log_end = _within(fetched, segment)
        if messages:
            _check_first(consumer, segment, position, offset_of(messages[0]), settings)
            yield messages
        if reached > position:
            position = reached
            deadline = time.monotonic() + settings.stall_timeout
        if codes & STALE_METADATA:
            consumer.list_topics(segment.topic, settings.stall_timeout)
        if codes & OUT_OF_RANGE:
            position = _after_loss(consumer, segment, position, settings)
            _assign(consumer, segment, position)


def _assign(consumer: Consumer, segment: Segment, position: int) -> None:
    consumer.assign([TopicPartition(segment.topic, segment.partition, position)])


def _within(fetched: list[Message], segment: Segment) -> tuple[list[Message], int, int | None]:
    """The records below the segment's end, the position reached, and the log end if that was seen before it."""
    reached = segment.start
    log_end: int | None = None
    messages = []
    for message in fetched:
        error = message.error()
        if error is None:
            reached = offset_of(message) + 1
            if reached > segment.end:
                break
            messages.append(message)
        elif error.code() == KafkaError._PARTITION_EOF:
            log_end = offset_of(message)
            reached = max(reached, log_end)
        elif error.code() not in STALE_METADATA | OUT_OF_RANGE | NO_COORDINATOR:
            raise translate(error, f"reading {segment.topic}-{segment.partition} from offset {segment.start}")
    return messages, min(reached, segment.end), log_end


def _check_first(
    consumer: Consumer, segment: Segment, position: int, offset: int, settings: ReadSettings
) -> None:
    # A gap is legal (control records, aborted records, compaction) unless the log now starts behind the position.
    if offset == position:
        return
    low, _ = consumer.get_watermark_offsets(TopicPartition(segment.topic, segment.partition), cached=True)
    if low > position:
        _lose(segment, position, min(low, segment.end), f"the log starts at {low}", settings)


def _after_loss(consumer: Consumer, segment: Segment, position: int, settings: ReadSettings) -> int:
    """Where to go on when the log does not hold ``position`` any more."""
    partition = TopicPartition(segment.topic, segment.partition)
    low, high = consumer.get_watermark_offsets(partition, settings.stall_timeout)
    if low > position:
        _lose(segment, position, min(low, segment.end), f"the log starts at {low}", settings)
        return min(low, segment.end)
    if high < position:
        _lose(segment, position, segment.end, f"the log was truncated and ends at {high}", settings)
        return segment.end
    return position


def _give_up(segment: Segment, position: int, log_end: int | None, settings: ReadSettings) -> None:
    """No progress: the broker does not answer, or answers that the log is shorter than it was when this was planned."""
    if log_end is None:
        raise UnavailableError(
            f"no progress for {settings.stall_timeout:g} s at offset {position} of {segment.topic}"
            f"-{segment.partition}, which should be read to {segment.end}"
        )
    _lose(segment, position, segment.end, f"the log was truncated and ends at {log_end}", settings)


def _lose(segment: Segment, start: int, end: int, why: str, settings: ReadSettings) -> None:
    message = f"offsets {start} to {end - 1} of {segment.topic}-{segment.partition} are gone: {why}"
    if settings.fail_on_data_loss:
        raise DataLossError(f"{message} (set failOnDataLoss to false to go on without them)")
    _LOG.warning("%s", message)


def to_batch(messages: list[Message], epoch: int, include_headers: bool, schema: pa.Schema) -> pa.RecordBatch:
    """Messages of one partition as one Arrow batch with the source's columns."""
    count = len(messages)
    stamps = [message.timestamp() for message in messages]
    columns: dict[str, Any] = {
        "key": pa.array([message.key() for message in messages], pa.binary()),
        "value": pa.array([message.value() for message in messages], pa.binary()),
        "topic": pa.array([messages[0].topic()] * count, pa.string()),
        "partition": pa.array([messages[0].partition()] * count, pa.int32()),
        "offset": pa.array([message.offset() for message in messages], pa.int64()),
        "timestamp": pa.array([milliseconds * 1000 for _, milliseconds in stamps], pa.int64()),
        "timestampType": pa.array([_SPARK_TIMESTAMP_TYPE[kind] for kind, _ in stamps], pa.int32()),
        "layout_epoch": pa.array([epoch] * count, pa.int32()),
    }
    if include_headers:
        columns["headers"] = pa.array([_headers(message) for message in messages], _HEADERS)
    return pa.RecordBatch.from_arrays(
        [columns[field.name].cast(field.type) for field in schema], schema=schema
    )


def _headers(message: Message) -> list[dict[str, str | bytes | None]] | None:
    headers = message.headers()
    # librdkafka hands a consumer a list of pairs; the mapping form is for producers.
    return None if headers is None else [{"key": key, "value": value} for key, value in cast(_Pairs, headers)]
