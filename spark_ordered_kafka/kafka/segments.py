"""What a reading task is given: offset ranges of partitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from confluent_kafka import Message

from spark_ordered_kafka.kafka.values import PartitionId
from spark_ordered_kafka.ordering.routing import Routing


@dataclass(frozen=True)
class Segment:
    """Offsets [start, end) of a partition, all written under layout ``epoch``.

    ``routing`` says where that layout's keys belong; None where writers were not held to it. ``leader_epoch`` is that of
    the leader whose log was seen to reach ``end``, or further; -1 where it is not known.
    """

    topic: str
    partition: int
    epoch: int
    start: int
    end: int
    routing: Routing | None = None
    leader_epoch: int = -1


def offset_of(message: Message) -> int:
    """The offset of a fetched record or event, which always has one."""
    return cast(int, message.offset())


def tp_of(message: Message) -> PartitionId:
    """The partition of a fetched record, or of an event that is a partition's."""
    return cast(str, message.topic()), cast(int, message.partition())
