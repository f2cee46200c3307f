"""The ledger: what a transactional id has committed last, kept in Kafka by the same transaction.

Each transaction commits a sequence number as the offset of a consumer group named like its transactional id, with row
count and fingerprint as the offset's metadata. A successor reads it and knows whether its predecessor's transaction
was committed. The entry expires with the brokers' ``offsets.retention.minutes``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mmh3
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.kafka.clients import wait_for

_MASK = (1 << 64) - 1
_NULL = b"\x00"
_PRESENT = b"\x01"


@dataclass(frozen=True)
class Fingerprint:
    """Row count and order-independent sum of 64-bit hashes of (key, value)."""

    rows: int = 0
    total: int = 0

    def add(self, keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> Fingerprint:
        """The fingerprint with these rows as well."""
        total = self.total
        for key, value in zip(keys, values, strict=True):
            seed = mmh3.hash(_NULL if key is None else _PRESENT + key, signed=False)
            total += mmh3.hash64(_NULL if value is None else _PRESENT + value, seed=seed, signed=False)[0]
        return Fingerprint(self.rows + len(keys), total & _MASK)


@dataclass(frozen=True)
class LedgerEntry:
    """The last committed transaction: its sequence number (the sink: the batch id) and its rows' fingerprint."""

    sequence: int
    fingerprint: Fingerprint

    def metadata(self) -> str:
        """The offset's metadata."""
        return f"1:{self.fingerprint.rows}:{self.fingerprint.total:016x}"

    @classmethod
    def parse(cls, sequence: int, metadata: str | None) -> LedgerEntry:
        """The inverse of :meth:`metadata`; raises ConfigError when something else committed to the group."""
        version, _, rest = (metadata or "").partition(":")
        rows, _, total = rest.partition(":")
        if version != "1" or not rows.isdigit():
            raise ConfigError(
                "ledger entry", metadata, "written by this sink only; is the consumer group used otherwise?"
            )
        return cls(sequence, Fingerprint(int(rows), int(total, 16)))


def read_entry(admin: AdminClient, topic: str, transactional_id: str, timeout: float) -> LedgerEntry | None:
    """The ledger entry of a transactional id, or None where nothing was committed.

    Waits for a commit in doubt to be resolved (``require_stable``), at most ``timeout`` seconds.
    """
    request = ConsumerGroupTopicPartitions(transactional_id, [TopicPartition(topic, 0)])
    futures = admin.list_consumer_group_offsets([request], require_stable=True, request_timeout=timeout)
    answer = wait_for(futures[transactional_id], timeout, f"reading the ledger of {transactional_id!r}")
    found = answer.topic_partitions[0]
    if found.error is None and found.offset >= 0:
        return LedgerEntry.parse(found.offset, found.metadata)
    return None
