"""The open transaction of a topic: its rows, kept for a replay, and the producer instance that carries it."""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from spark_ordered_kafka.client.backlog import Chunk, CommitRequest, Queue
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.counts import WriterCounts
from spark_ordered_kafka.client.instances import Instances
from spark_ordered_kafka.client.options import ProducerOptions
from spark_ordered_kafka.client.records import OVERHEAD
from spark_ordered_kafka.client.reports import Attempt, Outbox
from spark_ordered_kafka.client.writer_names import LeasedName
from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.errors import FencedError, OrderedKafkaError, UnavailableError
from spark_ordered_kafka.kafka.attempts import failure_of
from spark_ordered_kafka.kafka.ledger import Fingerprint, LedgerEntry
from spark_ordered_kafka.kafka.producer import Row, TransactionalProducer
from spark_ordered_kafka.kafka.properties import transaction_timeout_ms
from spark_ordered_kafka.kafka.sent_offsets import TransactionOffsets
from spark_ordered_kafka.kafka.writer import Indices, LayoutOf, TopicWriter
from spark_ordered_kafka.native.contents import Records

# Of rows with callbacks, headers and the like, which go to librdkafka one by one.
_PART_ROWS = 2_000
_REQUEST_TIMEOUT = 30.0
_RETRY_INTERVAL = 0.5
_OURS = frozenset(
    {
        "queue.buffering.max.messages",
        "queue.buffering.max.kbytes",
        "message.timeout.ms",
        "delivery.timeout.ms",
    }
)


@dataclass(frozen=True)
class SenderSettings:
    """What the topic senders of a producer share.

    ``writer`` names what belongs to no topic.
    ``commit_interval``: seconds from a transaction's first record to its commit; None: on request only.
    ``commit_records``: records after which it is committed anyway. ``message_timeout``: seconds that a record may wait
    for its commit. ``timeout`` (seconds) bounds each call to a server, ``transaction_timeout`` a transaction.
    ``max_message_bytes``: of key, value and headers. ``callbacks``: ``error_cb`` and ``throttle_cb``, as librdkafka is to call them.
    """

    connection: Connection
    writer: str
    layout_of: LayoutOf
    commit_interval: float | None
    commit_records: int
    message_timeout: float
    timeout: float
    transaction_timeout: float
    max_message_bytes: int
    callbacks: Mapping[str, Callable[[Any], None]] = field(default_factory=dict)


