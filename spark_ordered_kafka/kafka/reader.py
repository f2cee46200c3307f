"""Reading offset ranges of partitions into Arrow record batches.

:func:`read_segments` is the contract: segments in, Arrow batches out. How records come from librdkafka is
:mod:`spark_ordered_kafka.native.draining`'s; what gaps, ends, errors and silence mean is decided here.
"""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from spark_ordered_kafka.config import Connection, Misrouted
from spark_ordered_kafka.errors import DataLossError, OrderedKafkaError, UnavailableError
from spark_ordered_kafka.kafka.attempts import failure_of
from spark_ordered_kafka.kafka.clients import (
    NO_COORDINATOR,
    OUT_OF_RANGE,
    STALE_METADATA,
    new_client,
    refresh_metadata,
    translate,
)
from spark_ordered_kafka.kafka.idle import IdlePool
from spark_ordered_kafka.kafka.logins import BrokerErrors
from spark_ordered_kafka.kafka.misrouted import MisroutedFilter, MisroutedRecords
from spark_ordered_kafka.kafka.properties import consumer_properties
from spark_ordered_kafka.kafka.segments import Segment
from spark_ordered_kafka.native.draining import Drain, Drained, Limits, drain_of

_LOG = logging.getLogger(__name__)
BATCH = Limits(records=32_768, bytes=8 * 2**20)
# Seconds to wait for a record at once; a task that Spark kills ends within it.
_WAIT = 0.25
# Segments of a task that are read at the same time at most, and their offsets in sum (D-047).
_AHEAD = 4
_AHEAD_RECORDS = 10_000
# Seconds without a record after which the leader is looked for; each time twice as many.
_FIRST_PAUSE = 2.0
# Seconds before a broker that did not know a position is asked for it again.
_AGAIN = 0.25
# Seconds for an answer while nothing comes.
_ANSWER = 10.0
# The same where a broker has refused the client, which tries the others again every second.
_ANSWER_OF_OTHERS = 5.0
# Seconds for an answer of any broker before a topic is read without it, and in which librdkafka keeps one (at least, by default).
_LEADERS, _KEPT = 1.0, 600.0


class _Client:
    """A consumer of a connection, and why brokers refuse it."""

    def __init__(self, connection: Connection) -> None:
        self.errors = BrokerErrors(connection.kafka)
        properties = {**consumer_properties(connection.kafka), "error_cb": self.errors}
        self.consumer = new_client(Consumer, properties)
        # When the leaders of each topic were asked for.
        self._asked: dict[str, float] = {}

    def find_leaders(self, topic: str) -> None:
        """Ask for the leaders of a topic before it is assigned: librdkafka asks for those of another topic than its first one
        after up to a second (D-472). Where that fails, it asks all the same."""
        now = time.monotonic()
        if not self._asked or (
            now >= self._asked.get(topic, -math.inf) + _KEPT
            and failure_of(partial(refresh_metadata, self.consumer, topic, _LEADERS)) is None
        ):
            self._asked[topic] = now

    def close(self) -> None:
        """Close its connections."""
        self.consumer.close()


# Of a worker process, by configuration and number: connections and metadata outlive the task.
_CLIENTS = IdlePool[tuple[Connection, int], _Client](_Client.close)

LogEndOf = Callable[[Segment], int | None]
"""Where the log of a segment's leader epoch ends now, if that lies before the segment's end; None if not, or if it is not
known. Raises an error of this package when the leader cannot be asked."""


@dataclass(frozen=True)
class ReadSettings:
    """How to read. ``misrouted``: what to do about records that lie where their keys do not belong;
    ``stall_timeout`` (seconds): how long without progress before UnavailableError."""

    connection: Connection
    include_headers: bool
    fail_on_data_loss: bool
    misrouted: Misrouted = "warn"
    stall_timeout: float = 60.0


def read_segments(
    settings: ReadSettings,
    segments: Sequence[Segment],
    schema: pa.Schema,
    on_misrouted: Callable[[Sequence[MisroutedRecords]], None] = lambda _: None,
    log_end: LogEndOf = lambda _: None,
) -> Iterator[pa.RecordBatch]:
    """The records of the segments, one segment after another, as batches of ``schema``.

    A segment is done when the *position* reaches its end: the end may fall on control records, aborted records or a
    compaction gap. Where nothing comes, ``log_end`` is asked whether the log was truncated. Raises DataLossError when
    records are gone and ``fail_on_data_loss`` is set, UnavailableError when the broker stalls, MisroutedRecordError under
    ``misrouted=fail``, and within seconds what :meth:`BrokerErrors.check` raises where all brokers refuse the login or a
    certificate (D-314). The tombstones that writers of a compacted topic put
    into earlier partitions of a key are left out: delivered, they would delete live state.
    """
    readings = _Readings(settings, segments, log_end)
    misrouted = MisroutedFilter(settings.misrouted)
    try:
        for segment, reading in readings:
            constants = _Constants(segment, schema)
            for records in _batches(reading):
                kept = misrouted.judge(records, segment)
                if kept.num_rows > 0:
                    yield constants.added_to(kept)
    except KafkaException as error:
        raise translate(error.args[0], "reading") from error
    finally:
        readings.close()
        on_misrouted(misrouted.found)


