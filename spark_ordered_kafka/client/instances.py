"""The two transactional ids that a topic's sender alternates between."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from spark_ordered_kafka.client.open_instances import OPEN_INSTANCES
from spark_ordered_kafka.client.writer_names import LeasedName
from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.errors import UnavailableError
from spark_ordered_kafka.kafka.attempts import retriable_failure
from spark_ordered_kafka.kafka.idle import MAX_IDLE
from spark_ordered_kafka.kafka.ids import transactional_id
from spark_ordered_kafka.kafka.producer import TransactionalProducer

# Seconds after which a transaction's markers are written, as a rule.
_REST = 0.1
# Seconds to wait for a place among the process's instances, before the sender looks whether its records are still wanted.
_PATIENCE = 1.0


class Instances:
    """Producer instances of one writer and topic, each with an id of its own.

    While the broker writes the markers of a transaction it turns away a next one on the same id, so the other instance
    carries that one (D-082). While transactions are rare one instance is enough, and so it is while the process has
    no place for another one. Idle ones are given up in time, or as soon as another topic's sender needs their place.
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
        # The numbers of those that have a place among the process's instances.
        self._placed: set[int] = set()
        self._groups: dict[int, Any] = {}
        # The one that carries the transaction; which was used last, and until when.
        self._number: int | None = None
        self._last, self._used_until = 0, float("-inf")

    def take(self, *, in_doubt: bool, await_others: Callable[[], object] | None) -> TransactionalProducer:
        """An instance for the transaction: an idle one if it has had none, else a fresh one of the same id.

        ``in_doubt``: its predecessor may have committed the transaction, which the instance reads from the ledger, which
        no other producer has (D-093). ``await_others``: see TransactionalProducer. Raises UnavailableError where the process
        has no place for one.
        """
        if self._number is None:
            self._number = self._choose()
            if (idle := self._idle.pop(self._number, None)) is not None:
                if idle.is_clean():
                    return idle
                _give_up(idle)
        return self._fresh(self._number, in_doubt, await_others)

    def give_back(self, producer: TransactionalProducer) -> None:
        """Keep the instance of a transaction that was committed."""
        self._last, self._used_until = self._number or 0, time.monotonic()
        if OPEN_INSTANCES.is_short:
            producer.discard()
        else:
            self._idle[self._last] = producer

    def end(self) -> None:
        """The transaction has ended: another one may have any instance."""
        if self._number is not None and self._number not in self._idle:
            self._vacate(self._number)
        self._number = None

    def serve(self) -> None:
        """Serve the events of idle instances: without the kernel, many statistics."""
        for number, producer in list(self._idle.items()):
            if retriable_failure(producer.serve) is not None:
                self._vacate(number)
                _give_up(self._idle.pop(number))
        if OPEN_INSTANCES.is_short or time.monotonic() >= self._used_until + MAX_IDLE:
            self.discard()

    def discard(self) -> None:
        """Give up all idle instances: a change that has fenced one has fenced the other, and so it is with a broker that is gone."""
        while self._idle:
            number, producer = self._idle.popitem()
            self._vacate(number)
            producer.discard()

    def _choose(self) -> int:
        """The number of the next instance, which has a place."""
        number = self._last if time.monotonic() >= self._used_until + _REST else 1 - self._last
        if number in self._placed:
            return number
        if self._placed:
            if not OPEN_INSTANCES.take():
                return 1 - number
        elif not OPEN_INSTANCES.await_one(_PATIENCE):
            raise UnavailableError(
                f"all {OPEN_INSTANCES.most} producer instances that this process may have are in use, since {OPEN_INSTANCES.why}"
            )
        self._placed.add(number)
        return number

    def _vacate(self, number: int) -> None:
        self._placed.discard(number)
        OPEN_INSTANCES.give_back()

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
