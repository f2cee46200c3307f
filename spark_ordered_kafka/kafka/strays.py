"""Records that lie in a partition their key does not belong to, under the layout they were written in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from confluent_kafka import Message

from spark_ordered_kafka.config import Misrouted
from spark_ordered_kafka.errors import MisroutedRecordError
from spark_ordered_kafka.kafka.segments import Segment, offset_of
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

    def judge(self, messages: list[Message], segment: Segment) -> list[Message]:
        """The messages to deliver, of those read of a segment."""
        routing = segment.routing
        if routing is None:
            return messages
        # Only a record without a value can be such a tombstone, and there is none before the first change.
        if self._misrouted == "ignore" and (
            segment.epoch == 0 or all(message.value() is not None for message in messages)
        ):
            return messages
        strays = _strays(messages, segment, routing)
        if not strays:
            return messages
        dropped = {row for row in strays if segment.epoch > 0 and messages[row].value() is None}
        self._mind([messages[row] for row in strays if row not in dropped], segment)
        return [message for row, message in enumerate(messages) if row not in dropped]

    @property
    def found(self) -> list[Strays]:
        """What was counted so far, per partition."""
        return list(self._found.values())

    def take(self) -> list[Strays]:
        """What was counted since the last call."""
        found, self._found = self.found, {}
        return found

    def _mind(self, strays: list[Message], segment: Segment) -> None:
        if not strays or self._misrouted == "ignore":
            return
        first = offset_of(strays[0])
        if self._misrouted == "fail":
            raise MisroutedRecordError(
                f"the record at offset {first} of {segment.topic}-{segment.partition} lies in a partition that its key does"
                f" not belong to under layout epoch {segment.epoch}; set misroutedRecords to warn or ignore to read it"
                " without an order"
            )
        place = (segment.topic, segment.partition)
        counted = self._found.setdefault(place, Strays(*place, 0, first))
        counted.count += len(strays)


def _strays(messages: list[Message], segment: Segment, routing: Routing) -> list[int]:
    places = routing.partitions(list(map(Message.key, messages)))
    rows: list[int] = np.flatnonzero((places != segment.partition) & (places != NO_PARTITION)).tolist()
    return rows
