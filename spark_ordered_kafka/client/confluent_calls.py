"""Methods of ``confluent_kafka.Producer`` beside those that an ordered producer is made of, mapped to what it does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from typing import Any

from confluent_kafka import KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient

from spark_ordered_kafka.client.arguments import seconds_of
from spark_ordered_kafka.client.backlog import Backlog, CommitRequest
from spark_ordered_kafka.client.counts import WriterCounts
from spark_ordered_kafka.client.lifetime import OpenClient
from spark_ordered_kafka.client.options import ProducerOptions
from spark_ordered_kafka.client.queries import GroupMetadata
from spark_ordered_kafka.client.records import DeliveryCallback, check_partition, content, extras
from spark_ordered_kafka.client.reports import Outbox
from spark_ordered_kafka.client.topic_sender import TopicSender
from spark_ordered_kafka.client.transactions import GivenOffsets, ReadSide
from spark_ordered_kafka.client.waits import limit_of
from spark_ordered_kafka.errors import ConfigError, UnavailableError, invalid_request
from spark_ordered_kafka.kafka.clients import new_client
from spark_ordered_kafka.kafka.properties import admin_properties
from spark_ordered_kafka.parsing import together

_FOREVER = -1.0
_ROUND = 0.05
_FIELDS = ("value", "key", "partition", "timestamp", "headers", "callback", "on_delivery")
_ERROR = "_error"


class _Transactions(Enum):
    """How far an application has come that ends transactions by confluent-kafka's methods."""

    UNUSED = auto()
    READY = auto()
    OPEN = auto()


