"""The two transactional ids that a lane alternates between."""

from __future__ import annotations

import time
from collections.abc import Callable
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

    After a commit the broker writes the transaction's markers, during which a next one on the same id is turned away
    and retried. The other instance carries the next transaction meanwhile, which begins only after the commit, so that
    the order is kept. While transactions are rare one instance is enough.
    """

    def __init__(
        self,
        connection: Connection,
        topic: str,
        name: LeasedName,
        timeout: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection = connection
        self._topic = topic
        self._name = name
        self._timeout = timeout
        self._clock = clock
        self._idle: dict[int, TransactionalProducer] = {}
        self._groups: dict[int, Any] = {}
        # Which was used last, and until when.
        self._last, self._used_until = 0, float("-inf")

    def take(self) -> tuple[int, TransactionalProducer]:
        """An instance fit for another transaction, with its number."""
        number = self._last if self._clock() >= self._used_until + _REST else 1 - self._last
        producer = self._idle.pop(number, None)
        if producer is not None and not producer.is_clean():
            producer.discard()
            producer = None
        return number, self.fresh(number) if producer is None else producer

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
        self._last, self._used_until = number, self._clock()
        self._idle[number] = producer

    def serve(self) -> None:
        """Take what librdkafka reports to idle instances, without the kernel many statistics."""
        for number, producer in list(self._idle.items()):
            if retriable_failure(producer.serve) is not None:
                self._idle.pop(number).discard()

    def discard(self) -> None:
        """Give up all idle instances: a change that fenced one has fenced the other."""
        while self._idle:
            self._idle.popitem()[1].discard()
