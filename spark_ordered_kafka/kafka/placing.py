"""The writer rule's second and third step: the layout checked after the initialisation, and rows placed by it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.errors import UnavailableError
from spark_ordered_kafka.kafka.producer import Row, TransactionalProducer, WriterLayout
from spark_ordered_kafka.kafka.ranges import LogRanges
from spark_ordered_kafka.kafka.tombstones import Tombstones
from spark_ordered_kafka.native.bulk import Partitions
from spark_ordered_kafka.ordering import buckets, key_hashes, tombstone_targets

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
        self._null_keys = 0

    def send(
        self,
        producer: TransactionalProducer,
        keys: Sequence[bytes | None],
        rows_at: Callable[[Places], list[Row]],
        size: int,
    ) -> None:
        """Send rows by the producer's layout, with the tombstones they owe.

        ``rows_at`` gives the rows at some places of ``keys``; ``size`` is that of all in bytes.
        """
        partitions = self._begin(producer, keys)
        order = np.argsort(partitions, kind="stable")
        found, firsts = np.unique(partitions[order], return_index=True)
        for partition, places in zip(found.tolist(), np.split(order, firsts[1:]), strict=True):
            producer.send(partition, rows_at(places), size * len(places) // len(keys))

    def send_contents(
        self,
        producer: TransactionalProducer,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        size: int,
    ) -> None:
        """As :meth:`send`, of rows that are nothing but key and value."""
        producer.send_contents(self._begin(producer, keys), keys, values, size)

    def _begin(self, producer: TransactionalProducer, keys: Sequence[bytes | None]) -> Partitions:
        """Send the tombstones; the partitions of the rows."""
        layout = producer.layout
        if layout is None:
            raise UnavailableError("the layout was not checked after the producer's initialisation")
        hashes = key_hashes(layout.hash, keys)
        if producer.tombstones is not None:
            # One transaction makes tombstones and records visible at once, in other partitions, so their order
            # is nobody's guarantee. Tombstones go first because a plain consumer that merges partitions by
            # timestamp then ends at the live value.
            for partition, owed in producer.tombstones.due(keys, hashes):
                tombstones: list[Row] = [{"key": key, "value": None} for key in owed]
                producer.send(partition, tombstones, sum(map(len, owed)))
        count = layout.undeleted_partition_count
        partitions = buckets(hashes, layout.initial_partition_count, count)
        for row in (place for place, key in enumerate(keys) if key is None):
            partitions[row] = self._null_keys % count
            self._null_keys += 1
        return partitions
