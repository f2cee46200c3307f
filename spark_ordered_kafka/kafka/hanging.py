"""Transactions that no coordinator will ever end, and that hold up readers of a log (KIP-664)."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.fence import Fencer, ProducerTransaction
from spark_ordered_kafka.kafka.ids import id_prefix
from spark_ordered_kafka.kafka.own_rights import OwnRights
from spark_ordered_kafka.kafka.producers import TIMEOUT, read_producers

LONGEST_TRANSACTION = 900.0
"""Seconds: Kafka's default of ``transaction.max.timeout.ms``, by which kafka-transactions find-hanging goes, too."""


@dataclass(frozen=True)
class OpenTransaction:
    """A transaction in a partition's log: readers of committed records stop at ``start_offset``.

    ``last_timestamp`` is that of the producer's newest record, in milliseconds since the epoch by the producer's own
    clock; -1 where the broker does not know it.
    """

    partition: int
    producer_id: int
    start_offset: int
    last_timestamp: int


@dataclass(frozen=True)
class HangingTransaction:
    """A transaction that is open in a log, and not for its coordinator.

    ``transactional_id`` is None where no coordinator knows the producer: the id has expired, or may not be described.
    ``is_certain`` is False in the second case, where it has only been open for longer than a transaction may last.
    """

    transaction: OpenTransaction
    transactional_id: str | None
    is_certain: bool


class HangingTransactions:
    """Finds them, for use by any number of threads.

    Args:
        admin: connections to the cluster.
        fencer: asks the coordinators.
        clock: seconds since the epoch.
    """

    def __init__(self, admin: KafkaAdmin, fencer: Fencer, clock: Callable[[], float]) -> None:
        self._admin = admin
        self._fencer = fencer
        self._rights = OwnRights(admin.requests, TIMEOUT)
        self._clock = clock

    def find(self, topic: str, partitions: Collection[int]) -> list[HangingTransaction]:
        """The hanging transactions of some partitions, by partition and offset.

        The logs are read first, the coordinators second and the logs again: a coordinator knows of a partition before its
        log does and until markers are in it, so a transaction of which it knows nothing in between has ended, or hangs.

        Raises:
            RequestError: the producers of the topic, or the transactional ids of its writers, may not be described.
            UnavailableError: a partition has no leader, or not all brokers answered in time.
        """
        deadline = time.monotonic() + TIMEOUT
        before = self._open(topic, partitions, deadline)
        if not before:
            return []
        producers = {one.producer_id for one in before}
        known = self._fencer.transactions_of(producers, id_prefix(topic), deadline)
        suspects = unknown_to_coordinators(topic, before, known)
        if not suspects:
            return []
        still = set(self._open(topic, {one.partition for one in suspects}, deadline))
        # The right to describe an unused name comes from a right on all names.
        probe = uuid.uuid4().hex
        is_complete = "DESCRIBE" in self._rights.on_transactional_ids([probe])[probe]
        oldest = 1000 * (self._clock() - LONGEST_TRANSACTION)
        found = []
        for one in suspects:
            owner = known.get(one.producer_id)
            is_certain = is_complete or owner is not None
            if one in still and (is_certain or 0 <= one.last_timestamp < oldest):
                found.append(
                    HangingTransaction(one, None if owner is None else owner.transactional_id, is_certain)
                )
        return found

    def _open(self, topic: str, partitions: Collection[int], deadline: float) -> list[OpenTransaction]:
        rows = read_producers(self._admin.requests, topic, partitions, deadline)
        return sorted(_open_transactions(rows), key=lambda one: (one.partition, one.start_offset))


def unknown_to_coordinators(
    topic: str, transactions: Collection[OpenTransaction], known: Mapping[int, ProducerTransaction]
) -> list[OpenTransaction]:
    """Those whose partition is in no transaction that a coordinator has open."""
    return [
        one
        for one in transactions
        if (owner := known.get(one.producer_id)) is None or (topic, one.partition) not in owner.partitions
    ]


def _open_transactions(rows: Mapping[int, Any]) -> list[OpenTransaction]:
    return [
        OpenTransaction(partition, one.producer_id, one.current_txn_start_offset, one.last_timestamp)
        for partition, row in rows.items()
        for one in row.active_producers
        if one.current_txn_start_offset >= 0
    ]
