"""Reading offset ranges of partitions into Arrow record batches.

:func:`read_segments` is the contract: segments in, Arrow batches out. It is written with confluent-kafka and pyarrow;
a faster kernel can take its place behind the same signature.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
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

from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.errors import DataLossError, UnavailableError
from spark_ordered_kafka.kafka.clients import STALE_METADATA, consumer_properties, translate

BATCH_RECORDS = 10_000
# org.apache.kafka.common.record.TimestampType, as Spark's own format shows it.
_SPARK_TIMESTAMP_TYPE = {TIMESTAMP_NOT_AVAILABLE: -1, TIMESTAMP_CREATE_TIME: 0, TIMESTAMP_LOG_APPEND_TIME: 1}
_Pairs = list[tuple[str, bytes | None]]
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@dataclass(frozen=True)
class Segment:
    """Offsets [start, end) of a partition, all written under layout ``epoch``."""

    topic: str
    partition: int
    epoch: int
    start: int
    end: int


@dataclass(frozen=True)
class ReadSettings:
    """How to read. ``stall_timeout`` (seconds): how long no progress is borne before UnavailableError."""

    connection: Connection
    include_headers: bool
    fail_on_data_loss: bool
    stall_timeout: float = 60.0


def read_segments(
    settings: ReadSettings, segments: Sequence[Segment], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """The records of the segments, one segment after another, as batches of ``schema``.

    A segment is done when the *position* reaches its end: the end may fall on control records, aborted records or a
    compaction gap. Raises DataLossError when records are gone and ``fail_on_data_loss`` is set, UnavailableError when
    the broker stalls.
    """
    consumer = _consumer(settings.connection, settings.fail_on_data_loss)
    try:
        for segment in segments:
            for messages in _messages(consumer, segment, settings):
                yield to_batch(messages, segment.epoch, settings.include_headers, schema)
    except KafkaException as error:
        raise translate(error.args[0], "reading") from error
    finally:
        consumer.unassign()


@lru_cache(maxsize=4)
def _consumer(connection: Connection, fail_on_data_loss: bool) -> Consumer:
    # One per worker process and configuration: connections and metadata outlive the task.
    return Consumer(consumer_properties(connection.kafka, "error" if fail_on_data_loss else "earliest"))


def _messages(consumer: Consumer, segment: Segment, settings: ReadSettings) -> Iterator[list[Message]]:
    consumer.assign([TopicPartition(segment.topic, segment.partition, segment.start)])
    position = segment.start
    deadline = time.monotonic() + settings.stall_timeout
    while position < segment.end:
        first = consumer.poll(0.25)
        if first is None:
            if time.monotonic() > deadline:
                raise UnavailableError(
                    f"no progress for {settings.stall_timeout:g} s at offset {position} of {segment.topic}"
                    f"-{segment.partition}, which should be read to {segment.end}"
                )
            continue
        # What is there already is taken without waiting: the rest of the range may be control records only.
        wanted = min(BATCH_RECORDS, segment.end - position) - 1
        fetched = [first, *consumer.consume(wanted, 0)] if wanted > 0 else [first]
        error = first.error()
        if error is not None and error.code() in STALE_METADATA:
            consumer.list_topics(segment.topic, settings.stall_timeout)
        messages, reached = _within(fetched, segment)
        if messages:
            _check_first(consumer, segment, position, offset_of(messages[0]), settings)
            yield messages
        if reached > position:
            position = reached
            deadline = time.monotonic() + settings.stall_timeout


def _within(fetched: list[Message], segment: Segment) -> tuple[list[Message], int]:
    """The records below the segment's end, and the position reached."""
    reached = segment.start
    messages = []
    for message in fetched:
        error = message.error()
        if error is None:
            reached = offset_of(message) + 1
            if reached > segment.end:
                break
            messages.append(message)
        elif error.code() == KafkaError._PARTITION_EOF:
            reached = max(reached, offset_of(message))
        elif error.code() not in STALE_METADATA:
            raise translate(error, f"reading {segment.topic}-{segment.partition} from offset {segment.start}")
    return messages, min(reached, segment.end)


def _check_first(
    consumer: Consumer, segment: Segment, position: int, offset: int, settings: ReadSettings
) -> None:
    # A gap is legal (control records, aborted records, compaction) unless the log now starts behind the position.
    if offset == position or not settings.fail_on_data_loss:
        return
    low, _ = consumer.get_watermark_offsets(TopicPartition(segment.topic, segment.partition), cached=True)
    if low > position:
        raise DataLossError(
            f"offsets {position} to {min(low, segment.end) - 1} of {segment.topic}-{segment.partition} are gone:"
            f" the log starts at {low} (set failOnDataLoss to false to go on without them)"
        )


def offset_of(message: Message) -> int:
    """The offset of a fetched record or event, which always has one."""
    return cast(int, message.offset())


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
