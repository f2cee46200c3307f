"""Source offsets: what a micro-batch starts and ends at, as canonical JSON, and the admission limit.

Spark keeps these offsets in the checkpoint and compares them as JSON text, so equal offsets must serialise equally:
topics are sorted, positions are a list by partition without trailing zeros.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from spark_ordered_kafka.errors import ConfigError

VERSION = 1


@dataclass(frozen=True)
class TopicOffset:
    """Where reading one topic has got to.

    ``positions[p]`` is the next offset to read of partition p (0 beyond the end of the tuple); ``layout_epoch`` is the
    newest layout epoch known when it was computed: every record below belongs to that epoch or an earlier one.
    ``leader_epochs[p]`` is the leader epoch that the log of p was seen under up to there (KIP-320), -1 where it is not
    known: it tells whether the log was truncated since. ``resumed[p]`` is where the micro-batch that ends here begins p
    instead of the position before it: a truncation has left that beyond the log, retention before it.

    ``cuts[p]`` are the offsets at which a task of that micro-batch ends and the next one of p begins. So two offsets tell the
    tasks between them (:meth:`tasks_since`), whatever becomes of the topic before the micro-batch is read again.
    """

    topic_id: str
    layout_epoch: int
    positions: tuple[int, ...]
    leader_epochs: tuple[int, ...] = ()
    resumed: Mapping[int, int] = field(default_factory=dict)
    cuts: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        topic_id: str,
        layout_epoch: int,
        positions: Mapping[int, int],
        leader_epochs: Mapping[int, int] | None = None,
    ) -> TopicOffset:
        """From mappings of partition to position, and to leader epoch."""
        size = max((p + 1 for p, offset in positions.items() if offset > 0), default=0)
        known = () if leader_epochs is None else tuple(leader_epochs.get(p, -1) for p in range(size))
        return cls(topic_id, layout_epoch, tuple(positions.get(p, 0) for p in range(size)), known)

    def position(self, partition: int) -> int:
        """The next offset to read of ``partition``."""
        return self.positions[partition] if partition < len(self.positions) else 0

    def as_mapping(self, partitions: int) -> dict[int, int]:
        """Positions of the partitions 0 to ``partitions`` - 1, and of any further one that has been read."""
        return {p: self.position(p) for p in range(max(partitions, len(self.positions)))}

    def tasks_since(self, before: TopicOffset | None) -> list[tuple[int, int, int]]:
        """Partition, start and end of each task of the micro-batch from ``before``, None for a topic not read before."""
        if before is not None and before.topic_id != self.topic_id:
            before = None
        tasks = []
        for partition, end in enumerate(self.positions):
            start = 0 if before is None else before.position(partition)
            start = self.resumed.get(partition, start)
            bounds = [start, *self.cuts.get(partition, ()), end]
            tasks += [(partition, low, high) for low, high in pairwise(bounds) if low < high]
        return tasks


@dataclass(frozen=True)
class SourceOffset:
    """Where reading all topics has got to."""

    topics: Mapping[str, TopicOffset]

    def to_json(self) -> dict[str, Any]:
        """A JSON object, equal for equal offsets also as text."""
        return {
            "version": VERSION,
            "topics": {name: _topic_json(topic) for name, topic in sorted(self.topics.items())},
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> SourceOffset:
        """The inverse of :meth:`to_json`; raises ConfigError for another version or another format's offset."""
        if value.get("version") != VERSION:
            raise ConfigError(
                "checkpoint offset version",
                value.get("version"),
                f"this release reads version {VERSION}; use a checkpoint written by format('ordered-kafka')",
            )
        return cls(
            {
                name: TopicOffset(
                    topic["topic_id"],
                    topic["layout_epoch"],
                    tuple(topic["positions"]),
                    tuple(topic["leader_epochs"]),
                    {int(p): offset for p, offset in topic.get("resumed", {}).items()},
                    {int(p): tuple(offsets) for p, offsets in topic.get("cuts", {}).items()},
                )
                for name, topic in value["topics"].items()
            }
        )


def _topic_json(topic: TopicOffset) -> dict[str, Any]:
    value: dict[str, Any] = {
        "topic_id": topic.topic_id,
        "layout_epoch": topic.layout_epoch,
        "positions": list(topic.positions),
        "leader_epochs": list(topic.leader_epochs),
    }
    if topic.resumed:
        value["resumed"] = {str(p): offset for p, offset in sorted(topic.resumed.items())}
    if topic.cuts:
        value["cuts"] = {str(p): list(offsets) for p, offsets in sorted(topic.cuts.items())}
    return value


Range = tuple[int, int]
TopicPartition = tuple[str, int]


def admit(ranges: Mapping[TopicPartition, Range], limit: int | None) -> dict[TopicPartition, int]:
    """End offsets of at most about ``limit`` offsets in all, shared out in proportion to what each partition has.

    ``ranges`` maps (topic, partition) to (position, readable end). As in Spark's ``maxOffsetsPerTrigger`` every
    partition with data gets at least one offset, so that a small tail that others wait for is never starved; the sum
    may exceed the limit by that. ``None`` admits everything.
    """
    total = sum(end - start for start, end in ranges.values())
    if limit is None or total <= limit:
        return {key: end for key, (_, end) in ranges.items()}
    return {
        key: start + (max(1, (end - start) * limit // total) if end > start else 0)
        for key, (start, end) in ranges.items()
    }
