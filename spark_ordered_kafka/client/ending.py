"""What ends a consumer, and what it refuses from then on."""

from __future__ import annotations

import threading

from confluent_kafka import Consumer

from spark_ordered_kafka.client.assignment import Assignment
from spark_ordered_kafka.client.lifetime import OpenClient
from spark_ordered_kafka.client.options import ConsumerOptions
from spark_ordered_kafka.client.topics import TopicDirectory
from spark_ordered_kafka.errors import ClosedError, ConfigError, OrderedKafkaError, invalid_request


class EndingConsumer(OpenClient):
    """A consumer that is ended by :meth:`close`, by a fork, or by an error that later calls raise again.

    The parts of :class:`~spark_ordered_kafka.OrderedConsumer` are made from it, which has what they share.
    """

    _consumer: Consumer
    _directory: TopicDirectory
    _options: ConsumerOptions
    _assignment: Assignment
    _is_manual: bool
    _failure: BaseException | None = None
    _is_closing = False
    # The thread that waits for records.
    _taking: int | None = None

    def _end_with(self, error: BaseException) -> None:
        """An error that is neither retriable nor about an argument ends the consumer: later calls raise it again."""
        retriable = isinstance(error, OrderedKafkaError) and error.retriable
        if isinstance(error, Exception) and not retriable and not isinstance(error, ConfigError):
            self._failure = error

    def _check_usable(self) -> None:
        self._check_open()
        if self._failure is not None:
            raise self._failure

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