class ConfluentCalls(OpenClient):
    """Batches, purging, metadata, and transactions under the names that confluent-kafka gives them."""

    _backlog: Backlog
    _options: ProducerOptions
    _outbox: Outbox
    _reads: ReadSide
    _senders: Mapping[str, TopicSender]
    _counts: Mapping[str, WriterCounts]
    produce: Callable[..., None]
    _transactions = _Transactions.UNUSED
    _admin: AdminClient | None = None

    # -- of the producer ----------------------------------------------------------------------------------------

    def commit(self, timeout: float = _FOREVER) -> None:
        """See OrderedProducer."""
        raise NotImplementedError

    def send_offsets(self, consumer: Any) -> None:
        """See OrderedProducer."""
        raise NotImplementedError

    def _commit(
        self, timeout: float, senders: list[TopicSender] | None = None, *, serve: bool = True
    ) -> bool:
        raise NotImplementedError

    def __len__(self) -> int:
        """Records that are not committed yet."""
        return sum(self.pending().values())

    def counts(self) -> Mapping[str, WriterCounts]:
        """By topic what became of records and transactions: see :class:`ClientMetrics`."""
        return self._counts

    def pending(self) -> dict[str, int]:
        """By topic the records that are not committed yet."""
        with self._backlog.lock:
            return {topic: sender.pending for topic, sender in self._senders.items()}

    def _request_aborts(self) -> Callable[[float], bool]:
        """Ask for all that is not committed to be dropped; what waits so many seconds for it, and says whether it is done."""
        with self._backlog.lock:
            requests = [sender.request_abort() for sender in self._senders.values()]

        def wait(timeout: float) -> bool:
            with self._backlog.lock:
                done = self._backlog.progress.wait_for(
                    lambda: all(request.done for request in requests), limit_of(timeout)
                )
            # A commit in doubt is settled before the rest is dropped; consumers begin again once it is.
            self._reads.conclude()
            self._reads.aborted()
            return done

        return wait

    def _await(self, requests: list[CommitRequest], deadline: float, *, serve: bool = True) -> bool:
        """Serve reports, if ``serve``, until all requests are done (True) or the ``deadline`` has passed (False)."""
        while True:
            if serve:
                self._outbox.serve()
            with self._backlog.lock:
                if all(request.done for request in requests):
                    break
                left = deadline - self._backlog.clock()
                if left <= 0:
                    return False
                # Another producer's commit does not notify this one.
                self._backlog.progress.wait(min(left, _ROUND))
        if serve:
            self._outbox.serve()
        return True

    def _only_sender(self) -> TopicSender | None:
        """The sender that offsets are committed with: that of the records since the last commit, else any that has not ended."""
        with self._backlog.lock:
            senders = list(self._senders.values())
            busy = [sender for sender in senders if sender.kept]
        if len(busy) > 1:
            topics = ", ".join(sorted(sender.topic for sender in busy))
            raise invalid_request(
                f"since the last commit records went to {topics}, but an atomic transaction spans one topic:"
                " use a transactional producer per topic"
            )
        return busy[0] if busy else next((sender for sender in senders if sender.error is None), None)

    def _check_lost(self) -> None:
        """Raise the error of a topic that has ended with records of the transaction (D-344)."""
        for sender in self._senders.values():
            if sender.has_lost and sender.error is not None:
                sender.reported = True
                raise sender.error.with_traceback(None)

    # -- records ------------------------------------------------------------------------------------------------

    def produce_batch(
        self,
        topic: str,
        messages: Sequence[dict[str, Any]],
        partition: int = -1,
        callback: DeliveryCallback | None = None,
        on_delivery: DeliveryCallback | None = None,
    ) -> int:
        """Accept records, each a dict of arguments of :meth:`produce`; how many.

        ``callback``, or its alias, is for records without one of their own. When the queue is full the rest is left out, since
        a later record must not overtake an earlier one of its key: as with confluent-kafka, each that is left out gets a
        KafkaError under ``_error``.

        Raises ConfigError for all that is wrong in the records, before any is accepted; else as :meth:`produce`.
        """
        if not isinstance(messages, Sequence) or not all(isinstance(one, dict) for one in messages):
            raise ConfigError("messages", messages, "a list of dicts, such as [{'key': b'k', 'value': b'v'}]")
        together({}, lambda: check_partition(partition), *(_check(i, one) for i, one in enumerate(messages)))
        report = callback or on_delivery
        for number, message in enumerate(messages):
            arguments = {name: value for name, value in message.items() if name != _ERROR}
            own = arguments.pop("callback", None) or arguments.pop("on_delivery", None) or report
            arguments.pop("on_delivery", None)
            try:
                self.produce(topic, **arguments, on_delivery=own)
            except BufferError as full:
                for left in messages[number:]:
                    left[_ERROR] = KafkaError(KafkaError._QUEUE_FULL, str(full))
                return number
            message.pop(_ERROR, None)
        return len(messages)

    def purge(self, in_queue: bool = True, in_flight: bool = True, blocking: bool = True) -> None:
        """Drop all that is not committed; :meth:`poll` and :meth:`flush` report it with the error ``_PURGE_QUEUE``.

        What is queued and what is sent already are one transaction: dropping one of them alone is refused by ConfigError. As
        :meth:`abort` does, it takes consumers of :meth:`send_offsets` back. ``blocking`` false: it is done later.
        """
        self._check_open()
        if not in_queue and not in_flight:
            return
        if not in_queue or not in_flight:
            name = "in_flight" if in_queue else "in_queue"
            raise ConfigError(name, False, "a transaction is dropped as a whole: leave both at True")
        self._request_aborts()(_FOREVER if blocking else 0)

    # -- transactions -------------------------------------------------------------------------------------------

    def init_transactions(self, timeout: float = _FOREVER) -> None:
        """Use transactions by confluent-kafka's methods; what is left open by an earlier producer is Kafka's to end.

        A producer has transactional ids of its own per topic, and asks for them with a topic's first record, so nothing is
        waited for here. Raises ConfigError unless ``commit.interval.ms`` is 0.
        """
        self._check_open()
        if not self._backlog.manual:
            interval = f"{(self._options.commit_interval or 0) * 1000:g}"
            raise ConfigError(
                "commit.interval.ms", interval, "set it to 0: commit_transaction() ends transactions"
            )
        if self._transactions is _Transactions.UNUSED:
            self._transactions = _Transactions.READY

    def begin_transaction(self) -> None:
        """Begin a transaction, which spans one topic (D-080).

        Raises RequestError INVALID_REQUEST without :meth:`init_transactions`, while a transaction is open, and when records
        were produced before.
        """
        self._check_open()
        if self._transactions is not _Transactions.READY:
            raise invalid_request(
                "a transaction is open: end it by commit_transaction() or abort_transaction()"
                if self._in_transaction
                else "call init_transactions() first"
            )
        with self._backlog.lock:
            early = sum(sender.kept for sender in self._senders.values())
        if early > 0:
            raise invalid_request(
                f"{early} records were produced before begin_transaction(), and would be in the transaction: call"
                " commit() or abort() before"
            )
        self._transactions = _Transactions.OPEN

    def send_offsets_to_transaction(
        self, positions: Sequence[TopicPartition], group_metadata: Any, timeout: float = _FOREVER
    ) -> None:
        """Let the transaction commit offsets of a consumer: :meth:`send_offsets` under confluent-kafka's name.

        Of an OrderedConsumer all that was delivered is committed, since others go by it: ``positions`` must say the same, as
        ``consumer.position(consumer.assignment())`` does. No server is asked before the commit, so ``timeout`` is not needed.

        Raises ConfigError for other positions, and as :meth:`send_offsets`.
        """
        self._check_open()
        self._check_begun()
        if isinstance(group_metadata, GroupMetadata):
            group_metadata.consumer.check_positions(positions)
            self.send_offsets(group_metadata.consumer)
        else:
            self.send_offsets(GivenOffsets(positions, group_metadata))

    def commit_transaction(self, timeout: float = _FOREVER) -> None:
        """Commit the transaction. Raises as :meth:`commit`, and RequestError when its records went to several topics.

        After UnavailableError call it again; after any other error of this package :meth:`abort_transaction`. What a callback
        raises is raised once the transaction has ended.
        """
        self._check_open()
        self._check_begun()
        # Of no other topic, whose error would be that of a transaction that is committed (D-344).
        sender = self._only_sender()
        try:
            done = self._commit(timeout, [] if sender is None else [sender], serve=False)
            if done:
                self._transactions = _Transactions.READY
        finally:
            self._outbox.serve()
        if not done:
            raise UnavailableError(f"{len(self)} records were not committed within {timeout:g} s")

    def abort_transaction(self, timeout: float = _FOREVER) -> None:
        """Drop the transaction: :meth:`abort`, within ``timeout`` seconds (-1: until done).

        Raises UnavailableError when the time is up: it is aborted later, and a further call waits for it.
        """
        self._check_open()
        self._check_begun()
        done = self._request_aborts()(timeout)
        self._outbox.serve()
        if not done:
            raise UnavailableError(f"the transaction was not aborted within {timeout:g} s")
        self._transactions = _Transactions.READY

    @property
    def _in_transaction(self) -> bool:
        """Whether :meth:`begin_transaction` was called, and nothing has ended the transaction yet."""
        return self._transactions is _Transactions.OPEN

    def _check_begun(self) -> None:
        if not self._in_transaction:
            raise invalid_request("no transaction is open: call begin_transaction() first")

    # -- the cluster --------------------------------------------------------------------------------------------

    def list_topics(self, topic: str | None = None, timeout: float = _FOREVER) -> Any:
        """Metadata of the cluster, or of one topic, as ``confluent_kafka.Producer.list_topics``."""
        self._check_open()
        named = {} if topic is None else {"topic": topic}
        return self._cluster().list_topics(**named, timeout=seconds_of(timeout))

    def cluster_id(self, timeout: float = _FOREVER) -> str | None:
        """The id of the Kafka cluster."""
        return self.list_topics(timeout=timeout).cluster_id  # type: ignore[no-any-return]

    def set_sasl_credentials(self, username: str, password: str) -> None:
        """Refused by RequestError: make another producer instead."""
        raise invalid_request(
            "the connections of a producer's transactions are made anew at any time: flush() and close() this producer,"
            " and make one with the new sasl.username and sasl.password"
        )

    def _cluster(self) -> AdminClient:
        if self._admin is None:
            self._admin = new_client(AdminClient, admin_properties(self._options.connection.kafka))
        return self._admin


def _check(number: int, message: Mapping[str, Any]) -> Callable[[], None]:
    def check() -> None:
        where = f"messages[{number}]"
        unknown = [name for name in message if name not in (*_FIELDS, _ERROR)]
        if unknown:
            raise ConfigError(f"{where}.{unknown[0]}", message[unknown[0]], f"one of {', '.join(_FIELDS)}")
        try:
            check_partition(message.get("partition", -1))
            content("value", message.get("value"))
            content("key", message.get("key"))
            report = message.get("callback") or message.get("on_delivery")
            extras(report, message.get("timestamp", 0), message.get("headers"))
        except ConfigError as error:
            raise ConfigError(f"{where}.{error.option}", message.get(error.option), _hint(error)) from error

    return check


def _hint(error: ConfigError) -> str:
    return str(error).partition(": ")[2]
