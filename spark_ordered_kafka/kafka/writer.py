"""Writing the rows of one task to one topic, exactly once, through partition changes.

The writer rule (init, check, write): a producer is initialised first, then the layout is asked for, then records are
placed by it. A change fences the producer; its rows, kept in a buffer, are then hashed and sent anew by a fresh one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.errors import OrderedKafkaError, ReplayMismatchError, UnavailableError
from spark_ordered_kafka.kafka.attempts import pause_before, retriable_failure
from spark_ordered_kafka.kafka.buffer import RowBuffer
from spark_ordered_kafka.kafka.ledger import Fingerprint, LedgerEntry, ledger_consumer, read_entry
from spark_ordered_kafka.kafka.placing import LayoutOf, Placer, Places, check_layout
from spark_ordered_kafka.kafka.producer import Headers, ProducerPool, Row, TransactionalProducer

_LOG = logging.getLogger(__name__)
MAX_FRUITLESS_RESTARTS = 8
_PART_ROWS = 2_000
_Headers = list[dict[str, Any]] | None


@dataclass(frozen=True)
class WriterContext:
    """What the transactions of a worker process share.

    ``timeout`` (seconds) bounds each call to a server.
    """

    connection: Connection
    layout_of: LayoutOf
    pool: ProducerPool
    timeout: float = 60.0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


class TaskTransaction:
    """All rows that one task writes to one topic, as one transaction.

    ``sequence`` numbers the transactions of a ``ledger`` (the sink: by batch id), a consumer group, by default one named
    like the transactional id. When the ledger shows that ``sequence`` was committed before, nothing is sent; :meth:`commit` then compares the rows with those committed.
    Errors: ReplayMismatchError (other rows than the first time), RequestError (refused by Kafka or the controller),
    UnavailableError and FencedError (retriable, after several attempts).
    """

    def __init__(
        self,
        context: WriterContext,
        topic: str,
        transactional_id: str,
        sequence: int,
        buffer_bytes: int,
        ledger: str | None = None,
    ) -> None:
        self._context = context
        self._topic = topic
        self._transactional_id = transactional_id
        self._ledger = ledger or transactional_id
        self._sequence = sequence
        self._buffer = RowBuffer(buffer_bytes)
        self._fingerprint = Fingerprint()
        self._producer: TransactionalProducer | None = None
        self._committed: LedgerEntry | None = None
        self._started = False
        self._restarts = 0
        self._progress: tuple[int | None, int] | None = None
        self._stuck_since = context.clock()
        self._placer = Placer()
        self.replays = 0

    @property
    def rows(self) -> int:
        """Rows written so far."""
        return self._fingerprint.rows

    def write(self, batch: pa.RecordBatch) -> None:
        """Send a batch with the columns key, value (binary) and optionally headers; kept for a replay."""
        if not self._started:
            self._started = True
            self._with_restarts(self._start, self._start)
        self._buffer.append(batch)
        parts = _parts(batch)
        for part in parts:
            self._fingerprint = self._fingerprint.add(part.keys, part.values)
        if self._committed is None:
            self._with_restarts(lambda: self._send(parts), self._start)

    def commit(self) -> bool:
        """Commit; False when the ledger showed that these rows are there already.

        That is a replay, or a commit of this very transaction whose answer did not arrive.
        """
        try:
            if not self._started:
                self._committed = self._read_ledger()
            elif self._committed is None:
                self._with_restarts(self._commit, self._start_and_commit)
            if self._committed is not None:
                self._compare(self._committed)
                return False
            return self.rows > 0
        finally:
            self._buffer.close()

    def abort(self) -> None:
        """Give up; what was sent is never seen."""
        self._buffer.close()
        producer, self._producer = self._producer, None
        if producer is None:
            return
        try:
            producer.abort()
        except OrderedKafkaError as error:
            # The successor's initialisation, or the transaction's timeout, aborts it as well.
            _LOG.warning("aborting %s: %s", self._transactional_id, error)

    # -- attempts -----------------------------------------------------------------------------------------------

    def _with_restarts(self, first: Callable[[], None], again: Callable[[], None]) -> None:
        """Run ``first``; after a retriable error ``again``, which starts over with all rows in the buffer."""
        failure = retriable_failure(first)
        while failure is not None:
            self._before_restart(failure)
            failure = retriable_failure(again)

    def _before_restart(self, error: OrderedKafkaError) -> None:
        producer, self._producer = self._producer, None
        layout = None if producer is None else producer.layout
        if producer is not None:
            producer.discard()
        progress = (None if layout is None else layout.layout_epoch, self.rows)
        if progress != self._progress:
            self._restarts, self._stuck_since = 0, self._context.clock()
        self._restarts += 1
        self._progress = progress
        self.replays += 1
        stuck = self._context.clock() - self._stuck_since
        if self._restarts > MAX_FRUITLESS_RESTARTS or stuck > 2 * self._context.timeout:
            raise UnavailableError(
                f"gave up writing {self.rows} rows to {self._topic!r} as {self._transactional_id!r} after"
                f" {self._restarts} attempts under one layout; last error: {error}"
            ) from error
        _LOG.info("%s starts over with %d rows: %s", self._transactional_id, self.rows, error)
        self._context.sleep(pause_before(self._restarts))

    def _start(self) -> None:
        """A producer with an open transaction and all rows so far in it; or the finding that it was committed."""
        context = self._context
        producer = (
            context.pool.take(context.connection, self._transactional_id) if self.replays == 0 else None
        )
        if producer is None:
            producer = TransactionalProducer(
                context.connection,
                self._topic,
                self._transactional_id,
                context.timeout,
                ledger=self._ledger,
            )
        check_layout(producer, self._topic, context.connection, context.layout_of, context.timeout)
        if producer.last is not None and producer.last.sequence >= self._sequence:
            self._committed = producer.last
            return
        producer.begin()
        self._producer = producer
        for batch in self._buffer:
            self._send(_parts(batch))

    def _start_and_commit(self) -> None:
        self._start()
        if self._committed is None:
            self._commit()

    def _send(self, parts: Sequence[_Part]) -> None:
        producer = self._open_producer()
        for part in parts:
            if part.headers is None:
                self._placer.send_contents(producer, part.keys, part.values, part.size)
            else:
                self._placer.send(producer, part.keys, partial(part.rows, part.headers), part.size)
            producer.serve()

    def _open_producer(self) -> TransactionalProducer:
        if self._producer is None:
            raise UnavailableError(f"{self._transactional_id!r} has no open transaction")
        return self._producer

    def _commit(self) -> None:
        producer = self._open_producer()
        producer.commit(LedgerEntry(self._sequence, self._fingerprint))
        self._producer = None
        self._context.pool.give_back(self._context.connection, producer)

    # -- the ledger ---------------------------------------------------------------------------------------------

    def _read_ledger(self) -> LedgerEntry | None:
        consumer = ledger_consumer(self._context.connection, self._ledger)
        try:
            return read_entry(consumer, self._topic, self._ledger, self._context.timeout)
        finally:
            consumer.close()

    def _compare(self, entry: LedgerEntry) -> None:
        remedy = (
            "the same batch must give every task the same rows on each attempt: repartition with a fixed number,"
            ' such as df.repartition(8, "key"), and no adaptive execution before the sink'
        )
        if entry.sequence == self._sequence and entry.fingerprint != self._fingerprint:
            raise ReplayMismatchError(
                f"task {self._transactional_id!r} replays batch {self._sequence} with {self._fingerprint.rows} rows"
                f" that are not the {entry.fingerprint.rows} rows it committed the first time; {remedy}"
            )
        if entry.sequence > self._sequence and self.rows > 0:
            raise ReplayMismatchError(
                f"task {self._transactional_id!r} was given batch {self._sequence} but has committed batch"
                f" {entry.sequence} before: the checkpoint is older than what was written; restore the newer"
                " checkpoint, or start a new one"
            )


@dataclass(frozen=True)
class _Part:
    """Rows as Python values, a slice of a batch small enough for one call of the producer."""

    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[_Headers] | None
    size: int

    def rows(self, headers: Sequence[_Headers], places: Places) -> list[Row]:
        """The rows at ``places`` as confluent-kafka takes them."""
        keys, values = self.keys, self.values
        return [{"key": keys[i], "value": values[i], "headers": _pairs(headers[i])} for i in places.tolist()]


def _pairs(headers: _Headers) -> Headers:
    return [(header["key"], header["value"]) for header in headers or ()]


def _parts(batch: pa.RecordBatch) -> list[_Part]:
    parts = []
    for start in range(0, batch.num_rows, _PART_ROWS):
        part = batch.slice(start, _PART_ROWS)
        headers = part.column("headers").to_pylist() if "headers" in part.schema.names else None
        parts.append(
            _Part(part.column("key").to_pylist(), part.column("value").to_pylist(), headers, part.nbytes)
        )
    return parts
