"""What ends a consumer, and what it refuses from then on."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

from confluent_kafka import Consumer, TopicPartition

from spark_ordered_kafka.client.assignment import Assignment
from spark_ordered_kafka.client.lifetime import OpenClient
from spark_ordered_kafka.client.options import ConsumerOptions
from spark_ordered_kafka.client.places import Place
from spark_ordered_kafka.client.topics import TopicDirectory
from spark_ordered_kafka.errors import ClosedError, ConfigError, OrderedKafkaError, invalid_request

# Seconds for which a thread waits until the call of another one has closed the consumer.
_ENDED_WITHIN = 30.0
# Seconds for librdkafka to revoke its own assignment, which needs no broker.
_REVOKED_WITHIN = 10.0


class EndingConsumer(OpenClient):
    """A consumer that is ended by :meth:`close`, by a fork, or by an error that later calls raise again.

    The parts of :class:`~spark_ordered_kafka.OrderedConsumer` are made from it, which has what they share.
    """

    _consumer: Consumer
    _directory: TopicDirectory
    _options: ConsumerOptions
    _assignment: Assignment
    _place: Place
    _clock: Callable[[], float]
    _is_manual: bool
    # User and password that came after the configuration.
    _login: tuple[str, str] | None = None
    # Whether the group has assigned partitions, or none of them, and has not taken them back.
    _is_assigned = False
    _failure: BaseException | None = None
    _is_closing = False
    # Whether its client of librdkafka is being closed.
    _is_leaving = False
    _commits_on_revoke = True
    # The thread that waits for records.
    _taking: int | None = None
    _ended: threading.Event

    def _commit_processed(self) -> None:
        raise NotImplementedError

    def _on_revoke(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        raise NotImplementedError

    def _opened(self) -> None:
        self._ended = threading.Event()
        super()._opened()

    def _end_with(self, error: BaseException) -> None:
        """An error that is neither retriable nor about an argument ends the consumer: later calls raise it again."""
        retriable = isinstance(error, OrderedKafkaError) and error.retriable
        if isinstance(error, Exception) and not retriable and not isinstance(error, ConfigError):
            self._failure = error

    def close(self) -> None:
        """Commit what is processed, with ``enable.auto.commit``, and leave the group. May be called twice.

        While an exception is on its way nothing is committed: what was delivered last is not processed. In a callback, or
        while another thread waits for records, the consumer is closed once that call ends, which raises ClosedError.
        """
        if self._is_closing or self._closed is not None:
            return
        self._is_closing = True
        self._commits_on_revoke = self._commits_on_revoke and sys.exc_info()[0] is None
        # librdkafka would free what a call of it still uses: that one ends the consumer (D-453).
        if self._taking is None:
            self._end()
        elif self._taking != threading.get_ident():
            self._ended.wait(_ENDED_WITHIN)

    def _end(self) -> None:
        try:
            try:
                # While a rebalance waits for this member, librdkafka cannot commit once it is closing (D-246).
                self._commit_processed()
            finally:
                self._leave()
        finally:
            self._closed = "the consumer is closed"
            self._ended.set()
            self._assignment.misrouted.report()
            self._directory.close()

    def _leave(self) -> None:
        """Leave the group, which calls ``on_revoke``.

        A static member keeps its place (KIP-345), and gives its partitions up without librdkafka, which reads no offsets once
        it is closing.
        """
        self._is_leaving = True
        try:
            if self._place.is_kept:
                self._serve_events()
                if self._is_assigned:
                    tps = self._assignment.partitions()
                    self._on_revoke(self._consumer, [TopicPartition(*tp) for tp in tps])
            else:
                until = self._clock() + _REVOKED_WITHIN
                self._consumer.unsubscribe()
                while self._is_assigned and self._clock() < until:
                    self._consumer.poll(0.1)
        finally:
            self._close_client()
            self._is_leaving = False

    def _close_client(self) -> None:
        """Close librdkafka's client, after the callbacks that wait for this member.

        Otherwise librdkafka leaves the group before or while such a callback runs, and an ``unassign()`` that comes after the
        end of it never returns (D-453, D-500).
        """
        try:
            self._serve_events()
        finally:
            self._consumer.close()

    def _serve_events(self) -> None:
        """Call what librdkafka has to call until there is nothing more, or records, which come last."""
        until = self._clock() + _REVOKED_WITHIN
        while self._clock() < until:
            event = self._consumer.poll(0)
            if event is None or event.error() is None:
                return

    def _check_usable(self) -> None:
        self._check_open()
        if self._failure is not None:
            raise self._failure.with_traceback(None)

    def _check_stays(self) -> None:
        """As :meth:`_check_usable`, of what librdkafka aborts the process for in callbacks of ``close()`` (D-401)."""
        self._check_usable()
        if self._is_closing:
            raise ClosedError("the consumer is being closed")

    def _begin_taking(self) -> None:
        """Before a wait for records; raises RequestError in a callback of another one (D-401)."""
        self._check_stays()
        here = threading.get_ident()
        if self._taking == here:
            raise invalid_request(
                "poll() and consume() cannot be called by a callback of the consumer: they have called it"
            )
        self._taking = here

    def _end_taking(self) -> None:
        self._taking = None
        if self._is_closing:
            self._end()
