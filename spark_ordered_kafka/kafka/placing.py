"""The writer rule's second and third step: the layout checked after the initialisation, and rows placed by it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.errors import UnavailableError
from spark_ordered_kafka.kafka.producer import Row, TransactionalProducer, WriterLayout
from spark_ordered_kafka.kafka.ranges import LogRanges
from spark_ordered_kafka.kafka.tombstones import Tombstones
from spark_ordered_kafka.native.contents import Contents, Records
from spark_ordered_kafka.native.keys import key_hashes
from spark_ordered_kafka.ordering import tombstone_targets
from spark_ordered_kafka.ordering.routing import NO_PARTITION, Routing

LayoutOf = Callable[[str, float], WriterLayout]
"""``layout_of(topic, timeout)`` asks the controller for the layout (a linearizable read), waiting up to ``timeout``
seconds while a change is closing."""

Places = npt.NDArray[np.intp]


def check_layout(
    producer: TransactionalProducer, topic: str, connection: Connection, layout_of: LayoutOf, timeout: float
) -> None:
    """Ask for the layout that ``producer`` is to write under, unless what it has holds until it is fenced."""
    before = producer.layout
    if before is not None and before.ordered_delivery:
        # A change of an unordered topic fences nobody, so nothing else would tell a cached producer of it.
        return
    layout = layout_of(topic, timeout)
    if before is not None and before.undeleted_partition_count < layout.undeleted_partition_count:
        producer.refresh_metadata()
    producer.layout = layout
    producer.tombstones = None
    named = {p for earlier in layout.earlier for p, end in enumerate(earlier.ends) if end > 0}
    if not named:
        return
    # Log starts only grow, so that what is known here may cost needless tombstones and never saves one.
    log = LogRanges(connection, timeout=timeout).log(topic, named)
    targets = tombstone_targets(
        layout.initial_partition_count,
        layout.undeleted_partition_count,
        [(earlier.undeleted_partition_count, earlier.ends) for earlier in layout.earlier],
        log.starts,
    )
    producer.tombstones = None if targets.empty else Tombstones(targets)


class Placer:
    """Sends rows to the partitions of their keys; null keys take turns over all partitions."""

    def __init__(self) -> None:
        self._turn = 0

    def send(self, producer: TransactionalProducer, records: Records) -> None:
        """Send records by the producer's layout, with the tombstones they owe."""
        routing = _routing(producer)
        _send_tombstones(producer, routing, records.keys)
        self._turn = producer.send_records(records, routing, self._turn)

    def send_rows(
        self,
        producer: TransactionalProducer,
        keys: list[bytes | None],
        rows_at: Callable[[Places], list[Row]],
        size: int,
    ) -> None:
        """As :meth:`send`, of rows that have more than key, value and headers.

        ``rows_at`` gives the rows at some places of ``keys``; ``size`` is that of all in bytes.
        """
        routing = _routing(producer)
        _send_tombstones(producer, routing, keys)
        places = routing.partitions(keys)
        for row in np.flatnonzero(places == NO_PARTITION).tolist():
            places[row] = self._turn % routing.count
            self._turn += 1
        order = np.argsort(places, kind="stable")
        found, firsts = np.unique(places[order], return_index=True)
        for partition, group in zip(found.tolist(), np.split(order, firsts[1:]), strict=True):
            producer.send(partition, rows_at(group), size * len(group) // len(keys))


def _routing(producer: TransactionalProducer) -> Routing:
    layout = producer.layout
    if layout is None:
        raise UnavailableError("the layout was not checked after the producer's initialisation")
    return Routing(layout.hash, layout.initial_partition_count, layout.undeleted_partition_count)


def _send_tombstones(producer: TransactionalProducer, routing: Routing, keys: Contents) -> None:
    if producer.tombstones is None:
        return
    # One transaction makes tombstones and records visible at once, in other partitions, so their order is nobody's
    # guarantee. Tombstones go first because a plain consumer that merges partitions by timestamp then ends at the live
    # value.
    for partition, owed in producer.tombstones.due(keys, key_hashes(routing.hash, keys)):
        tombstones: list[Row] = [{"key": key, "value": None} for key in owed]
        producer.send(partition, tombstones, sum(map(len, owed)))
