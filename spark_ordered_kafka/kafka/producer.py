"""One transactional producer instance."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypedDict

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.errors import FencedError, OrderedKafkaError, RequestError, UnavailableError
from spark_ordered_kafka.kafka.attempts import failure_of, retriable_failure, without_frames
from spark_ordered_kafka.kafka.clients import new_client
from spark_ordered_kafka.kafka.known_brokers import note_brokers
from spark_ordered_kafka.kafka.ledger import LedgerEntry, ledger_consumer, read_entry
from spark_ordered_kafka.kafka.live_brokers import live_brokers
from spark_ordered_kafka.kafka.logins import BrokerErrors
from spark_ordered_kafka.kafka.missing_topic import is_missing, missing
from spark_ordered_kafka.kafka.properties import producer_properties
from spark_ordered_kafka.kafka.sent_offsets import SentOffsets, TransactionOffsets
from spark_ordered_kafka.kafka.tombstones import Tombstones
from spark_ordered_kafka.kafka.transaction_errors import first_error, transaction_error
from spark_ordered_kafka.kafka.writer_layout import WriterLayout
from spark_ordered_kafka.native.contents import Records
from spark_ordered_kafka.native.producing import Headroom, produce, queue_rows
from spark_ordered_kafka.native.unanswered import watch
from spark_ordered_kafka.ordering.routing import Routing

_LOG = logging.getLogger(__name__)
# Seconds of the first attempt to reach a broker.
_FIRST_PATIENCE = 0.5
# Undelivered at most: enough to keep a broker busy (D-110).
_DRAIN_RECORDS = 100_000
_DRAIN_BYTES = 32 * 1024 * 1024
_LITTLE_ROOM = 0.125
# Seconds for librdkafka to send what waits for more, in which it looks every 10 ms whether all is acknowledged, and then for an
# acknowledgement: with hundreds of instances those looks would take a core (D-490).
_FLUSH, _QUIET = 0.01, 0.25
# Seconds without an answer after which it is looked whether there will be one.
_LOOK_AFTER = 3.0
# Seconds for an instance that is given up to say which brokers there are.
_LEARNING_PATIENCE = 1.0
# Seconds that an abort waits for the answer to offsets that were sent.
_ABORT_PATIENCE = 1.0

Headers = list[tuple[str, str | bytes | None]]


class Row(TypedDict, total=False):
    """A record to send; the field names are confluent-kafka's."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers
    callback: Callable[[KafkaError | None, Message], None]


