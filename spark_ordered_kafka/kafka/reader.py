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
from spark_ordered_kafka.errors import DataLossError, OrderedKafkaError, UnavailableError
from spark_ordered_kafka.kafka.clients import (
    NO_COORDINATOR,
    OUT_OF_RANGE,
    STALE_METADATA,
    consumer_properties,
    refresh_metadata,
    translate,
)
from spark_ordered_kafka.kafka.segments import Segment, offset_of
from spark_ordered_kafka.kafka.strays import StrayCounter, Strays

_LOG = logging.getLogger(__name__)
BATCH_RECORDS = 10_000
# Seconds without a record after which the leader is looked for; each time twice as many.
_FIRST_PAUSE = 2.0
# Seconds before a broker that did not know a position is asked for it again.
_AGAIN = 0.25
# Seconds for an answer while nothing comes.
_ANSWER = 10.0

LogEndOf = Callable[[Segment], int | None]
"""Where the log of a segment's leader epoch ends now, if that lies before the segment's end; None if not, or if it is not
known. Raises an error of this package when the leader cannot be asked."""

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
    log_end: LogEndOf = lambda _: None,
) -> Iterator[pa.RecordBatch]:
    """The records of the segments, one segment after another, as batches of ``schema``.

    A segment is done when the *position* reaches its end: the end may fall on control records, aborted records or a
    compaction gap. Where nothing comes, ``log_end`` is asked whether the log was truncated. Raises DataLossError when records are gone and ``fail_on_data_loss`` is set, UnavailableError when
    the broker stalls, MisroutedRecordError under ``misrouted=fail``. The tombstones that writers of a compacted topic put
    into earlier partitions of a key are left out: delivered, they would delete live state.
    """
    consumer = _consumer(settings.connection)
    strays = StrayCounter(settings.misrouted)
    try:
        for segment in segments:
            for messages in _messages(consumer, segment, settings, log_end):
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


def _messages(
    consumer: Consumer, segment: Segment, settings: ReadSettings, log_end: LogEndOf
) -> Iterator[list[Message]]:
    reading = _Reading(consumer, segment, settings, log_end)
    while reading.position < reading.end:
        fetched = reading.fetch()
        if fetched:
            yield fetched
            # What the caller took its time for is no stall.
            reading.start_waiting()


class _Reading:
    """How far a segment is read: ``position`` is the next offset, ``end`` where there is nothing more to be had."""

    def __init__(
        self, consumer: Consumer, segment: Segment, settings: ReadSettings, log_end: LogEndOf
    ) -> None:
        self.position, self.end = segment.start, segment.end
        self._consumer = consumer
        self._segment = segment
        self._settings = settings
        self._log_end = log_end
        self._partition = f"{segment.topic}-{segment.partition}"
        self._reason = "its leader does not answer"
        self._pause = self._look_at = self._deadline = 0.0
        self._assign()
        self.start_waiting()

    def fetch(self) -> list[Message]:
        """Records that have come, if any have; it waits a quarter of a second for them.

        Raises what :func:`read_segments` raises.
        """
        first = self._consumer.poll(0.25)
        # What is there already is taken without waiting: the rest of the range may be control records only.
        wanted = min(BATCH_RECORDS, self.end - self.position) - 1
        fetched = [] if first is None else [first]
        if first is not None and wanted > 0:
            fetched += self._consumer.consume(wanted, 0)
        events = [error for message in fetched if (error := message.error()) is not None]
        messages, reached = self._within(fetched)
        if messages:
            self._check_first(offset_of(messages[0]))
        if reached > self.position:
            self.position = reached
            self.start_waiting()
        if any(error.code() in STALE_METADATA for error in events):
            self._bear(self._refresh)
        if any(error.code() in OUT_OF_RANGE for error in events):
            self._bear(self._find_range)
        if self.position < self.end and time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + self._pause
            self._pause *= 2
            self._bear(self._look)
        if self.position < self.end and time.monotonic() > self._deadline:
            raise UnavailableError(
                f"no progress for {self._settings.stall_timeout:g} s at offset {self.position} of {self._partition},"
                f" which should be read to {self.end}: {self._reason}"
            )
        return messages

    def start_waiting(self) -> None:
        """Count from now how long nothing comes."""
        self._deadline = time.monotonic() + self._settings.stall_timeout
        self._pause = _FIRST_PAUSE
        self._look_at = time.monotonic() + self._pause

    def _assign(self) -> None:
        self._consumer.assign([TopicPartition(self._segment.topic, self._segment.partition, self.position)])

    def _within(self, fetched: list[Message]) -> tuple[list[Message], int]:
        """The records below the end, and the position reached."""
        reached = self.position
        messages = []
        for message in fetched:
            error = message.error()
            if error is None:
                reached = offset_of(message) + 1
                if reached > self.end:
                    break
                messages.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                reached = max(reached, offset_of(message))
                self._reason = f"for the broker that was asked, the log ends at {offset_of(message)}"
            elif error.code() not in STALE_METADATA | OUT_OF_RANGE | NO_COORDINATOR:
                self._take(translate(error, f"reading {self._partition} from offset {self.position}"))
        return messages, min(reached, self.end)

    def _take(self, error: OrderedKafkaError) -> None:
        """Bear an error that may pass until nothing has moved for too long."""
        if not error.retriable:
            raise error
        self._reason = str(error)

    def _bear(self, step: Callable[[], None]) -> None:
        try:
            step()
        except KafkaException as error:
            self._take(translate(error.args[0], f"reading {self._partition}"))
        except OrderedKafkaError as error:
            self._take(error)

    def _refresh(self) -> None:
        refresh_metadata(self._consumer, self._segment.topic, _ANSWER)

    def _check_first(self, offset: int) -> None:
        # A gap is legal (control records, aborted records, compaction) unless the log now starts behind the position.
        if offset == self.position:
            return
        place = TopicPartition(self._segment.topic, self._segment.partition)
        low, _ = self._consumer.get_watermark_offsets(place, cached=True)
        if low > self.position:
            self._lose(min(low, self.end), f"the log starts at {low}")

    def _find_range(self) -> None:
        """Go on where the log begins, or where the reader was when a broker did not know its position."""
        place = TopicPartition(self._segment.topic, self._segment.partition)
        low, high = self._consumer.get_watermark_offsets(place, _ANSWER)
        if low > self.position:
            self._lose(min(low, self.end), f"the log starts at {low}")
            self.position = min(low, self.end)
            self.start_waiting()
        else:
            self._reason = f"for the broker that was asked, the log ends at {high}"
            self._look()
            time.sleep(_AGAIN)
        self._assign()

    def _look(self) -> None:
        """Nothing has come for a while: see who leads the partition, and whether its log was truncated.

        That a broker sees the end of its log is no proof: it may lead the partition no more, or wait for its followers.
        Only the leader's own word on the epoch that the end was planned under is (KIP-320).
        """
        self._refresh()
        end = self._log_end(self._segment)
        if end is None or end >= self.end:
            return
        lost = max(end, self.position)
        why = f"the log of leader epoch {self._segment.leader_epoch} was truncated and ends at {end}"
        message = f"offsets {lost} to {self.end - 1} of {self._partition} are gone: {why}"
        _tell_lost(message, self._settings)
        self.end = lost

    def _lose(self, end: int, why: str) -> None:
        message = f"offsets {self.position} to {end - 1} of {self._partition} are gone: {why}"
        _tell_lost(message, self._settings)


def _tell_lost(message: str, settings: ReadSettings) -> None:
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
