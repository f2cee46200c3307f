"""Producers that a task leaves to the next ones of its worker process."""

from __future__ import annotations

from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.kafka.idle import CAPACITY, IdlePool
from spark_ordered_kafka.kafka.producer import TransactionalProducer
from spark_ordered_kafka.native.loading import kernel


class ProducerPool:
    """Idle producers of this process. One in whose transactions a request was lost is never used again.

    Without the kernel it keeps none: to see whether one is clean would take longer than to make another.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._keeps = capacity > 0 and kernel() is not None
        self._idle = IdlePool[tuple[Connection, str], TransactionalProducer](
            TransactionalProducer.discard, capacity=capacity
        )

    def take(self, connection: Connection, transactional_id: str) -> TransactionalProducer | None:
        """An idle producer of that id, if there is one."""
        return self._idle.take((connection, transactional_id))

    def give_back(self, connection: Connection, producer: TransactionalProducer) -> None:
        """Keep a producer whose transaction was committed, if it is clean."""
        if self._keeps and producer.is_clean():
            self._idle.put((connection, producer.transactional_id), producer)
        else:
            producer.discard()
