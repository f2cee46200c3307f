"""Records that lie in a partition their key does not belong to, under the layout they were written in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from confluent_kafka import Message

from spark_ordered_kafka.config import Misrouted
from spark_ordered_kafka.errors import MisroutedRecordError
from spark_ordered_kafka.kafka.segments import Segment, offset_of
from spark_ordered_kafka.native.keys import partitions
from spark_ordered_kafka.native.messages import misrouted
from spark_ordered_kafka.ordering.routing import NO_PARTITION, Routing

if TYPE_CHECKING:
    # The plain clients do without it.
    import pyarrow as pa


@dataclass
class MisroutedRecords:
    """Misrouted records of one partition: how many, and the offset of the first."""

    topic: str
    partition: int
    count: int
    first: int


class MisroutedFilter:
    """Judges the records of one task: drops tombstones for other partitions, counts or refuses other misrouted records.

    ``action``: ``fail`` raises MisroutedRecordError for the first of them, ``warn`` counts them in :attr:`found`,
    ``ignore`` does not look for them. They are delivered: an ordered writer never makes one, and other writers
    have no order.
    """

    def __init__(self, action: Misrouted) -> None:
        self._action = action
        self._found: dict[tuple[str, int], MisroutedRecords] = {}

    def judge(self, batch: pa.RecordBatch, segment: Segment) -> pa.RecordBatch:
        """The rows to deliver, of those read of a segment; ``batch`` has the columns key, value and offset."""
        values = batch.column("value")
        routing = self._routing_for(segment, lambda: values.null_count > 0)
        if routing is None:
            return batch
        found = _misrouted_rows(batch.column("key"), segment, routing)
        if found.size == 0:
            return batch
        offsets = batch.column("offset").to_numpy()
        dropped = found[values.is_null().to_numpy(zero_copy_only=False)[found] & (segment.epoch > 0)]
        self._count(offsets[np.setdiff1d(found, dropped)].tolist(), segment)
        return batch.take(np.delete(np.arange(len(batch)), dropped)) if dropped.size else batch

    def judge_messages(self, messages: list[Message], segment: Segment) -> list[Message]:
        """As :meth:`judge`."""
        routing = self._routing_for(segment, lambda: None in map(Message.value, messages))
        if routing is None:
            return messages
        found = misrouted(messages, segment.partition, routing)
        if not found:
            return messages
        dropped = {row for row in found if segment.epoch > 0 and messages[row].value() is None}
        self._count([offset_of(messages[row]) for row in found if row not in dropped], segment)
        return [message for row, message in enumerate(messages) if row not in dropped]

    def _routing_for(self, segment: Segment, has_nulls: Callable[[], bool]) -> Routing | None:
        """By which to judge; None where nothing needs to be."""
        # Only a record without a value can be such a tombstone, and there is none before the first change.
        if self._action == "ignore" and (segment.epoch == 0 or not has_nulls()):
            return None
        return segment.routing

    @property
    def found(self) -> list[MisroutedRecords]:
        """What was counted so far, per partition."""
        return list(self._found.values())

    def take(self) -> list[MisroutedRecords]:
        """What was counted since the last call."""
        found, self._found = self.found, {}
        return found

    def _count(self, offsets: Sequence[int], segment: Segment) -> None:
        """``offsets`` of misrouted records, ascending."""
        if not offsets or self._action == "ignore":
            return
        first = offsets[0]
        if self._action == "fail":
            raise MisroutedRecordError(
                f"the record at offset {first} of {segment.topic}-{segment.partition} lies in a partition that its key does"
                f" not belong to under layout epoch {segment.epoch}; set misroutedRecords to warn or ignore to read it"
                " without an order"
            )
        tp = (segment.topic, segment.partition)
        counted = self._found.setdefault(tp, MisroutedRecords(*tp, 0, first))
        counted.count += len(offsets)


def _misrouted_rows(keys: pa.Array, segment: Segment, routing: Routing) -> npt.NDArray[np.intp]:
    owners = partitions(routing, keys)
    return np.flatnonzero((owners != segment.partition) & (owners != NO_PARTITION))
