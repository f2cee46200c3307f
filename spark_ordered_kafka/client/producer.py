"""``OrderedProducer``: confluent-kafka's producer, whose keys stay in order while the topic grows and shrinks."""

from __future__ import annotations

import logging
import math
import sys
import threading
from collections.abc import Mapping
from functools import partial
from types import TracebackType
from typing import Any

from spark_ordered_kafka.client.backlog import Backlog, CommitRequest, Extra, raise_first
from spark_ordered_kafka.client.confluent_calls import ConfluentCalls
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.counts import WriterCounts
from spark_ordered_kafka.client.open_instances import met_cluster
from spark_ordered_kafka.client.options import merged, producer_options
from spark_ordered_kafka.client.records import DeliveryCallback, check_partition, content, extras, too_large
from spark_ordered_kafka.client.reports import Outbox
from spark_ordered_kafka.client.sending import commit_offsets, sender_settings
from spark_ordered_kafka.client.topic_sender import TopicSender
from spark_ordered_kafka.client.topics import checked_cluster
from spark_ordered_kafka.client.transactions import OffsetSource, ReadSide, offset_source
from spark_ordered_kafka.client.waits import deadline_of, limit_of, patience_at_end
from spark_ordered_kafka.client.writer_names import LeasedName, lease_name, return_name
from spark_ordered_kafka.errors import ConfigError, RebalancedError, UnavailableError
from spark_ordered_kafka.kafka.attempts import retriable_failure
from spark_ordered_kafka.parsing import topic_name

_FOREVER = -1

_LOG = logging.getLogger(__name__)