class TransactionalProducer:
    """A producer from ``init_transactions`` to its first failure.

    ``layout`` is the layout checked *after* the initialisation, hence valid until the instance is fenced if the topic
    is ordered; ``tombstones`` are those it owes under that layout, if any; ``ledger`` is the consumer group that holds
    its entries (None: one named like the transactional id), ``last`` the last of them;
    ``in_doubt``: a commit was asked for and not confirmed; ``group`` is the ledger's metadata. The ledger is read only if
    ``predecessors``, of which a commit may be in doubt. Without them ``group`` may be that of an earlier instance of
    the same id, which saves a client.
    ``await_others`` is called once there are connections, and waits for other initialisations of the id: a broker
    turns one away while it is busy with another, and librdkafka tries again after 500 ms only. ``callbacks`` are
    librdkafka's, called when the instance is served.
    An instance is never used again after an abort, an error, or a transaction in which a request got no answer, since a
    delayed request could hit the next transaction of the same producer epoch (D-065).
    """

    def __init__(
        self,
        connection: Connection,
        topic: str,
        transactional_id: str,
        timeout: float,
        *,
        predecessors: bool = True,
        group: Any = None,
        await_others: Callable[[], object] | None = None,
        ledger: str | None = None,
        callbacks: Mapping[str, Callable[[Any], None]] | None = None,
    ) -> None:
        self.transactional_id = transactional_id
        self.ledger = ledger or transactional_id
        self.layout: WriterLayout | None = None
        self.tombstones: Tombstones | None = None
        self.in_doubt = False
        self._sending: SentOffsets | None = None
        self._topic = topic
        self._timeout = timeout
        self._connection = connection
        self._watch = watch()
        self._undelivered_bytes = 0
        self._largest = 0
        given: dict[str, Any] = {**connection.kafka, **(callbacks or {})}
        self._errors = BrokerErrors(connection.kafka, given.get("error_cb"))
        properties = producer_properties({**given, "error_cb": self._errors}, transactional_id)
        self._producer = new_client(Producer, self._watch.watching(properties))
        self.last: LedgerEntry | None = None
        if group is not None and not predecessors:
            self.group = group
            self._initialise(await_others)
            return
        reader = ledger_consumer(connection, self.ledger)
        try:
            # The group needs no member: a consumer that never subscribes gives its metadata.
            self.group = reader.consumer_group_metadata()
            self._initialise(await_others)
            # Only now: the initialisation has brought a predecessor's commit in doubt to its end.
            if predecessors:
                self.last = read_entry(reader, topic, self.ledger, timeout)
        finally:
            reader.close()

    def _initialise(self, await_others: Callable[[], object] | None) -> None:
        # Twice: the first answer comes by the bootstrap connection, which librdkafka then gives up (D-083).
        self.refresh_metadata()
        self.refresh_metadata()
        if await_others is not None:
            await_others()
        self._brokers_before, self._lost_before = self._brokers, self._errors.lost
        self._complete("initialising transactions", self._producer.init_transactions)

    def refresh_metadata(self) -> None:
        """Learn of partitions that the topic has got: librdkafka asks by itself every five minutes only.

        With growing patience; between two attempts it is looked whether brokers refuse the login (D-275).
        """
        deadline = time.monotonic() + self._timeout
        patience = _FIRST_PATIENCE
        while True:
            left = deadline - time.monotonic()
            failure = retriable_failure(partial(self._ask_metadata, min(patience, left)))
            if failure is None:
                return
            self.serve()
            self._errors.check()
            if left <= patience:
                raise self._errors.explained(failure)
            patience *= 2

    def learn_brokers(self) -> None:
        """Let a successor find the cluster by today's brokers, which only an older client may know (D-468).

        Where no broker answers, those that were known before remain.
        """
        failure_of(partial(self._ask_metadata, _LEARNING_PATIENCE))

    def _ask_metadata(self, timeout: float) -> bool:
        """Whether the broker that answers knows the topic."""
        found = self._run("asking for metadata", self._producer.list_topics, self._topic, timeout)
        note_brokers(self._connection.bootstrap_servers, found)
        self._brokers = frozenset(found.brokers)
        error = found.topics[self._topic].error
        return error is None or error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART

    def begin(self) -> None:
        """Start a transaction."""
        self._undelivered_bytes = self._largest = 0
        self._run("beginning a transaction", self._producer.begin_transaction)

    def send(self, partition: int, rows: list[Row], size: int) -> None:
        """Queue rows for a partition, in order; waits for room first, so that none is refused in the middle.

        ``size`` is their size in bytes; either all or none of them have headers.
        """
        if not self.has_headroom(len(rows), size):
            self.flush()
        self._undelivered_bytes += size
        # Of one of them nothing is known but that it is no larger than all.
        self._largest = max(self._largest, size)
        self._run("producing", queue_rows, self._producer, self._topic, partition, rows)

    def send_records(self, records: Records, routing: Routing, turn: int) -> int:
        """Queue records in the partitions of their keys, in their order; waits for room.

        Null keys take turns over all partitions, of which the next is ``turn``. Returns whose turn it is after that.
        """
        start = 0
        while start < len(records):
            queued = self._run(
                "producing",
                produce,
                self._producer,
                self._topic,
                routing,
                turn,
                records,
                start,
                self._await_headroom(),
            )
            start, turn = start + queued.rows, queued.turn
            self._undelivered_bytes += queued.size
            self._largest = max(self._largest, queued.largest)
            self.serve()
        return turn

    def serve(self) -> None:
        """Take the reports of what is acknowledged. Raises the instance's fatal error, such as having been fenced."""
        self._poll(0)

    def has_headroom(self, rows: int, size: int) -> bool:
        """Whether :meth:`send` takes that many rows of ``size`` bytes without waiting."""
        headroom = self._headroom()
        return rows <= headroom.rows and size <= headroom.size

    def _headroom(self) -> Headroom:
        undelivered = len(self._producer)
        # librdkafka counts records only: of those that are left, each may be the largest.
        self._undelivered_bytes = min(self._undelivered_bytes, undelivered * self._largest)
        if undelivered == 0:
            self._largest = 0
        return Headroom(_DRAIN_RECORDS - undelivered, _DRAIN_BYTES - self._undelivered_bytes)

    def _await_headroom(self) -> Headroom:
        """Wait until half of the room is free, if little is: filling it row by row would cost a call for each few (D-110)."""
        headroom = self._headroom()
        if _share(headroom) < _LITTLE_ROOM:
            # Unlike a poll a flush makes librdkafka send what waits for more.
            self._flush_until(lambda: _share(self._headroom()) >= 0.5, 0.0)
            headroom = self._headroom()
        return headroom

    def flush(self) -> None:
        """Wait until everything queued is acknowledged or failed."""
        self._flush_until(lambda: len(self._producer) == 0, _QUIET)

    def _flush_until(self, is_done: Callable[[], bool], quiet: float) -> None:
        """Wait for as long as records are acknowledged: a quota may let few pass (D-461).

        Looks whether it is done after each few acknowledgements, else after ``quiet`` seconds.

        librdkafka tries for ever to write to a topic that another tool has deleted (D-458).
        """
        least = len(self._producer)
        progress_at = looked_at = time.monotonic()
        while True:
            left = progress_at + self._timeout - time.monotonic()
            self._run("flushing", self._producer.flush, max(0.0, min(_FLUSH, left)))
            if quiet > 0.0 and not is_done():
                self._poll(max(0.0, min(quiet, left)))
            if is_done():
                return
            now = time.monotonic()
            if len(self._producer) < least:
                least, progress_at, looked_at = len(self._producer), now, now
            is_late = now >= progress_at + self._timeout
            if is_late or now >= looked_at + _LOOK_AFTER:
                self._look(self._unacknowledged())
                looked_at = time.monotonic()
            if is_late:
                raise UnavailableError(f"{self._unacknowledged()} within {self._timeout:g} s")

    def _unacknowledged(self) -> str:
        return f"{len(self._producer)} records of {self.transactional_id!r} were not acknowledged"

    def commit(self, entry: LedgerEntry, read: Sequence[TransactionOffsets] = ()) -> None:
        """Commit the transaction together with its ledger entry and the offsets of what was read for it.

        Raises RebalancedError, for which the transaction must be aborted, when a reader's group has moved on.
        """
        offset = TopicPartition(self._topic, 0, entry.sequence, entry.metadata())
        every = [*read, TransactionOffsets([offset], self.group)]
        sending = self._sending = SentOffsets(self._producer, self.transactional_id, every, self._timeout)
        failure = failure_of(self.flush)
        if not isinstance(failure, RequestError):
            # A rebalance goes before: it says that the records are not to be sent again.
            failure = failure_of(partial(self._await_offsets, sending)) or failure
        try:
            if failure is not None:
                raise failure
        finally:
            # Its traceback leads here: a cycle that would keep the instance alive.
            del failure
        # Before the end of the transaction is asked for, nothing can have been committed.
        self.in_doubt = True
        self._complete("committing", self._producer.commit_transaction)
        self.in_doubt = False
        self.last = entry
        if self.tombstones is not None:
            self.tombstones.committed()
        self._watch.ended(self._poll)

    def _await_offsets(self, sending: SentOffsets) -> None:
        # librdkafka 2.16 may sleep over a request that it is to repeat; a flush wakes all of its threads (D-493).
        wake = partial(self._run, "flushing", self._producer.flush, 0.0)
        doing = f"the transaction of {self.transactional_id!r} takes no offsets"
        while not sending.wait_for(_LOOK_AFTER, wake) and not sending.is_late():
            self._look(doing)
            # It may wait without an end for one that it has given up (D-494).
            if self._errors.lost > self._lost_before:
                raise UnavailableError(f"{doing} since connections to brokers were lost")
        self._run("committing offsets", sending.result)

    def _complete(self, doing: str, call: Callable[[float], object]) -> None:
        """Call until it has ended: what takes long librdkafka continues with the next call."""
        deadline = time.monotonic() + self._timeout
        while True:
            began = time.monotonic()
            left = max(0.0, deadline - began)
            failure = retriable_failure(partial(self._run, doing, call, min(_LOOK_AFTER, left)))
            if failure is None:
                return
            try:
                if left <= _LOOK_AFTER or time.monotonic() < began + _LOOK_AFTER:
                    raise failure
            finally:
                # Its traceback leads here: a cycle that would keep the instance alive.
                del failure
            self._check_brokers(f"{doing} as {self.transactional_id!r} has not ended")

    def _look(self, doing: str) -> None:
        """Raises where waiting is in vain: as :meth:`_check_brokers`, or since the topic is gone (D-458)."""
        self._check_brokers(doing)
        if is_missing(self._ask_metadata):
            raise missing(self._topic, doing)

    def _check_brokers(self, doing: str) -> None:
        """Raises UnavailableError where a broker is gone that there was at first.

        librdkafka waits for the answer of one that is frozen or cut off, although others have taken over from it (D-495).
        """
        # Where no broker answers, those count that were known before.
        with suppress(UnavailableError):
            self._brokers = live_brokers(self._connection, self._topic)
        if not self._brokers_before <= self._brokers:
            raise UnavailableError(f"{doing} since brokers are gone")

    def abort(self) -> None:
        """Give up the open transaction, so that readers need not wait for its timeout, and discard the instance.

        A failure is only logged: the successor's initialisation, or the transaction's timeout, aborts it as well. These do
        also where offsets are on their way for long, as to the ledger of a topic that was deleted.
        """
        self._producer.purge()
        if self._sending is None or self._sending.wait_for(_ABORT_PATIENCE):
            try:
                self._complete("aborting", self._producer.abort_transaction)
            except OrderedKafkaError as error:
                _LOG.warning("aborting %s: %s", self.transactional_id, str(error))
        self.discard()

    def discard(self) -> None:
        """Serve what is left to report before the instance is forgotten.

        librdkafka 2.16 corrupts the heap when a fenced instance is destroyed with reports that were not served (D-117).
        """
        self._producer.purge()
        deadline = time.monotonic() + self._timeout
        while len(self._producer) > 0 and time.monotonic() < deadline:
            # Once per fatal error poll raises instead of serving; it is the error that led here.
            with suppress(KafkaException):
                self._producer.poll(0.05)

    def is_clean(self) -> bool:
        """Whether the instance may carry another transaction: none of its requests went without an answer.

        Without the kernel this may wait for librdkafka's next statistics.
        """
        try:
            return self._watch.all_answered(self._poll)
        except FencedError:
            return False

    def _poll(self, timeout: float) -> None:
        # It raises the instance's fatal error, such as having been fenced, if there is one.
        self._run("polling", self._producer.poll, timeout)

    def _run(self, doing: str, call: Any, *arguments: Any) -> Any:
        try:
            return call(*arguments)
        except KafkaException as error:
            # Looked at after the handler, where librdkafka may be asked (D-120).
            failure = without_frames(error)
        except SystemError as error:
            # confluent-kafka 2.16 sets a fatal error as Python's current exception and may then call a callback, whose
            # first call into C finds an exception that it did not raise.
            if not isinstance(error.__cause__, KafkaException):
                raise
            # The SystemError is never freed: its frames would keep the instance, its threads and connections.
            without_frames(error)
            failure = error.__cause__
        failure = first_error(self._producer, failure)
        try:
            raise transaction_error(failure.args[0], f"{doing} as {self.transactional_id!r}") from failure
        finally:
            # The error's traceback leads here: a cycle that would keep the instance alive.
            del failure


def _share(headroom: Headroom) -> float:
    """Of all the room, what is free."""
    return min(headroom.rows / _DRAIN_RECORDS, headroom.size / _DRAIN_BYTES)
