"""The writer rule, which the sink and OrderedProducer share: init, check, write.

A producer instance is initialised first, then the layout is asked for, then records are placed by it. A partition change
fences the instance; the rows of its transaction, which the caller keeps, are then placed and sent anew by a fresh one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.errors import UnavailableError
from spark_ordered_kafka.kafka.ledger import LedgerEntry
from spark_ordered_kafka.kafka.producer import Row, TransactionalProducer
from spark_ordered_kafka.kafka.ranges import LogQuestion, LogRanges
from spark_ordered_kafka.kafka.sent_offsets import TransactionOffsets
from spark_ordered_kafka.kafka.tombstones import Tombstones
from spark_ordered_kafka.kafka.writer_layout import WriterLayout
from spark_ordered_kafka.native.contents import Contents, Records
from spark_ordered_kafka.native.keys import key_hashes
from spark_ordered_kafka.ordering import tombstone_targets
from spark_ordered_kafka.ordering.routing import Routing, known_hash, rows_by_partition

LayoutOf = Callable[[str, float], WriterLayout]
"""``layout_of(topic, timeout)`` asks the controller for the layout (a linearizable read), waiting up to ``timeout``
seconds while a change is closing."""

Indices = npt.NDArray[np.intp]


class TopicWriter:
    """Writes transactions to one topic, one at a time; null keys take turns over all partitions.

    ``producer``: the instance that carries the open transaction, None without one. After an error that is retriable
    :meth:`discard` it, then :meth:`begin` with a fresh one, and send all rows again. ``timeout`` (seconds) bounds each
    call to a server.
    """

    def __init__(self, topic: str, connection: Connection, layout_of: LayoutOf, timeout: float) -> None:
        self.producer: TransactionalProducer | None = None
        self._topic = topic
        self._connection = connection
        self._layout_of = layout_of
        self._timeout = timeout
        self._routing: Routing | None = None
        self._turn = 0

    def begin(self, producer: TransactionalProducer) -> None:
        """Open a transaction under the current layout."""
        # Before anything can fail: then it is to be discarded.
        self.producer, self._routing = producer, None
        layout = self._checked_layout(producer)
        hash_name = known_hash(self._topic, layout.hash)
        self._routing = Routing(hash_name, layout.initial_partition_count, layout.undeleted_partition_count)
        producer.begin()

    def send(self, records: Records) -> None:
        """Send records to the partitions of their keys, with the tombstones they owe."""
        producer, routing = self._open()
        _send_tombstones(producer, routing, records.keys)
        self._turn = producer.send_records(records, routing, self._turn)

    def send_rows(self, keys: list[bytes | None], rows_at: Callable[[Indices], list[Row]], size: int) -> None:
        """As :meth:`send`, of rows that have more than key, value and headers.

        ``rows_at`` gives the rows at some indices of ``keys``; ``size`` is that of all in bytes.
        """
        producer, routing = self._open()
        _send_tombstones(producer, routing, keys)
        partitions, self._turn = routing.partitions_in_turn(keys, self._turn)
        for partition, indices in rows_by_partition(partitions):
            producer.send(partition, rows_at(indices), size * len(indices) // len(keys))

    def commit(self, entry: LedgerEntry, read: Sequence[TransactionOffsets] = ()) -> TransactionalProducer:
        """Commit as :meth:`TransactionalProducer.commit` does; the instance, which may carry another transaction."""
        producer, _ = self._open()
        producer.commit(entry, read)
        self.producer = None
        return producer

    def abort(self) -> None:
        """Abort the open transaction, if any, and give up its instance."""
        producer, self.producer = self.producer, None
        if producer is not None and self._routing is None:
            producer.discard()
        elif producer is not None:
            producer.abort()

    def discard(self) -> None:
        """Give up the instance, if any: its successor's initialisation aborts the transaction."""
        producer, self.producer = self.producer, None
        if producer is not None:
            producer.discard()

    def _open(self) -> tuple[TransactionalProducer, Routing]:
        if self.producer is None or self._routing is None:
            raise UnavailableError(f"no transaction on {self._topic!r} is open")
        return self.producer, self._routing

    def _checked_layout(self, producer: TransactionalProducer) -> WriterLayout:
        """The layout that ``producer`` is to write under; asks for it unless what it has holds until it is fenced."""
        before = producer.layout
        if before is not None and before.ordered_delivery:
            # The producer is fenced by any later change; a change of an unordered topic fences none (D-064).
            return before
        layout = self._layout_of(self._topic, self._timeout)
        if before is not None and before.undeleted_partition_count < layout.undeleted_partition_count:
            producer.refresh_metadata()
        producer.layout = layout
        producer.tombstones = self._tombstones(layout)
        return layout

    def _tombstones(self, layout: WriterLayout) -> Tombstones | None:
        named = {p for earlier in layout.earlier for p, end in enumerate(earlier.ends) if end > 0}
        if not named:
            return None
        # Log starts only grow, so that what is known here may cost needless tombstones and never saves one.
        with LogRanges(self._connection, timeout=self._timeout) as ranges:
            log = ranges.log(self._topic, LogQuestion(named))
        targets = tombstone_targets(
            layout.initial_partition_count,
            layout.undeleted_partition_count,
            [(earlier.undeleted_partition_count, earlier.ends) for earlier in layout.earlier],
            log.starts,
        )
        return None if targets.empty else Tombstones(targets)


def _send_tombstones(producer: TransactionalProducer, routing: Routing, keys: Contents) -> None:
    if producer.tombstones is None:
        return
    # Before the records, for plain consumers that merge partitions by timestamp (D-077).
    for partition, owed in producer.tombstones.due(keys, key_hashes(routing.hash, keys)):
        tombstones: list[Row] = [{"key": key, "value": None} for key in owed]
        producer.send(partition, tombstones, sum(map(len, owed)))
