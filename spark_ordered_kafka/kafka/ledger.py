"""The ledger: what a writer's task has committed last, kept in Kafka by the same transaction.

Each transaction commits a sequence number as the offset of a consumer group of the task's own, with row count and
fingerprint as the offset's metadata. A successor reads it and knows whether its predecessor's transaction
was committed. The entry expires with the brokers' ``offsets.retention.minutes``.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_exponential

from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.errors import ConfigError, OrderedKafkaError
from spark_ordered_kafka.kafka.clients import new_client, translate, translating, wait_for
from spark_ordered_kafka.kafka.ids import WriterTask
from spark_ordered_kafka.kafka.properties import admin_properties, ledger_properties
from spark_ordered_kafka.native.contents import Contents, Headers
from spark_ordered_kafka.native.fingerprints import fingerprint

_MASK = (1 << 64) - 1
_ROWS, _TOTAL = re.compile("[0-9]{1,18}"), re.compile("[0-9a-f]{16}")
_READERS = 8
# Seconds for one listing: a broker that has just died answers none, and is gone from the metadata a little later.
_LISTING = 5.0


@dataclass(frozen=True)
class Fingerprint:
    """Row count and order-independent sum of 64-bit hashes of (key, value, headers)."""

    rows: int = 0
    total: int = 0

    def add(self, keys: Contents, values: Contents, headers: Headers = None) -> Fingerprint:
        """The fingerprint with these rows as well; no headers and an empty list of them are the same."""
        return Fingerprint(self.rows + len(keys), self.total + fingerprint(keys, values, headers) & _MASK)


@dataclass(frozen=True)
class Origin:
    """Who wrote an entry.

    ``query``: id of the streaming query; ``run``: of its run, which is new with each start of the query; both are
    empty outside of one. ``execution``: new whenever Spark plans a write; its tasks, their retries and speculative copies
    share it. ``by_column``: the rows of the write name their topics.
    """

    query: str = ""
    run: str = ""
    execution: str = ""
    by_column: bool = False


NO_ORIGIN = Origin()
"""The origin of entries of which only the sequence number matters."""


@dataclass(frozen=True)
class LedgerEntry:
    """The last committed transaction: its sequence number (the sink: the batch id), its rows' fingerprint, who wrote it.

    ``version`` 1 was written by versions that left headers out of the fingerprint and recorded no origin.
    """

    sequence: int
    fingerprint: Fingerprint
    origin: Origin = NO_ORIGIN
    version: int = 2

    def metadata(self) -> str:
        """The offset's metadata."""
        rows, total, origin = self.fingerprint.rows, self.fingerprint.total, self.origin
        column = "column" if origin.by_column else ""
        return f"2:{rows}:{total:016x}:{origin.query}:{origin.run}:{origin.execution}:{column}"

    @classmethod
    def parse(cls, sequence: int, metadata: str | None) -> LedgerEntry:
        """The inverse of :meth:`metadata`; raises ConfigError when something else committed to the group."""
        match (metadata or "").split(":"):
            case ["1", rows, total] if _ROWS.fullmatch(rows) and _TOTAL.fullmatch(total):
                return cls(sequence, Fingerprint(int(rows), int(total, 16)), version=1)
            case ["2", rows, total, query, run, execution, ("" | "column") as column] if _ROWS.fullmatch(
                rows
            ) and _TOTAL.fullmatch(total):
                origin = Origin(query, run, execution, column == "column")
                return cls(sequence, Fingerprint(int(rows), int(total, 16)), origin)
        raise ConfigError(
            "ledger entry", metadata, "written by this sink only; is the consumer group used otherwise?"
        )


def ledger_consumer(connection: Connection, group: str) -> Consumer:
    """A consumer of the ledger's group that never joins it."""
    return new_client(Consumer, ledger_properties(connection.kafka, group))


def read_entry(consumer: Consumer, topic: str, group: str, timeout: float) -> LedgerEntry | None:
    """The entry of a ledger, or None where nothing was committed; ``consumer`` is of its ``group``.

    Waits while the group's coordinator moves or a commit is in doubt, at most ``timeout`` seconds; raises
    UnavailableError after that.
    """
    # Not AdminClient.list_consumer_group_offsets: librdkafka crashes there while a coordinator is loading (D-073).
    (found,) = _retrying(timeout)(_committed, consumer, topic, group, timeout)
    return LedgerEntry.parse(found.offset, found.metadata) if found.offset >= 0 else None


def look_up(connection: Connection, topic: str, group: str, timeout: float) -> LedgerEntry | None:
    """As :func:`read_entry`, with a consumer of its own."""
    consumer = ledger_consumer(connection, group)
    try:
        return read_entry(consumer, topic, group, timeout)
    finally:
        consumer.close()


def all_ledgers(connection: Connection, timeout: float) -> frozenset[WriterTask]:
    """Where any ordered writer has committed anything: all ledgers that the brokers still have.

    Brokers list only groups that the caller may describe, which the rights of a writer (READ) include (D-068). Raises
    UnavailableError where they do not all answer in time, RequestError where one refuses.
    """
    listed = partial(_retrying(timeout), _groups, connection, min(timeout, _LISTING))
    # A group whose coordinator moves from a broker that is asked later to one that has answered would be missed.
    names = listed() | listed()
    ledgers = (WriterTask.of(name) for name in names)
    return frozenset(ledger for ledger in ledgers if ledger is not None)


def ledgers_of(connection: Connection, writer: str, timeout: float) -> frozenset[WriterTask]:
    """Those of :func:`all_ledgers` that are of one writer."""
    return frozenset(ledger for ledger in all_ledgers(connection, timeout) if ledger.writer == writer)


def entries_of(
    connection: Connection, ledgers: Collection[WriterTask], timeout: float
) -> dict[WriterTask, LedgerEntry]:
    """The entries of ``ledgers``; those that have none by now are left out."""
    if not ledgers:
        return {}
    with ThreadPoolExecutor(min(_READERS, len(ledgers)), "ledgers") as readers:
        found = readers.map(lambda ledger: look_up(connection, ledger.topic, ledger.name, timeout), ledgers)
        return {ledger: entry for ledger, entry in zip(ledgers, found, strict=True) if entry is not None}


def _retrying(timeout: float) -> Retrying:
    return Retrying(
        stop=stop_after_delay(timeout),
        wait=wait_exponential(0.02, max=0.5),
        retry=retry_if_exception(lambda error: isinstance(error, OrderedKafkaError) and error.retriable),
        reraise=True,
    )


def _committed(consumer: Consumer, topic: str, group: str, timeout: float) -> list[TopicPartition]:
    with translating(f"reading the ledger {group!r}"):
        return consumer.committed([TopicPartition(topic, 0)], timeout)


def _groups(connection: Connection, timeout: float) -> frozenset[str]:
    # A new client each time: an older one would ask the brokers that it knew, also those that are gone.
    admin = new_client(AdminClient, admin_properties({**connection.kafka, "log_level": "3"}))
    doing = "listing the ledgers of a writer"
    listing = wait_for(admin.list_consumer_groups(request_timeout=timeout), timeout, doing)
    for error in listing.errors:
        raise translate(error, doing)
    return frozenset(group.group_id for group in listing.valid)
