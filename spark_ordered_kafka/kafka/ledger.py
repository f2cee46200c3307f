"""The ledger: what a writer's task has committed last, kept in Kafka by the same transaction.

Each transaction commits a sequence number as the offset of a consumer group of the task's own, with row count and
fingerprint as the offset's metadata. A successor reads it and knows whether its predecessor's transaction
was committed. The entry expires with the brokers' ``offsets.retention.minutes``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mmh3
from confluent_kafka import Consumer, KafkaException, TopicPartition
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_exponential

from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.errors import ConfigError, OrderedKafkaError
from spark_ordered_kafka.kafka.clients import client_properties, translate

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


def ledger_consumer(connection: Connection, group: str) -> Consumer:
    """A consumer of the ledger's group that never joins it. Under ``read_committed`` librdkafka asks for stable
    offsets, so a commit in doubt is waited for.
    """
    return Consumer(
        client_properties(
            # No warnings: a writer's properties are a producer's, of which a consumer says that it ignores them.
            {**connection.kafka, "log_level": "3"},
            group_id=group,
            isolation_level="read_committed",
            enable_auto_commit=False,
        )
    )


def read_entry(consumer: Consumer, topic: str, group: str, timeout: float) -> LedgerEntry | None:
    """The entry of a ledger, or None where nothing was committed; ``consumer`` is of its ``group``.

    Waits while the group's coordinator moves or a commit is in doubt, at most ``timeout`` seconds; raises
    UnavailableError after that.
    """
    # Not AdminClient.list_consumer_group_offsets: librdkafka 2.16 crashes there while a coordinator is loading.
    retrying = Retrying(
        stop=stop_after_delay(timeout),
        wait=wait_exponential(0.02, max=0.5),
        retry=retry_if_exception(lambda error: isinstance(error, OrderedKafkaError) and error.retriable),
        reraise=True,
    )
    (found,) = retrying(_committed, consumer, topic, group, timeout)
    return LedgerEntry.parse(found.offset, found.metadata) if found.offset >= 0 else None


def _committed(consumer: Consumer, topic: str, group: str, timeout: float) -> list[TopicPartition]:
    try:
        return consumer.committed([TopicPartition(topic, 0)], timeout)
    except KafkaException as error:
        raise translate(error.args[0], f"reading the ledger {group!r}") from error