class OrderedProducer(ConfluentCalls):
    """Writes to topics under management: per key in order, exactly once, through changes of the partition count.

    Takes confluent-kafka's configuration names and ``controller.url``; :mod:`~spark_ordered_kafka.client.options` has
    those that mean something of their own here. A record is delivered when its transaction is committed: every
    ``commit.interval.ms``, after ``commit.max.records``, and by :meth:`commit`, :meth:`flush` and :meth:`close`. A
    partition change, or a server that is away, makes the producer send what was not committed again, in order; the
    caller sees a pause at most. Every topic has a thread and transactions of its own, so that one does not wait for
    another. Safe to share between threads.

    As a context manager it is closed at the end; after an exception what is not committed is dropped.

    Options may be given as keyword arguments, too, such as ``logger``; they win. Raises ConfigError for wrong ones.
    """

    def __init__(self, conf: Mapping[str, Any] | None = None, **more: Any) -> None:
        options = producer_options(merged(conf, more))
        self._options = options
        self._controller = ControllerClient.of(options.connection)
        self._backlog = Backlog(options.max_messages, options.max_bytes, options.commit_interval is None)
        self._outbox = Outbox()
        self._settings = sender_settings(options, self._controller, self._outbox)
        self._max_message_bytes = self._settings.max_message_bytes
        self._senders: dict[str, TopicSender] = {}
        self._counts: Mapping[str, WriterCounts] = {}
        self._names: list[LeasedName] = []
        self._opening = threading.Lock()
        self._cluster_id: str | None = None
        self._reads = ReadSide()
        self._opened()

    def produce(
        self,
        topic: str,
        value: bytes | str | None = None,
        key: bytes | str | None = None,
        partition: int = -1,
        on_delivery: DeliveryCallback | None = None,
        timestamp: int = 0,
        headers: Any = None,
        callback: DeliveryCallback | None = None,
    ) -> None:
        """Accept a record; it is sent and committed by another thread.

        The first record of a topic asks the controller whether it is under management. ``on_delivery(err, msg)``, or
        its alias ``callback``, is called by :meth:`poll` or :meth:`flush` once the record is committed, with its
        partition and offset, or given up. str is encoded as UTF-8; ``timestamp`` is in milliseconds since 1970-01-01
        UTC, 0 means the time of sending (D-090); ``headers`` is a list of (str, bytes, str or None), or a dict.

        Raises ConfigError for a wrong argument, ``partition`` above all, since the layout decides; BufferError when
        ``queue.buffering.max.messages`` or ``queue.buffering.max.kbytes`` of records wait for their commit;
        RequestError for a topic that is not under management; UnavailableError when no controller answers;
        ClosedError; and the error that ended the topic's transactions for good.
        """
        sender: TopicSender | None
        try:
            sender = self._senders[topic]
        except (KeyError, TypeError):
            sender = None
        if sender is None:
            sender = self._open_sender(topic)
        if type(value) is not bytes:
            value = content("value", value)
        if type(key) is not bytes:
            key = content("key", key)
        size = len(value or b"") + len(key or b"")
        queue = sender.queue
        if (
            size <= sender.small
            and queue.limit
            and on_delivery is None
            and callback is None
            and headers is None
            and timestamp == 0
            and partition == -1
        ):
            records = queue.records
            records += (key, value)
            if len(records) >= queue.limit:
                sender.look()
            return
        check_partition(partition)
        more, extra_size = extras(on_delivery or callback, timestamp, headers)
        size += extra_size
        if size > self._max_message_bytes:
            raise too_large(size, self._max_message_bytes)
        if not sender.accept(key, Extra(value, more, extra_size) if more else value, size):
            with self._backlog.lock:
                self._hurry()
                raise self._backlog.refusal()

    def poll(self, timeout: float = 0) -> int:
        """Serve delivery reports in this thread; how many callbacks were called.

        Waits up to ``timeout`` seconds (-1: without limit) for one, or for room in the queue. What a callback raises is raised;
        the other reports are served by the next call.
        """
        self._check_open()
        if timeout != 0:
            with self._backlog.lock:
                if not self._outbox:
                    self._backlog.progress.wait(limit_of(timeout))
        return self._outbox.serve()

    def flush(self, timeout: float = _FOREVER) -> int:
        """Commit all records produced so far, with the offsets given so far, and serve their reports; how many are left.

        Waits up to ``timeout`` seconds (-1: until done). Raises the error that ended a topic with records, until
        :meth:`abort`. With ``commit.interval.ms`` 0, what no :meth:`send_offsets` has followed waits for its
        :meth:`commit` once a consumer was given to :meth:`send_offsets`, and while an exception is on its way: see
        :meth:`close`. Between :meth:`begin_transaction` and :meth:`commit_transaction` nothing is committed.
        """
        self._check_open()
        if self._is_unfinished():
            self._finish(self._reads.requests(), deadline_of(timeout, self._backlog.clock))
        else:
            self._commit(timeout)
        return len(self)

    def commit(self, timeout: float = _FOREVER) -> None:
        """Commit all records produced so far, and the offsets of :meth:`send_offsets`.

        Waits up to ``timeout`` seconds (-1: until done), raises UnavailableError then: the commit continues, and a
        further call waits for it. Raises RebalancedError when the group of the offsets has given what was read to
        others, or another commit of the same consumer's offsets, by another producer or topic, has failed or takes longer:
        as after :meth:`abort`, it is delivered again (D-087, D-436). Raises the error that ended a topic with
        records, until :meth:`abort`.
        """
        self._check_open()
        if not self._commit(timeout):
            raise UnavailableError(f"{len(self)} records were not committed within {timeout:g} s")

    def abort(self) -> None:
        """Drop all that is not committed; its reports have the error ``_PURGE_QUEUE``.

        Every OrderedConsumer that was ever given to :meth:`send_offsets` goes back to what its group has committed:
        what was delivered since comes again, here or to others. For one that was not, call its ``rewind()``.
        """
        self._check_open()
        self._abort()
        self._outbox.serve()

    def send_offsets(self, consumer: Any) -> None:
        """Let the next :meth:`commit` commit what ``consumer`` has delivered, in one transaction with the records.

        That is exactly-once processing (KIP-98, KIP-447): call it after producing what was made of the records read,
        then :meth:`commit`. ``consumer`` is an OrderedConsumer, or a Consumer of confluent-kafka, whose positions
        count. Several consumers may be given, one after the other. Without records the offsets are committed on their
        own (D-085).

        Raises ConfigError unless ``commit.interval.ms`` is 0; RequestError when records went to several topics since
        the last commit, as an atomic transaction spans one topic (D-080); RebalancedError as :meth:`commit` does, also
        for records that were produced before the consumer's ``rewind()``, for what they were made of comes again.
        """
        self._check_open()
        if not self._backlog.manual:
            interval = self._options.commit_interval
            hint = (
                "set commit.interval.ms to 0: offsets are committed by commit() with the records made of them"
            )
            raise ConfigError("commit.interval.ms", f"{(interval or 0) * 1000:g}", hint)
        source = offset_source(consumer)
        # Whatever comes of it, an abort concerns the consumer from here on.
        self._reads.add(source)
        self._only_sender()
        failure = retriable_failure(partial(self._ask, source))
        if isinstance(failure, RebalancedError):
            # Made of what others have by now, or of what comes again: never to be committed.
            self._abort()
        if failure is not None:
            raise failure

    def close(self) -> bool:
        """Commit all, and end: True. Raises the error of records that could not be committed, once all is ended.

        With ``commit.interval.ms`` 0, what was produced since the last :meth:`send_offsets` is dropped as by
        :meth:`abort`, and so is everything while an exception is on its way (D-088), and a transaction that
        :meth:`commit_transaction` has not ended. Before the first, call :meth:`abort` to end in the middle. All callbacks
        that are left are called; what the first of them raises is raised at the end.
        """
        if self._closed is not None:
            return True
        begun = self._reads.requests()
        try:
            if self._is_unfinished():
                try:
                    self._await(begun, math.inf, serve=False)
                finally:
                    self._abort(patience_at_end())
            # With an interval, what callbacks produce here is committed, too (D-339).
            senders = [sender for sender in self._senders.values() if not sender.reported]
            self._commit(_FOREVER, senders, serve=not self._backlog.manual)
            raise_first(begun)
        finally:
            if self._reads.sent:
                # They were refused, and the records must not be committed without them.
                self._abort(patience_at_end())
            self._end()
            self._outbox.serve_all()
        return True

    def __enter__(self) -> OrderedProducer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        elif self._closed is None:
            try:
                self._abort(patience_at_end())
            finally:
                self._end()
            self._outbox.serve_all()

    def __bool__(self) -> bool:
        return True

    # -- senders --------------------------------------------------------------------------------------------------

    def _open_sender(self, topic: Any) -> TopicSender:
        self._check_open()
        if not isinstance(topic, str):
            raise ConfigError("topic", topic, "the topic's name, a str")
        topic_name("topic", topic)
        connection = self._settings.connection
        with self._opening:
            if (sender := self._senders.get(topic)) is not None:
                return sender
            managed = self._controller.topic(topic).cluster_id
            self._cluster_id = checked_cluster(
                connection, managed, self._cluster_id, partial(met_cluster, connection)
            )
            self._check_open()
            name = lease_name(self._controller, topic)
            sender = TopicSender(topic, name, self._settings, self._backlog, self._outbox)
            self._names.append(name)
            # Replaced, not changed: other threads look into it without a lock.
            self._senders = {**self._senders, topic: sender}
            self._counts = {**self._counts, topic: sender.counts}
            return sender

    def _hurry(self) -> None:
        if not self._backlog.manual:
            for sender in self._senders.values():
                sender.hurry()

    def _ask(self, source: OffsetSource) -> None:
        with self._backlog.lock:
            times = [sender.oldest for sender in self._senders.values()]
        oldest = min((time for time in times if time is not None), default=None)
        self._reads.send(source, oldest)

    def _is_unfinished(self) -> bool:
        """Whether what was produced last must not be committed: its offsets are missing, or ``commit_transaction()`` is."""
        if self._in_transaction:
            return True
        in_exception = sys.exc_info()[0] is not None
        return self._backlog.manual and not self._reads.sent and (self._reads.has_any or in_exception)

    # -- commits ------------------------------------------------------------------------------------------------

    def _commit(
        self, timeout: float, senders: list[TopicSender] | None = None, *, serve: bool = True
    ) -> bool:
        """Whether all that these senders (by default all) have is committed, and the offsets; raises the first error."""
        deadline = deadline_of(timeout, self._backlog.clock)
        senders = list(self._senders.values()) if senders is None else senders
        with_read = self._only_sender() if self._reads.sent else None
        earlier = self._reads.before(with_read)
        done = self._await(earlier, deadline, serve=False)
        if self._reads.sent or self._in_transaction:
            self._check_lost()
        if not done or any(request.error is not None for request in earlier):
            # Not later: another producer may go on meanwhile with what is delivered behind this.
            self._request_aborts()(0)
            raise RebalancedError("what was delivered before is not committed, so what followed comes again")
        if self._reads.sent and with_read is None:
            self._commit_offsets()
        with self._backlog.lock:
            requests = [
                self._request(sender, with_offsets=sender is with_read)
                for sender in senders
                if sender is with_read or sender.pending or sender.has_lost
            ]
        requests += [request for request in self._reads.requests() if request not in requests]
        try:
            return self._finish(requests, deadline, serve=serve)
        finally:
            for sender in senders:
                sender.reported = sender.error is not None

    def _finish(self, requests: list[CommitRequest], deadline: float, *, serve: bool = True) -> bool:
        """Whether all of ``requests`` are done by then; raises the first error of one."""
        done = self._await(requests, deadline, serve=serve)
        if self._reads.conclude():
            # What was produced meanwhile was made of what comes again.
            self._abort()
        raise_first(requests)
        return done

    def _request(self, sender: TopicSender, *, with_offsets: bool) -> CommitRequest:
        if not with_offsets:
            return sender.request_commit()
        request = sender.request_commit(self._reads.offsets())
        self._reads.begin(request)
        return request

    def _commit_offsets(self) -> None:
        """Begin to commit offsets without a topic to commit them with, since nothing was produced yet."""
        offsets = self._reads.offsets()
        if not offsets:
            self._reads.committed()
            return
        request = CommitRequest(offsets, sender=object())
        self._reads.begin(request)

        def commit() -> None:
            failure = commit_offsets(self._settings, request)
            with self._backlog.lock:
                request.done, request.error = True, failure
                self._backlog.progress.notify_all()

        threading.Thread(target=commit, name="offsets without a topic", daemon=True).start()

    def _abort(self, timeout: float = _FOREVER) -> None:
        self._request_aborts()(timeout)

    def _end_in_child(self) -> None:
        super()._end_in_child()
        # Where produce() looks first.
        self._senders = {}

    def _uncommitted(self) -> int:
        return len(self)

    def _end(self) -> None:
        self._closed = "the producer is closed; make a new one"
        with self._backlog.lock:
            senders, self._senders = self._senders, {}
            for sender in senders.values():
                sender.stop()
        deadline = deadline_of(patience_at_end(), self._backlog.clock)
        working = {
            topic
            for topic, sender in senders.items()
            if not sender.join(limit_of(max(0.0, deadline - self._backlog.clock())))
        }
        if working:
            topics = ", ".join(sorted(working))
            _LOG.warning(
                "interrupted while brokers do not answer: the last records to %s may be lost", topics
            )
        for name in self._names:
            if name.topic not in working:
                return_name(self._controller, name)
        self._controller.close()
        self._admin = None
