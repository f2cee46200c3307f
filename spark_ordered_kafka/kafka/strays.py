"""Records that lie in a partition their key does not belong to, under the layout they were written in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from confluent_kafka import Message

from spark_ordered_kafka.config import Misrouted
from spark_ordered_kafka.errors import MisroutedRecordError
from spark_ordered_kafka.kafka.segments import Segment, offset_of
from spark_ordered_kafka.native.keys import partitions
from spark_ordered_kafka.native.messages import strays
from spark_ordered_kafka.ordering.routing import NO_PARTITION, Routing


@dataclass
class Strays:
    """Misrouted records of one partition: how many, and the offset of the first."""

    topic: str
    partition: int
    count: int
    first: int


class StrayCounter:
    """Judges the records of one task: leaves tombstones for other partitions out, and minds other strays.

    ``misrouted``: ``fail`` raises MisroutedRecordError for the first stray, ``warn`` counts them in :attr:`found`,
    ``ignore`` does not look for them. Strays are delivered: an ordered writer never makes one, and whoever made them
    keeps no order.
    """

    def __init__(self, misrouted: Misrouted) -> None:
        self._misrouted = misrouted
        self._found: dict[tuple[str, int], Strays] = {}

    def judge(self, batch: pa.RecordBatch, segment: Segment) -> pa.RecordBatch:
        """The rows to deliver, of those read of a segment; ``batch`` has the columns key, value and offset."""
        values = batch.column("value")
        routing = self._routing_for(segment, lambda: values.null_count > 0)
        if routing is None:
            return batch
        found = _strays(batch.column("key"), segment, routing)
        if found.size == 0:
            return batch
        offsets = batch.column("offset").to_numpy()
        dropped = found[values.is_null().to_numpy(zero_copy_only=False)[found] & (segment.epoch > 0)]
        self._mind(offsets[np.setdiff1d(found, dropped)].tolist(), segment)
        return batch.take(pa.array(np.delete(np.arange(len(batch)), dropped))) if dropped.size else batch

    def judge_messages(self, messages: list[Message], segment: Segment) -> list[Message]:
        """As :meth:`judge`."""
        routing = self._routing_for(segment, lambda: None in map(Message.value, messages))
        if routing is None:
            return messages
        found = strays(messages, segment.partition, routing)
        if not found:
            return messages
        dropped = {row for row in found if segment.epoch > 0 and messages[row].value() is None}
        self._mind([offset_of(messages[row]) for row in found if row not in dropped], segment)
        return [message for row, message in enumerate(messages) if row not in dropped]

    def _routing_for(self, segment: Segment, has_nulls: Callable[[], bool]) -> Routing | None:
        """By which to judge; None where nothing needs to be."""
        # Only a record without a value can be such a tombstone, and there is none before the first change.
        if self._misrouted == "ignore" and (segment.epoch == 0 or not has_nulls()):
            return None
        return segment.routing

    @property
    def found(self) -> list[Strays]:
        """What was counted so far, per partition."""
        return list(self._found.values())

    def take(self) -> list[Strays]:
        """What was counted since the last call."""
        found, self._found = self.found, {}
        return found

    def _mind(self, strays: Sequence[int], segment: Segment) -> None:
        """``strays``: offsets, ascending."""
        if not strays or self._misrouted == "ignore":
            return
        first = strays[0]
        if self._misrouted == "fail":
            raise MisroutedRecordError(
                f"the record at offset {first} of {segment.topic}-{segment.partition} lies in a partition that its key does"
                f" not belong to under layout epoch {segment.epoch}; set misroutedRecords to warn or ignore to read it"
                " without an order"
            )
        place = (segment.topic, segment.partition)
        counted = self._found.setdefault(place, Strays(*place, 0, first))
        counted.count += len(strays)


def _strays(keys: pa.Array, segment: Segment, routing: Routing) -> npt.NDArray[np.intp]:
    places = partitions(routing, keys)
    return np.flatnonzero((places != segment.partition) & (places != NO_PARTITION))