def _batches(reading: _Reading) -> Iterator[pa.RecordBatch]:
    # The wait for its turn is no stall.
    reading.start_waiting()
    while reading.position < reading.end:
        fetched = reading.fetch()
        if fetched is not None:
            yield fetched
            # Nor is the time that the caller took.
            reading.start_waiting()


class _Readings:
    """The segments in their order, each with its reading, which is open until the next one is asked for.

    Small ones are open before their turn: what takes their time is waiting for brokers, and so a task waits once.
    """

    def __init__(self, settings: ReadSettings, segments: Sequence[Segment], log_end: LogEndOf) -> None:
        self._settings = settings
        self._log_end = log_end
        self._left = deque(segments)
        self._open: deque[tuple[Segment, _Reading]] = deque()
        self._opened = 0

    def __iter__(self) -> Iterator[tuple[Segment, _Reading]]:
        while self._left or self._open:
            while self._left and self._may_open():
                self._open_next()
            yield self._open[0]
            self._close_first()

    def close(self) -> None:
        """Give up those that are open, and their consumers, which may know only brokers that are gone."""
        while self._open:
            _, reading = self._open.popleft()
            reading.close()
            reading.client.close()

    def _may_open(self) -> bool:
        sizes = [one.end - one.start for one in (self._left[0], *(segment for segment, _ in self._open))]
        return len(sizes) == 1 or (len(sizes) <= _AHEAD and sum(sizes) <= _AHEAD_RECORDS)

    def _open_next(self) -> None:
        segment = self._left.popleft()
        connection = self._settings.connection
        client = _CLIENTS.take((connection, self._opened % _AHEAD)) or _Client(connection)
        self._opened += 1
        self._open.append((segment, _Reading(client, segment, self._settings, self._log_end)))

    def _close_first(self) -> None:
        number = (self._opened - len(self._open)) % _AHEAD
        _, reading = self._open.popleft()
        reading.close()
        _CLIENTS.put((self._settings.connection, number), reading.client)