def sender_settings(options: ProducerOptions, controller: ControllerClient, outbox: Outbox) -> SenderSettings:
    """The settings that follow from a producer's options."""
    connection = options.connection
    inner = {name: value for name, value in connection.kafka.items() if name not in _OURS}
    # Our own queue bounds what librdkafka is given.
    inner["message.timeout.ms"] = str(max(1, int(options.message_timeout * 1000)))
    return SenderSettings(
        connection=replace(connection, kafka=inner),
        writer=uuid.uuid4().hex,
        layout_of=controller.wait_for_layout,
        commit_interval=options.commit_interval,
        # While a transaction is committed, callers need the other half of the queue.
        commit_records=max(1, min(options.commit_records, options.max_messages // 2)),
        message_timeout=options.message_timeout,
        timeout=min(_REQUEST_TIMEOUT, options.message_timeout),
        transaction_timeout=transaction_timeout_ms(inner) / 1000,
        max_message_bytes=max(0, options.max_message_bytes - OVERHEAD),
        callbacks={name: outbox.events(callback) for name, callback in options.callbacks.items()},
    )


class OpenTransaction:
    """Rows that are not committed yet, in their order, and how far an attempt to commit them has come.

    After a retriable error of :meth:`send` or :meth:`commit` call :meth:`start_over`, then the method again: a fresh
    instance sends all rows anew under the layout of that time. ``in_doubt``: the last attempt ended within its
    commit, so only the ledger knows whether it succeeded. ``rest``: rows that follow in another transaction, since brokers
    were too slow for all of them in one, and callers do not ask for one (D-461).
    """

    def __init__(self, topic: str, name: LeasedName, settings: SenderSettings) -> None:
        self.chunks: list[Chunk] = []
        self.rest: list[Chunk] = []
        self.counts = WriterCounts()
        self.in_doubt = False
        self._most_chunks = sys.maxsize
        self._begun_at = 0.0
        self._was_slow = False
        self._topic = topic
        self._settings = settings
        self._instances = Instances(
            settings.connection, topic, name, settings.timeout, callbacks=settings.callbacks
        )
        self._writer = TopicWriter(topic, settings.connection, settings.layout_of, settings.timeout)
        self._attempt = Attempt()
        self._sent = 0
        self._fenced = False
        self._sequence = 0

    @property
    def is_open(self) -> bool:
        """Whether a transaction has begun."""
        return self._writer.producer is not None

    @property
    def uncommitted(self) -> list[Chunk]:
        """All rows."""
        return [*self.chunks, *self.rest]

    def add(self, chunks: Sequence[Chunk]) -> None:
        """More rows, as far as one transaction may have them."""
        self.rest += chunks
        room = max(0, self._most_chunks - len(self.chunks))
        self.chunks += self.rest[:room]
        del self.rest[:room]

    def takes(self, chunk: Queue) -> bool:
        """Whether :meth:`send` would send one more chunk without waiting for a server."""
        producer = self._writer.producer
        return (
            producer is not None
            and self._sent == len(self.chunks)
            and producer.has_headroom(len(chunk), chunk.size)
        )

    def send(self) -> None:
        """Begin, if need be, and send the chunks that were not sent yet."""
        if self._writer.producer is None:
            self._begin()
        self._send_unsent()

    def commit(self, read: Sequence[TransactionOffsets]) -> tuple[Attempt, list[Chunk]]:
        """Commit, with the offsets ``read``; the delivery reports, and what was committed.

        Raises RebalancedError when a group of ``read`` has moved on: :meth:`abort` then.
        """
        committed = self._begin() if self._writer.producer is None else None
        if committed is None:
            self._send_unsent()
            rows = Fingerprint(sum(map(len, self.chunks)))
            committed = self._writer.commit(LedgerEntry(self._sequence, rows), read)
        self._instances.give_back(committed)
        self.counts.committed += 1
        self.counts.records_committed += sum(map(len, self.chunks))
        done = self._attempt, self.chunks
        self._most_chunks += 1
        self._forget()
        return done

    def start_over(self, failure: OrderedKafkaError) -> None:
        """Give up the instance that failed, and idle ones: what has happened to it has mostly happened to them."""
        if (producer := self._writer.producer) is not None:
            self.in_doubt = producer.in_doubt
            self._was_slow = time.monotonic() - self._begun_at > self._settings.transaction_timeout / 2
            producer.learn_brokers()
            self._writer.discard()
        self._fenced = isinstance(failure, FencedError)
        self.counts.layout_changes += self._fenced
        self._instances.discard()

    def abort(self) -> list[Chunk]:
        """Abort the transaction, and return its rows."""
        self._count_dropped()
        dropped, self.rest = self.uncommitted, []
        self._forget()
        self._writer.abort()
        return dropped

    def serve(self) -> None:
        """Take what librdkafka reports while nothing is sent."""
        self._instances.serve()
        if (producer := self._writer.producer) is not None:
            producer.serve()

    def close(self) -> None:
        """Give up all instances, and what is not committed: an open transaction would hold up readers, and its group."""
        self._count_dropped()
        self._writer.abort()
        self._instances.end()
        self._instances.discard()

    def _count_dropped(self) -> None:
        if self.chunks or self.is_open:
            self.counts.aborted += 1
            self.counts.records_dropped += sum(map(len, self.uncommitted))

    def _forget(self) -> None:
        self.chunks, self._sent, self._attempt = [], 0, Attempt()
        self.in_doubt = self._fenced = self._was_slow = False
        self._instances.end()
        self._sequence += 1

    def _begin(self) -> TransactionalProducer | None:
        """Open the transaction; instead an instance whose ledger shows that the attempt in doubt was committed."""
        settings = self._settings
        # A change that has fenced the last instance would fence the next one, too (D-092).
        change = partial(settings.layout_of, self._topic, settings.timeout) if self._fenced else None
        producer = self._instances.take(in_doubt=self.in_doubt, await_others=change)
        if producer.last is not None and producer.last.sequence >= self._sequence:
            return producer
        self.in_doubt = False
        self._sent, self._attempt = 0, Attempt()
        if self._was_slow and settings.commit_interval is not None:
            self._divide()
        self._was_slow = False
        self._writer.begin(producer)
        self._begun_at = time.monotonic()
        return None

    def _divide(self) -> None:
        """Leave the second half to other transactions."""
        if len(self.chunks) == 1 and len(self.chunks[0]) > 1:
            self.chunks = self.chunks[0].halves()
        self._most_chunks = max(1, len(self.chunks) // 2)
        self.rest[:0] = self.chunks[self._most_chunks :]
        del self.chunks[self._most_chunks :]

    def _send_unsent(self) -> None:
        for chunk in self.chunks[self._sent :]:
            if chunk.extras:
                self._send_rows(chunk)
            else:
                self._writer.send(Records(chunk.keys, chunk.values))
            self._sent += 1

    def _send_rows(self, chunk: Chunk) -> None:
        for start in range(0, len(chunk), _PART_ROWS):
            keys = chunk.keys[start : start + _PART_ROWS]
            size = chunk.size * len(keys) // len(chunk)
            self._writer.send_rows(keys, partial(self._rows, chunk, start), size)

    def _rows(self, chunk: Chunk, start: int, indices: Indices) -> list[Row]:
        rows = chunk.rows((indices + start).tolist())
        for row in rows:
            self._attempt.report(row)
        return rows


def commit_offsets(settings: SenderSettings, request: CommitRequest) -> Exception | None:
    """Commit nothing but offsets, for as long as a record may wait and the request is not dropped; why that failed."""
    deadline = time.monotonic() + settings.message_timeout
    while True:
        failure = failure_of(partial(_commit_once, settings, request.read))
        if time.monotonic() >= deadline or not isinstance(failure, UnavailableError | FencedError):
            return failure
        if request.dropped.wait(_RETRY_INTERVAL):
            return failure


def _commit_once(settings: SenderSettings, read: Sequence[TransactionOffsets]) -> None:
    """In a transaction of their own.

    No partition change fences such a transaction, hence the other prefix of its id (D-085). An attempt in doubt may be
    repeated.
    """
    topic, name = read[0].offsets[0].topic, f"ordered-offsets:{settings.writer}"
    producer = TransactionalProducer(settings.connection, topic, name, settings.timeout, predecessors=False)

    def attempt() -> None:
        producer.begin()
        producer.commit(LedgerEntry(0, Fingerprint()), read)

    failure = failure_of(attempt)
    if failure is None:
        producer.discard()
    else:
        producer.abort()
        raise failure
