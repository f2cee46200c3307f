"""The open transaction of a lane: its rows, kept for a replay, and the producer instance that carries it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from spark_ordered_kafka.client.backlog import Chunk, Queue
from spark_ordered_kafka.client.instances import Instances
from spark_ordered_kafka.client.reports import Attempt
from spark_ordered_kafka.client.writer_names import LeasedName
from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.errors import FencedError, OrderedKafkaError
from spark_ordered_kafka.kafka.attempts import failure_of
from spark_ordered_kafka.kafka.ledger import Fingerprint, LedgerEntry
from spark_ordered_kafka.kafka.placing import LayoutOf, Placer, Places, check_layout
from spark_ordered_kafka.kafka.producer import Row, TransactionalProducer
from spark_ordered_kafka.kafka.sent_offsets import TransactionOffsets
from spark_ordered_kafka.native.contents import Records

_LOG = logging.getLogger(__name__)
# Of rows with callbacks, headers and the like, which go to librdkafka one by one.
_PART_ROWS = 2_000


@dataclass(frozen=True)
class LaneSettings:
    """What all lanes of a producer share.

    ``writer`` names what belongs to no topic.
    ``commit_interval``: seconds from a transaction's first record to its commit; None: on request only.
    ``commit_records``: records after which it is committed anyway. ``message_timeout``: seconds that a record may wait
    for its commit. ``timeout`` (seconds) bounds each call to a server. ``max_message_bytes``: of key, value and headers.
    """

    connection: Connection
    writer: str
    layout_of: LayoutOf
    commit_interval: float | None
    commit_records: int
    message_timeout: float
    timeout: float
    max_message_bytes: int


class OpenTransaction:
    """Rows that are not committed yet, in their order, and how far an attempt to commit them has come.

    After a retriable error of :meth:`send` or :meth:`commit` call :meth:`start_over`, then the method again: a fresh
    instance sends all rows anew under the layout of that time. ``in_doubt``: the last attempt ended within its
    commit, so only the ledger knows whether it succeeded.
    """

    def __init__(self, topic: str, name: LeasedName, settings: LaneSettings) -> None:
        self.chunks: list[Chunk] = []
        self.in_doubt = False
        self._topic = topic
        self._settings = settings
        self._instances = Instances(settings.connection, topic, name, settings.timeout)
        self._number: int | None = None
        self._producer: TransactionalProducer | None = None
        self._attempt = Attempt()
        self._sent = 0
        self._fenced = False
        self._sequence = 0
        self._placer = Placer()

    @property
    def is_open(self) -> bool:
        """Whether a transaction has begun."""
        return self._producer is not None

    def takes(self, chunk: Queue) -> bool:
        """Whether :meth:`send` would send one more chunk without waiting for a server."""
        return (
            self._producer is not None
            and self._sent == len(self.chunks)
            and self._producer.has_headroom(len(chunk), chunk.size)
        )

    def send(self) -> None:
        """Begin, if need be, and send the chunks that were not sent yet."""
        self._send_by(self._producer or self._begin())

    def commit(self, read: Sequence[TransactionOffsets]) -> Attempt:
        """Commit, with the offsets ``read``; the delivery reports.

        Raises RebalancedError when a group of ``read`` has moved on: :meth:`abort` then.
        """
        producer = self._producer
        if producer is None:
            producer = self._settled() if self.in_doubt else self._begin()
        if producer is not None:
            self._send_by(producer)
            entry = LedgerEntry(self._sequence, Fingerprint(sum(map(len, self.chunks))))
            try:
                producer.commit(entry, read)
            finally:
                self.in_doubt = producer.in_doubt
            self._instances.give_back(self._number or 0, producer)
        attempt = self._attempt
        self._forget()
        return attempt

    def start_over(self, failure: OrderedKafkaError) -> None:
        """Give up the instance that failed."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.discard()
        if isinstance(failure, FencedError):
            self._instances.discard()
        self._fenced = isinstance(failure, FencedError)

    def abort(self) -> list[Chunk]:
        """Drop the rows, and give them back; what was sent of them is never seen."""
        producer, self._producer = self._producer, None
        dropped = self.chunks
        self._forget()
        if producer is not None:
            producer.abort()
        return dropped

    def serve(self) -> None:
        """Take what librdkafka reports while nothing is sent."""
        self._instances.serve()
        if self._producer is not None:
            self._producer.serve()

    def close(self) -> None:
        """Give up all instances."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.discard()
        self._instances.discard()

    def _forget(self) -> None:
        self.chunks, self._sent, self._attempt = [], 0, Attempt()
        self._producer, self._number, self.in_doubt = None, None, False
        self._sequence += 1

    def _begin(self) -> TransactionalProducer:
        """An instance with an open and empty transaction."""
        if self._number is None:
            self._number, producer = self._instances.take()
        else:
            producer = self._instances.fresh(self._number, await_others=self._change)
        return self._begin_by(producer)

    @property
    def _change(self) -> Callable[[], object] | None:
        """To wait for a change that may have fenced the last instance, and goes on fencing."""
        settings = self._settings
        return partial(settings.layout_of, self._topic, settings.timeout) if self._fenced else None

    def _settled(self) -> TransactionalProducer | None:
        """As :meth:`_begin`; None when the ledger shows that the attempt in doubt was committed."""
        number = self._number or 0
        producer = self._instances.fresh(number, in_doubt=True, await_others=self._change)
        if producer.last is not None and producer.last.sequence >= self._sequence:
            self._instances.give_back(number, producer)
            return None
        self.in_doubt = False
        return self._begin_by(producer)

    def _begin_by(self, producer: TransactionalProducer) -> TransactionalProducer:
        settings = self._settings
        # From here on it is to be discarded after a failure.
        self._producer = producer
        self._sent, self._attempt = 0, Attempt()
        check_layout(producer, self._topic, settings.connection, settings.layout_of, settings.timeout)
        producer.begin()
        return producer

    def _send_by(self, producer: TransactionalProducer) -> None:
        for chunk in self.chunks[self._sent :]:
            if chunk.extras:
                self._send_rows(producer, chunk)
            else:
                self._placer.send(producer, Records(chunk.keys, chunk.values))
            self._sent += 1

    def _send_rows(self, producer: TransactionalProducer, chunk: Chunk) -> None:
        for start in range(0, len(chunk), _PART_ROWS):
            keys = chunk.keys[start : start + _PART_ROWS]
            size = chunk.size * len(keys) // len(chunk)
            self._placer.send_rows(producer, keys, partial(self._rows, chunk, start), size)

    def _rows(self, chunk: Chunk, start: int, places: Places) -> list[Row]:
        rows = chunk.rows((places + start).tolist())
        for row in rows:
            self._attempt.report(row)
        return rows


def commit_offsets(settings: LaneSettings, read: Sequence[TransactionOffsets]) -> Exception | None:
    """Commit nothing but offsets, in a transaction of its own; the error if that failed.

    No partition change minds such a transaction, hence the other prefix of its id. An attempt in doubt may be repeated.
    """
    topic, name = read[0].offsets[0].topic, f"ordered-offsets:{settings.writer}"
    producer = TransactionalProducer(settings.connection, topic, name, settings.timeout, predecessors=False)

    def attempt() -> None:
        producer.begin()
        producer.commit(LedgerEntry(0, Fingerprint()), read)

    failure = failure_of(attempt)
    if failure is None:
        producer.discard()
    elif (more := failure_of(producer.abort)) is not None:
        _LOG.warning("aborting %s: %s", name, more)
    return failure