class _Reading:
    """How far a segment is read by a ``client`` of its own: ``position`` is the next offset, ``end`` where there is nothing
    more to be had.
    """

    def __init__(self, client: _Client, segment: Segment, settings: ReadSettings, log_end: LogEndOf) -> None:
        self.position, self.end = segment.start, segment.end
        self.client = client
        self._consumer = client.consumer
        self._segment = segment
        self._settings = settings
        self._log_end = log_end
        self._partition = f"{segment.topic}-{segment.partition}"
        self._reason = "its leader does not answer"
        self._pause = self._look_at = self._deadline = 0.0
        self._drain = self._assign()
        self.start_waiting()

    def fetch(self) -> pa.RecordBatch | None:
        """Records that have come, if any have; it waits a quarter of a second for them.

        Raises what :func:`read_segments` raises.
        """
        drained = self._drain.take(self.position, self.end, BATCH, _WAIT)
        if drained.batch is not None:
            self._check_first(drained.batch.column("offset")[0].as_py())
        reached = self._reached(drained)
        if reached > self.position:
            self.position = reached
            self.start_waiting()
        if drained.event is not None and drained.event.code() in STALE_METADATA:
            self._tolerant(self._refresh)
        if drained.event is not None and drained.event.code() in OUT_OF_RANGE:
            self._tolerant(self._find_range)
        if self.position < self.end and time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + self._pause
            self._pause *= 2
            self._tolerant(self._look)
        if self.position < self.end and time.monotonic() > self._deadline:
            stalled = UnavailableError(
                f"no progress for {self._settings.stall_timeout:g} s at offset {self.position} of {self._partition},"
                f" which should be read to {self.end}: {self._reason}"
            )
            raise self.client.errors.explained(stalled)
        return drained.batch

    def close(self) -> None:
        """Stop fetching, and give up what was fetched."""
        self._consumer.unassign()
        self._drain.close()

    def start_waiting(self) -> None:
        """Count from now how long nothing comes, and why."""
        self.client.errors.forget()
        self._deadline = time.monotonic() + self._settings.stall_timeout
        self._pause = _FIRST_PAUSE
        self._look_at = time.monotonic() + self._pause

    def _assign(self) -> Drain:
        drain = drain_of(
            self._consumer,
            self._segment.topic,
            self._segment.partition,
            headers=self._settings.include_headers,
        )
        self.client.find_leaders(self._segment.topic)
        self._consumer.assign([TopicPartition(self._segment.topic, self._segment.partition, self.position)])
        return drain

    def _assign_again(self) -> None:
        # What was fetched before belongs to another position.
        self.close()
        self._drain = self._assign()

    def _reached(self, drained: Drained) -> int:
        """The position behind the records and the event; raises the event's error where it is one."""
        error = drained.event
        if error is None:
            return drained.position
        if error.code() == KafkaError._PARTITION_EOF:
            self._reason = f"for the broker that was asked, the log ends at {drained.event_offset}"
            return min(max(drained.position, drained.event_offset), self.end)
        if error.code() not in STALE_METADATA | OUT_OF_RANGE | NO_COORDINATOR:
            self._take(translate(error, f"reading {self._partition} from offset {drained.position}"))
        return drained.position

    def _take(self, error: OrderedKafkaError) -> None:
        """Keep a retriable error as the reason to give once nothing has moved for too long; raise any other one."""
        if not error.retriable:
            raise error
        self._reason = str(error)

    def _tolerant(self, step: Callable[[], None]) -> None:
        try:
            step()
        except KafkaException as error:
            self._take(translate(error.args[0], f"reading {self._partition}"))
        except OrderedKafkaError as error:
            self._take(error)

    def _refresh(self) -> None:
        errors = self.client.errors
        try:
            refresh_metadata(
                self._consumer, self._segment.topic, _ANSWER_OF_OTHERS if errors.has_refusal else _ANSWER
            )
        except UnavailableError:
            # No broker lets the client in; one alone that does not may be about to get another certificate.
            errors.check()
            self._replace_client()
            raise

    def _replace_client(self) -> None:
        """Read on with a client that begins with the given addresses: one to which a broker has shown no broker, as when the
        controller has fenced all of them, knows none to ask any more (D-228)."""
        self.close()
        self.client.close()
        self.client = _Client(self._settings.connection)
        self._consumer = self.client.consumer
        self._drain = self._assign()

    def _check_first(self, offset: int) -> None:
        # A gap is legal (control records, aborted records, compaction) unless the log now starts behind the position.
        if offset == self.position:
            return
        tp = TopicPartition(self._segment.topic, self._segment.partition)
        low, _ = self._consumer.get_watermark_offsets(tp, cached=True)
        if low > self.position:
            self._lose(min(low, self.end), f"the log starts at {low}")

    def _find_range(self) -> None:
        """Assign again: at the log's start, or where the reader was if a broker did not know that position."""
        tp = TopicPartition(self._segment.topic, self._segment.partition)
        low, high = self._consumer.get_watermark_offsets(tp, _ANSWER)
        if low > self.position:
            self._lose(min(low, self.end), f"the log starts at {low}")
            self.position = min(low, self.end)
            self.start_waiting()
        else:
            self._reason = f"for the broker that was asked, the log ends at {high}"
            self._look()
            time.sleep(_AGAIN)  # until followers have caught up, or another broker leads
        self._assign_again()

    def _look(self) -> None:
        """Nothing has come for a while: see who leads the partition, and whether its log was truncated.

        That a broker sees the end of its log is no proof: it may lead the partition no more, or wait for its followers.
        Only the leader's own answer for the epoch that the end was planned under is (KIP-320, D-060).
        """
        self._refresh()
        end = self._log_end(self._segment)
        if end is None or end >= self.end:
            return
        lost = max(end, self.position)
        why = f"the log of leader epoch {self._segment.leader_epoch} was truncated and ends at {end}"
        message = f"offsets {lost} to {self.end - 1} of {self._partition} are gone: {why}"
        _report_lost(message, self._settings)
        self.end = lost

    def _lose(self, end: int, why: str) -> None:
        message = f"offsets {self.position} to {end - 1} of {self._partition} are gone: {why}"
        _report_lost(message, self._settings)


def _report_lost(message: str, settings: ReadSettings) -> None:
    if settings.fail_on_data_loss:
        raise DataLossError(f"{message} (set failOnDataLoss to false to continue without them)")
    _LOG.warning("%s", message)


class _Constants:
    """The columns that are the same in every record of a segment, and the batches that have them."""

    def __init__(self, segment: Segment, schema: pa.Schema) -> None:
        count = min(BATCH.records, segment.end - segment.start)
        self._schema = schema
        self._columns = {
            "topic": pa.repeat(pa.scalar(segment.topic, pa.string()), count),
            "partition": pa.repeat(pa.scalar(segment.partition, pa.int32()), count),
            "layout_epoch": pa.repeat(pa.scalar(segment.epoch, pa.int32()), count),
        }

    def added_to(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """The columns of the schema."""
        columns = [
            self._columns[name].slice(0, records.num_rows) if name in self._columns else records.column(name)
            for name in self._schema.names
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)
