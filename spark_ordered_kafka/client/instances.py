"""The two transactional ids that a lane alternates between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from spark_ordered_kafka.client.writer_names import LeasedName
from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.kafka.ids import transactional_id
from spark_ordered_kafka.kafka.producer import TransactionalProducer


class Instances:
    """Producer instances of one writer and topic, each with an id of its own.

    After a commit an instance must show clean statistics before it is used again, and the broker writes the
    transaction's markers, during which a next one on the same id is turned away and retried. The other instance
    carries the next transaction meanwhile, which begins only after the commit, so that the order is kept. While
    transactions are rare one instance is enough.
    """

    def __init__(self, connection: Connection, topic: str, name: LeasedName, timeout: float) -> None:
        self._connection = connection
        self._topic = topic
        self._name = name
        self._timeout = timeout
        # The one that was used longest ago first.
        self._idle: dict[int, TransactionalProducer] = {}
        self._groups: dict[int, Any] = {}

    def take(self) -> tuple[int, TransactionalProducer]:
        """An instance fit for another transaction, with its number."""
        for number, producer in self._idle.items():
            if producer.is_clean(patience=0):
                return number, self._idle.pop(number)
        if len(self._idle) == 2:
            number = next(iter(self._idle))
            producer = self._idle.pop(number)
            if producer.is_clean():
                return number, producer
            producer.discard()
        else:
            number = 1 if 0 in self._idle else 0
        return number, self.fresh(number)

    def fresh(
        self, number: int, *, in_doubt: bool = False, await_others: Callable[[], object] | None = None
    ) -> TransactionalProducer:
        """A new instance of that id; what a predecessor left open is aborted.

        ``in_doubt``: it also reads from the ledger what the predecessor committed, since nobody else has this ledger.
        ``await_others``: see TransactionalProducer.
        """
        name = transactional_id(self._topic, self._name.writer, number)
        producer = TransactionalProducer(
            self._connection,
            self._topic,
            name,
            self._timeout,
            predecessors=in_doubt,
            group=self._groups.get(number),
            await_others=await_others,
            # Of its own: the ids may have been another producer's before.
            ledger=transactional_id(self._topic, self._name.ledger, number),
        )
        self._groups[number] = producer.group
        return producer

    def give_back(self, number: int, producer: TransactionalProducer) -> None:
        """Keep an instance whose transaction was committed."""
        self._idle[number] = producer

    def keep_alive(self) -> None:
        """Take the statistics that pile up while nothing is sent."""
        for producer in self._idle.values():
            producer.is_clean(patience=0)

    def discard(self) -> None:
        """Give up all idle instances: a change that fenced one has fenced the other."""
        while self._idle:
            self._idle.popitem()[1].discard()
