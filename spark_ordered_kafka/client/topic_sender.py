"""One topic of a producer: its queue, and the thread that sends and commits it.

Callers append to it; the sender takes what has gathered, places it by the layout and commits it, transaction after
transaction. Whatever a partition change or a server that is away does to one, its rows are kept and sent anew in order.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable

from confluent_kafka import KafkaError

from spark_ordered_kafka.client.accepted import Accepted
from spark_ordered_kafka.client.backlog import SMALL_BYTES, Backlog, Chunk, CommitRequest, Extra, Queue
from spark_ordered_kafka.client.commit_schedule import CHUNK_ROWS, CommitSchedule, Task, is_ripe
from spark_ordered_kafka.client.reports import Outbox, kafka_error
from spark_ordered_kafka.client.sending import OpenTransaction, SenderSettings
from spark_ordered_kafka.client.writer_names import LeasedName
from spark_ordered_kafka.errors import (
    ClosedError,
    OrderedKafkaError,
    RebalancedError,
    UnavailableError,
    invalid_request,
)
from spark_ordered_kafka.kafka.attempts import failure_of, pause_before, retriable_failure, without_frames
from spark_ordered_kafka.kafka.sent_offsets import TransactionOffsets

_LOG = logging.getLogger(__name__)
_NEVER = 2**63
_SERVING, _IDLING = 0.05, 1.0
"""Seconds between looks at what librdkafka reports and at the queue, while a transaction is open and while none is. A record
that was queued just before the limit was lowered does not wake the sender."""
_PATIENCE = 0.02
"""Seconds that a long queue is left to the callers when a commit is due."""


class TopicSender:
    """The transactions of one topic.

    Callers add records of at most ``small`` bytes to ``queue`` as that says, and call :meth:`look` at its limit; others by
    :meth:`accept`. ``error``: what ended this for good; ``reported``: it was raised to a caller; ``has_lost``: it ended with
    records, and no abort has followed.
    """

    def __init__(
        self, topic: str, name: LeasedName, settings: SenderSettings, backlog: Backlog, outbox: Outbox
    ) -> None:
        self.topic = topic
        self.small = min(SMALL_BYTES, settings.max_message_bytes)
        self.queue = Queue()
        self.error: BaseException | None = None
        self.reported = self.has_lost = False
        self._settings = settings
        self._backlog = backlog
        self._outbox = outbox
        self._clock = backlog.clock
        self._schedule = CommitSchedule(settings.commit_interval, settings.commit_records)
        # Under the lock:
        self._wake_at = 1
        self._work = threading.Condition(backlog.lock)
        self._accepted = Accepted(backlog, self.queue)
        self._hurried = False
        self._closing = False
        # When the last transaction ended.
        self._settled_at = 0.0
        # Held by the thread that works on the open transaction; what ended a caller's work on it.
        self._sending = threading.Lock()
        self._failure: BaseException | None = None
        # The sender's own:
        self._committing: list[CommitRequest] = []
        self._transaction = OpenTransaction(topic, name, settings)
        self.counts = self._transaction.counts
        with backlog.lock:
            backlog.queues.append(self.queue)
        self._thread = threading.Thread(target=self._run, name=f"sender of {topic}", daemon=True)
        self._thread.start()

    # -- callers ------------------------------------------------------------------------------------------------

    def accept(self, key: bytes | None, content: bytes | Extra | None, size: int) -> bool:
        """Queue a record of ``size`` bytes; False when there is no room. Raises the error that ended the sender."""
        with self._backlog.lock:
            self._check()
            if not self._backlog.has_room(size):
                return False
            self.queue.put(key, content, self._clock())
            ripe = self._grant()
        if ripe:
            self._offer()
        return True

    def look(self) -> None:
        """Send the queue or raise its limit, which a caller has reached; raises the error that ended the sender meanwhile."""
        with self._backlog.lock:
            if self.error is not None:
                # What was added meanwhile will never be sent: all who added it come here.
                self.queue.take(self._clock())
            self._check()
            ripe = self._grant()
        if ripe:
            self._offer()

    def _check(self) -> None:
        if self.error is not None:
            self.reported = True
            raise self.error.with_traceback(None)

    def _grant(self) -> bool:
        """Let callers add records without the lock (D-091); whether the queue is to be offered first."""
        length = len(self.queue)
        wanted = min(
            (mark - length for mark in (self._wake_at, CHUNK_ROWS) if mark > length), default=CHUNK_ROWS
        )
        self._backlog.grant(self.queue, wanted)
        return length >= self._wake_at or is_ripe(self.queue)

    def _offer(self) -> None:
        """Send the queue in this thread, if that need not wait for anything, or wake the sender.

        Handing every chunk to the sender would make two threads contend for Python's lock (D-081).
        """
        if not self._sending.acquire(blocking=False):
            # The sender looks again when it is done, and another caller's next record offers again.
            return
        failure: BaseException | None = UnavailableError("a caller was interrupted while it sent")
        try:
            # confluent-kafka leaks when a call fails inside an exception's handler, where callers may be (D-120).
            may_send = self._failure is None and sys.exc_info()[0] is None
            with self._backlog.lock:
                ripe = is_ripe(self.queue) and not self._accepted.commits and not self._accepted.aborts
                may_send = may_send and ripe and self._transaction.takes(self.queue)
                if may_send:
                    self._take()
                else:
                    self.wake()
            failure = failure_of(self._transaction.send) if may_send else None
        finally:
            self._failure = self._failure or failure
            self._sending.release()
        if failure is not None:
            with self._backlog.lock:
                self.wake()

    def wake(self) -> None:
        """Let the sender look by itself; the lock is held."""
        self._wake_at = _NEVER
        self._work.notify()

    def hurry(self) -> None:
        """Commit what there is, since callers wait for room; the lock is held."""
        self._hurried = True
        self.wake()

    def request_commit(self, read: tuple[TransactionOffsets, ...] = ()) -> CommitRequest:
        """Ask for all accepted so far, and nothing later, to be committed, with ``read`` if given; the lock is held."""
        if self.error is None:
            self._accepted.cut()
        return self._ask(self._accepted.commits, CommitRequest(read, self))

    def request_abort(self) -> CommitRequest:
        """Ask for all accepted so far that is not committed, and nothing later, to be dropped; the lock is held."""
        if self.error is None:
            self._accepted.cut()
        self.has_lost = False
        self._accepted.drop()
        return self._ask(self._accepted.aborts, CommitRequest())

    @property
    def pending(self) -> int:
        """Rows that are not committed; the lock is held."""
        return self._accepted.pending

    @property
    def kept(self) -> int:
        """Those of them that no abort is about to drop; the lock is held."""
        return self._accepted.kept

    @property
    def oldest(self) -> float | None:
        """When the first of those was accepted, None without any; the lock is held."""
        return self._accepted.oldest_kept

    def stop(self) -> None:
        """Let the sender commit what is pending, and end; the lock is held."""
        self._closing = True
        self.request_commit()
        self.wake()

    def join(self, timeout: float | None) -> bool:
        """Wait for the sender's end, so many seconds (None: without a limit); whether it has ended."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _ask(self, requests: list[CommitRequest], request: CommitRequest) -> CommitRequest:
        if self.error is not None:
            request.done, request.error = True, self.error
        else:
            requests.append(request)
            self.wake()
        return request

    # -- the sender ---------------------------------------------------------------------------------------------

    def _run(self) -> None:
        failure: BaseException | None = None
        try:
            while (task := self._next()) is not Task.END:
                self._do(task)
        except BaseException as error:  # noqa: BLE001 - raised in the callers' threads
            failure = without_frames(error)
        # Outside of the handler, because confluent-kafka is called (D-120).
        self._transaction.close()
        if failure is not None:
            self._fail(failure)

    def _next(self) -> Task:
        """Wait for something to do; what there is to send has been taken into the transaction then."""
        with self._backlog.lock:
            leave_until: float | None = None
            while True:
                now = self._clock()
                due = self._due()
                if self._accepted.aborts:
                    return Task.ABORT
                if self._failure is not None:
                    return Task.SEND
                ripe = is_ripe(self.queue)
                if ripe and not self._transaction.is_open:
                    # Only to begin: the callers send what they queued meanwhile.
                    return Task.SEND
                if due <= now and ripe and not self._accepted.commits and self._transaction.takes(self.queue):
                    # The next call of produce() sends it, unless there is none for a while.
                    leave_until = now + _PATIENCE if leave_until is None else leave_until
                    due = leave_until
                if due <= now:
                    self._take()
                    self._committing, self._hurried = self._accepted.take_commits(), False
                    return Task.COMMIT
                if ripe and not self._transaction.takes(self.queue):
                    self._take()
                    return Task.SEND
                if self._closing and self.pending == 0:
                    self.error = ClosedError("the producer is closed; make a new one")
                    self.queue.limit = 0
                    return Task.END
                self._wake_at = self._schedule.worth_waking(self.pending, self._accepted.taken)
                self.queue.limit = min(self.queue.limit, 2 * self._wake_at)
                longest = _SERVING if self._transaction.is_open else _IDLING
                woken = self._work.wait(min(longest, due - now))
                self._wake_at = _NEVER
                if not woken and self._clock() < due:
                    return Task.REST

    def _due(self) -> float:
        """When to commit."""
        pending = self.pending
        if self._accepted.commits or ((self._hurried or self._closing) and pending):
            return 0.0
        return self._schedule.due(pending, self._accepted.oldest, self._settled_at)

    def _take(self) -> None:
        self._transaction.add(self._accepted.take())

    def _do(self, task: Task) -> None:
        with self._sending:
            if task is Task.REST:
                self._with_restarts(self._transaction.serve)
            elif task is Task.ABORT:
                self._abort()
            elif task is Task.SEND:
                self._with_restarts(self._transaction.send)
            else:
                self._with_restarts(self._commit)

    def _with_restarts(self, step: Callable[[], None]) -> None:
        """Run ``step`` until it is done; after a retriable error it starts over with all rows of the transaction."""
        restarts, began = 0, self._clock()  # of a commit without records
        while (failure := self._callers_failure() or retriable_failure(step)) is not None:
            if isinstance(failure, RebalancedError):
                self._drop(failure)
                return
            self._transaction.start_over(failure)
            restarts += 1
            waited = self._clock() - (self._accepted.oldest if self._accepted.taken else began)
            if waited >= self._settings.message_timeout:
                raise UnavailableError(self._timed_out(failure)) from failure
            _LOG.info("%s starts over with %d records: %s", self.topic, self._accepted.taken, str(failure))
            with self._backlog.lock:
                self._work.wait_for(self._may_drop, pause_before(restarts))
                if self._may_drop():
                    # The next task is the abort, which concerns those who wait for the commit, too.
                    return

    def _callers_failure(self) -> OrderedKafkaError | None:
        failure, self._failure = self._failure, None
        if failure is None or (isinstance(failure, OrderedKafkaError) and failure.retriable):
            return failure
        raise failure

    def _may_drop(self) -> bool:
        return bool(self._accepted.aborts) and not self._transaction.in_doubt

    def _timed_out(self, failure: OrderedKafkaError) -> str:
        doubt = "; whether they were committed is not known" if self._transaction.in_doubt else ""
        return (
            f"gave up writing {self._accepted.taken} records to {self.topic!r} that were not committed within"
            f" {self._settings.message_timeout:g} s (message.timeout.ms){doubt}; last error: {failure}"
        )

    def _commit(self) -> None:
        requests = self._committing
        # In the order of asking: a consumer's later offsets replace its earlier ones.
        read = [one for request in requests for one in request.read]
        chunks: list[Chunk] = []
        if self._transaction.chunks or read:
            attempt, chunks = self._transaction.commit(read)
            self._outbox.committed(attempt)
        if self._transaction.rest:
            # None are done: they are for the rest, too.
            with self._backlog.lock:
                self._accepted.put_back(requests)
            requests = []
        self._settle(chunks, requests)

    def _abort(self) -> None:
        with self._backlog.lock:
            aborts, chunks, requests = self._accepted.take_dropped()
            self._transaction.add(chunks)
            self._committing += requests
        reason = f"records to {self.topic!r} were dropped by abort()"
        self._drop(invalid_request(reason), KafkaError(KafkaError._PURGE_QUEUE, reason))
        with self._backlog.lock:
            for request in aborts:
                request.done = True
            self._backlog.progress.notify_all()

    def _drop(self, reason: OrderedKafkaError, said: KafkaError | None = None) -> None:
        """Give up the open transaction; later records are sent as before."""
        chunks, requests = self._transaction.abort(), self._committing
        self._outbox.given_up(self.topic, chunks, said or kafka_error(reason))
        self._settle(chunks, requests, reason)

    def _settle(
        self, chunks: list[Chunk], requests: list[CommitRequest], error: BaseException | None = None
    ) -> None:
        with self._backlog.lock:
            self._accepted.settle(sum(map(len, chunks)), self._transaction.rest)
            self._settled_at = self._clock()
            for request in requests:
                request.done, request.error = True, error
            self._committing = []
            self._backlog.settle(chunks)

    def _fail(self, error: BaseException) -> None:
        """The end of the sender: what is pending is reported with the error, which callers get from now on."""
        error.add_note(
            f"this producer sends no more to topic {self.topic!r}, also if that is created again: make a new one"
        )
        with self._backlog.lock:
            self.error = error
            requests = [*self._committing, *self._accepted.take_commits(), *self._accepted.aborts]
            self._accepted.aborts = []
            self._take()
            self.queue.limit = 0
            chunks = self._transaction.uncommitted
            self.has_lost = bool(chunks)
        self._outbox.given_up(self.topic, chunks, kafka_error(error))
        self._settle(chunks, requests, error)
