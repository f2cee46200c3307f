"""The two transactional ids that a topic's sender alternates between."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from spark_ordered_kafka.client.writer_names import LeasedName
from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.kafka.attempts import retriable_failure
from spark_ordered_kafka.kafka.ids import transactional_id
from spark_ordered_kafka.kafka.producer import TransactionalProducer

# Seconds after which a transaction's markers are written, as a rule.
_REST = 0.1


class Instances:
    """Producer instances of one writer and topic, each with an id of its own.

    While the broker writes the markers of a transaction it turns away a next one on the same id, so the other instance
    carries that one (D-082). While transactions are rare one instance is enough.
    """

    def __init__(
        self,
        connection: Connection,
        topic: str,
        name: LeasedName,
        timeout: float,
        callbacks: Mapping[str, Callable[[Any], None]] | None = None,
    ) -> None:
        self._callbacks = callbacks or {}
        self._connection = connection
        self._topic = topic
        self._name = name
        self._timeout = timeout
        self._idle: dict[int, TransactionalProducer] = {}
        self._groups: dict[int, Any] = {}
        # The one that carries the transaction; which was used last, and until when.
        self._number: int | None = None
        self._last, self._used_until = 0, float("-inf")

    def take(self, *, in_doubt: bool, await_others: Callable[[], object] | None) -> TransactionalProducer:
        """An instance for the transaction: an idle one if it has had none, else a fresh one of the same id.

        ``in_doubt``: its predecessor may have committed the transaction, which the instance reads from the ledger, which
        no other producer has (D-093). ``await_others``: see TransactionalProducer.
        """
        if self._number is None:
            self._number = self._last if time.monotonic() >= self._used_until + _REST else 1 - self._last
            if (idle := self._idle.pop(self._number, None)) is not None:
                if idle.is_clean():
                    return idle
                _give_up(idle)
        return self._fresh(self._number, in_doubt, await_others)

    def give_back(self, producer: TransactionalProducer) -> None:
        """Keep the instance of a transaction that was committed."""
        self._last, self._used_until = self._number or 0, time.monotonic()
        self._idle[self._last] = producer

    def end(self) -> None:
        """The transaction has ended: another one may have any instance."""
        self._number = None

    def serve(self) -> None:
        """Serve the events of idle instances: without the kernel, many statistics."""
        for number, producer in list(self._idle.items()):
            if retriable_failure(producer.serve) is not None:
                _give_up(self._idle.pop(number))

    def discard(self) -> None:
        """Give up all idle instances: a change that fenced one has fenced the other."""
        while self._idle:
            self._idle.popitem()[1].discard()

    def _fresh(
        self, number: int, in_doubt: bool, await_others: Callable[[], object] | None
    ) -> TransactionalProducer:
        """A new instance of that id; what a predecessor left open is aborted."""
        producer = TransactionalProducer(
            self._connection,
            self._topic,
            transactional_id(self._topic, self._name.writer, number),
            self._timeout,
            predecessors=in_doubt,
            group=self._groups.get(number),
            await_others=await_others,
            # Of its own: the ids may have been another producer's before.
            ledger=transactional_id(self._topic, self._name.ledger, number),
            callbacks=self._callbacks,
        )
        self._groups[number] = producer.group
        return producer


def _give_up(producer: TransactionalProducer) -> None:
    producer.learn_brokers()
    producer.discard()
