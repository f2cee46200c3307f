"""Writing the rows of one task of the sink to one topic, exactly once, through partition changes."""

from __future__ import annotations

import logging
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.errors import (
    ConfigError,
    FencedError,
    NoLayoutError,
    OrderedKafkaError,
    ReplayMismatchError,
    UnavailableError,
)
from spark_ordered_kafka.kafka.attempts import pause_before, retriable_failure
from spark_ordered_kafka.kafka.buffer import Memory, RowBuffer
from spark_ordered_kafka.kafka.ids import WriterTask
from spark_ordered_kafka.kafka.ledger import NO_ORIGIN, Fingerprint, LedgerEntry, Origin, look_up
from spark_ordered_kafka.kafka.pool import ProducerPool
from spark_ordered_kafka.kafka.producer import TransactionalProducer
from spark_ordered_kafka.kafka.properties import transaction_timeout_ms
from spark_ordered_kafka.kafka.replay import ACCEPT_OPTION, Claim, mismatch, refusal
from spark_ordered_kafka.kafka.writer import LayoutOf, TopicWriter
from spark_ordered_kafka.kafka.writer_layout import WriterLayout
from spark_ordered_kafka.native.contents import Records

_LOG = logging.getLogger(__name__)
_MAX_RESTARTS = 8


@dataclass(frozen=True)
class WriterContext:
    """What the transactions of a worker process share.

    ``timeout`` (seconds) bounds each call to a server; ``controller_timeout``, if given, how long a task waits for a
    layout. ``spill_directory``: where rows go that memory is not to keep; None: where Python keeps temporary files.
    """

    connection: Connection
    layout_of: LayoutOf
    pool: ProducerPool
    timeout: float = 60.0
    controller_timeout: float | None = None
    spill_directory: str | None = None
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


class TaskTransaction:
    """All rows that one task writes to one topic, as one transaction.

    ``sequence`` numbers the transactions of a ``ledger`` (the sink: by batch id), a consumer group, by default one named
    like the transactional id. When the ledger shows that ``sequence`` was committed before, nothing is sent, and
    :meth:`commit` compares the rows with those committed. ``origin`` is recorded in the ledger; ``accepted``: other rows
    than those committed before are skipped, with a warning; ``replayable``: as a Claim has it. ``memory`` is for the rows,
    perhaps with transactions of other topics.

    Errors: ReplayMismatchError (other rows than the first time, or another write's), RequestError (refused by Kafka or
    the controller), ConfigError (the transaction timeout is too short for the rows), UnavailableError and FencedError
    (retriable, after several attempts).
    """

    def __init__(
        self,
        context: WriterContext,
        topic: str,
        transactional_id: str,
        sequence: int,
        memory: Memory,
        ledger: str | None = None,
        *,
        origin: Origin = NO_ORIGIN,
        accepted: bool = False,
        replayable: bool = True,
    ) -> None:
        self._context = context
        self._topic = topic
        self._transactional_id = transactional_id
        self._ledger = ledger or transactional_id
        task = WriterTask.of(transactional_id)
        self._claim = Claim("" if task is None else task.writer, sequence, origin, accepted, replayable)
        self._buffer = RowBuffer(memory, context.spill_directory)
        self._fingerprint = Fingerprint()
        self._writer = TopicWriter(topic, context.connection, partial(_layout_of, context), context.timeout)
        self._unused: TransactionalProducer | None = None
        self._committed: LedgerEntry | None = None
        self._skipped = False
        self._started = False
        self._begun: float | None = None
        # Once brokers have aborted a transaction for its age, or two were lost under one layout, the next one begins when all
        # rows are there: of two attempts of a task that go on writing, each would fence the other (D-433).
        self._at_once = False
        self._restarts = 0
        self._progress: tuple[int | None, int] | None = None
        self._stuck_since = context.clock()
        self.replays = 0
        self.settled = False
        """Whether the ledger showed an earlier batch of the same run of the query: then this is not its first one."""

    @property
    def rows(self) -> int:
        """Rows written so far."""
        return self._fingerprint.rows

    @property
    def replayed(self) -> bool:
        """Whether the ledger has shown that the transaction was committed before."""
        return self._committed is not None

    def write(self, batch: pa.RecordBatch) -> None:
        """Send a batch with the columns key, value (binary) and optionally headers and timestamp; kept for a replay.

        Timestamps are not compared when a batch is replayed.
        """
        if not self._started:
            self._started = True
            self._with_restarts(self._open)
        self._buffer.append(batch)
        records = _records(batch)
        self._fingerprint = self._fingerprint.add(
            records.keys,
            records.values,
            records.headers if self._committed is None or self._committed.version > 1 else None,
        )
        if self._committed is None:
            self._with_restarts(partial(self._send, records))

    def check(self) -> None:
        """Raises ReplayMismatchError if what the ledger has shown so far is not what was written now."""
        if self._started and self._committed is not None:
            self._compare(self._committed)

    def commit(self) -> bool:
        """Commit; False when the ledger showed that these rows are there already.

        That is a replay, or a commit of this very transaction whose answer did not arrive.
        """
        try:
            if not self._started:
                self._committed = self._seen(
                    look_up(self._context.connection, self._topic, self._ledger, self._context.timeout)
                )
            elif self._committed is None:
                self._with_restarts(self._commit)
            if self._committed is None:
                return self.rows > 0
            self._compare(self._committed)
            self._with_restarts(self._confirm)
            return False
        finally:
            self._buffer.close()

    def abort(self) -> None:
        """Give up; what was sent is never seen."""
        self._buffer.close()
        self._writer.abort()

    # -- attempts -----------------------------------------------------------------------------------------------

    def _with_restarts(self, step: Callable[[], None]) -> None:
        """Run ``step`` until it is done: after a retriable error it starts over with all rows in the buffer."""
        while (failure := retriable_failure(step)) is not None:
            self._note_age(failure)
            self._before_restart(failure)

    def _note_age(self, failure: OrderedKafkaError) -> None:
        """Brokers abort a transaction some time after its first record, whether it goes on or not.

        Then they refuse its producer. Whatever else fails may have taken long, and says nothing of the rows (D-333).
        """
        limit = transaction_timeout_ms(self._context.connection.kafka)
        begun, self._begun = self._begun, None
        if begun is None or not isinstance(failure, FencedError):
            return
        if 1000 * (self._context.clock() - begun) < limit:
            return
        if self._at_once:
            self._writer.discard()
            raise ConfigError(
                "option kafka.transaction.timeout.ms",
                limit,
                f"brokers abort a transaction after that, and it takes longer to send the {self.rows} rows of"
                f" {self._transactional_id!r}: set more, at most transaction.max.timeout.ms of the brokers (900000 by"
                " default), or give a task fewer rows (more partitions; for a stream maxOffsetsPerTrigger). Last error:"
                f" {failure}",
            ) from failure
        self._at_once = True

    def _before_restart(self, error: OrderedKafkaError) -> None:
        producer = self._writer.producer
        layout = None if producer is None else producer.layout
        self._writer.discard()
        progress = (None if layout is None else layout.layout_epoch, self.rows)
        if self._progress is not None and self._progress[0] == progress[0]:
            self._at_once = True
        if progress != self._progress:
            self._restarts, self._stuck_since = 0, self._context.clock()
        self._restarts += 1
        self._progress = progress
        self.replays += 1
        stuck = self._context.clock() - self._stuck_since
        # After the whole wait for a layout another attempt would do no better.
        hopeless = isinstance(error, NoLayoutError) or stuck > 2 * self._context.timeout
        if self._restarts > _MAX_RESTARTS or hopeless:
            raise UnavailableError(
                f"gave up writing {self.rows} rows to {self._topic!r} as {self._transactional_id!r} after"
                f" {self._restarts} attempts under one layout; last error: {error}"
            ) from error
        _LOG.info("%s starts over with %d rows: %s", self._transactional_id, self.rows, str(error))
        self._context.sleep(pause_before(self._restarts))

    def _open(self) -> None:
        """Open the transaction, if need be, with all rows so far in it; or find that it was committed."""
        if self._writer.producer is not None:
            return
        context = self._context
        producer = (
            context.pool.take(context.connection, self._transactional_id) if self.replays == 0 else None
        )
        if producer is None:
            producer = TransactionalProducer(
                context.connection, self._topic, self._transactional_id, context.timeout, ledger=self._ledger
            )
        self._committed = self._seen(producer.last)
        if self._committed is not None:
            self._unused = producer
            return
        self._writer.begin(producer)
        self._begun = context.clock()
        for batch in self._buffer:
            self._writer.send(_records(batch))

    def _send(self, records: Records) -> None:
        """Send what was added to the buffer last, or all of it, unless that is to be done at the end."""
        if self._writer.producer is not None:
            # What is open is what will be committed: it must not miss any row.
            self._writer.send(records)
        elif not self._at_once:
            self._open()

    def _commit(self) -> None:
        self._open()
        if self._committed is None:
            self._commit_entry(self._fingerprint)

    def _commit_entry(self, fingerprint: Fingerprint) -> None:
        entry = LedgerEntry(self._claim.sequence, fingerprint, self._claim.origin)
        self._context.pool.give_back(self._context.connection, self._writer.commit(entry))

    def _confirm(self) -> None:
        """Record in the ledger that this execution has replayed the batch, so that another write of it is detected."""
        if not self._is_news():
            return
        if self._unused is None:
            self._open()
        entry, producer, self._unused = self._committed, self._unused, None
        if entry is None or producer is None:
            raise UnavailableError(f"the ledger {self._ledger!r} has lost the entry that it showed before")
        # Since the first look another driver of the query may have committed: a later batch, or other rows.
        self._compare(entry)
        if not self._is_news():
            return
        self._writer.begin(producer)
        self._commit_entry(entry.fingerprint)

    def _is_news(self) -> bool:
        entry = self._committed
        return entry is not None and entry.version > 1 and entry.origin != self._claim.origin

    # -- the ledger ---------------------------------------------------------------------------------------------

    def _seen(self, last: LedgerEntry | None) -> LedgerEntry | None:
        """The ledger's entry if it is of this batch or a later one."""
        if last is None or last.sequence >= self._claim.sequence:
            return last
        run = self._claim.origin.run
        self.settled = self.settled or (run != "" and last.origin.run == run)
        return None

    def _compare(self, entry: LedgerEntry) -> None:
        if (why := refusal(entry, self._ledger, self._claim)) is not None:
            raise ReplayMismatchError(why)
        if (why := mismatch(entry, self._ledger, self._claim, self._fingerprint)) is None:
            return
        if not self._claim.accepted:
            raise ReplayMismatchError(why)
        if self._skipped:
            return
        self._skipped = True
        _LOG.warning(
            "%s: batch %d of task %s: the %d rows committed before stay, the %d rows of this attempt are skipped",
            ACCEPT_OPTION,
            self._claim.sequence,
            self._transactional_id,
            entry.fingerprint.rows,
            self.rows,
        )


def _layout_of(context: WriterContext, topic: str, timeout: float) -> WriterLayout:
    limit = timeout if context.controller_timeout is None else context.controller_timeout
    try:
        return context.layout_of(topic, limit)
    except OrderedKafkaError as error:
        if not error.retriable:
            raise
        raise NoLayoutError(
            f"no layout of topic {topic!r} within {limit:g} s (option controllerTimeout) on host {platform.node()}: {error}"
        ) from error


def _records(batch: pa.RecordBatch) -> Records:
    more = (batch.column(name) if name in batch.schema.names else None for name in ("headers", "timestamp"))
    return Records(batch.column("key"), batch.column("value"), *more)
