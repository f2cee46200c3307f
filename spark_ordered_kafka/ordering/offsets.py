"""Source offsets: what a micro-batch starts and ends at, as canonical JSON, and the admission limit.

Spark keeps these offsets in the checkpoint and compares them as JSON text, so equal offsets must serialise equally:
topics are sorted, positions are a list by partition without trailing zeros (D-044).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, TypeVar

from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.ordering.layout import OPEN_END

VERSION = 1
_PARTITION = re.compile("0|[1-9][0-9]{0,9}")
_SHOWN = 100
_ReadT = TypeVar("_ReadT")
_KindT = TypeVar("_KindT")


@dataclass(frozen=True)
class TopicOffset:
    """Where reading one topic has got to.

    ``positions[p]`` is the next offset to read of partition p (0 beyond the end of the tuple); ``layout_epoch`` is the
    newest layout epoch known when it was computed: every record below belongs to that epoch or an earlier one.
    ``leader_epochs[p]`` is the leader epoch that the log of p was seen under up to there (KIP-320), -1 where it is not
    known: it shows whether the log was truncated since (D-061). ``resumed[p]`` is where the micro-batch that ends here
    begins p instead of the position before it: a truncation has left that beyond the log, retention before it.

    ``cuts[p]`` are the offsets at which a range of that micro-batch ends and the next one of p begins. So the ranges
    follow from two offsets (:meth:`ranges_since`, D-045), whatever becomes of the topic before they are read again.
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

    def ranges_since(self, before: TopicOffset | None) -> list[tuple[int, int, int]]:
        """Partition, start and end of each range of the micro-batch from ``before``, None for a topic not read before."""
        if before is not None and before.topic_id != self.topic_id:
            before = None
        ranges = []
        for partition, end in enumerate(self.positions):
            start = 0 if before is None else before.position(partition)
            start = self.resumed.get(partition, start)
            bounds = [start, *self.cuts.get(partition, ()), end]
            ranges += [(partition, low, high) for low, high in pairwise(bounds) if low < high]
        return ranges


@dataclass(frozen=True)
class SourceOffset:
    """Where reading all topics has got to.

    ``shared`` says how many ranges, one after another, each task of the micro-batch that ends here reads; empty: each
    task reads one, as in every offset of earlier versions. So the tasks follow from two offsets alone (D-046).
    """

    topics: Mapping[str, TopicOffset]
    shared: tuple[int, ...] = ()

    def moved_since(self, before: SourceOffset) -> Iterator[tuple[str, TopicOffset, TopicOffset | None]]:
        """The topics of which the micro-batch from ``before`` reads ranges, in the order of its tasks, with both offsets."""
        for name, topic in sorted(self.topics.items()):
            known = before.topics.get(name)
            # Where nothing is to be read, the topic may be no more.
            if topic != known and topic.ranges_since(known):
                yield name, topic, known

    def sharing(self, before: SourceOffset, least: int) -> SourceOffset:
        """This end of a micro-batch from ``before``, where tasks share ranges until each has ``least`` offsets."""
        if self.topics == before.topics:
            # Nothing new: Spark would take any other text for progress.
            return before
        sizes = [
            high - low
            for _, topic, known in self.moved_since(before)
            for _, low, high in topic.ranges_since(known)
        ]
        shared = shares(sizes, least)
        return replace(self, shared=() if len(shared) == len(sizes) else shared)

    def to_json(self) -> dict[str, Any]:
        """A JSON object, equal for equal offsets also as text."""
        value: dict[str, Any] = {
            "version": VERSION,
            "topics": {name: _topic_json(topic) for name, topic in sorted(self.topics.items())},
        }
        if self.shared:
            value["shared"] = list(self.shared)
        return value

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> SourceOffset:
        """The inverse of :meth:`to_json`; raises ConfigError for another version or another format's offset.

        Positions are not guessed: any member that is missing or of another type is an error, too.
        """
        version = value.get("version") if isinstance(value, dict) else None
        if type(version) is not int or version != VERSION:
            raise ConfigError(
                "checkpoint offset version",
                version,
                f"this release reads version {VERSION}; use a checkpoint written by format('ordered-kafka')",
            )
        topics = _member("checkpoint offset", value, "topics", dict)
        return cls(
            {name: _topic_offset(f"checkpoint offset of {name}", topic) for name, topic in topics.items()},
            _numbers("checkpoint offset", "shared", value.get("shared", []), 1),
        )


def _topic_offset(what: str, value: Any) -> TopicOffset:
    if not isinstance(value, dict):
        raise ConfigError(what, value, "a JSON object is needed")
    (epoch,) = _numbers(what, "layout_epoch", [value.get("layout_epoch")], -1)
    return TopicOffset(
        _member(what, value, "topic_id", str),
        epoch,
        _numbers(what, "positions", value.get("positions"), 0),
        _numbers(what, "leader_epochs", value.get("leader_epochs"), -1),
        _by_partition(what, "resumed", value, lambda name, offset: _numbers(what, name, [offset], 0)[0]),
        _by_partition(what, "cuts", value, lambda name, offsets: _numbers(what, name, offsets, 0)),
    )


def _by_partition(
    what: str, name: str, value: Mapping[str, Any], read: Callable[[str, Any], _ReadT]
) -> dict[int, _ReadT]:
    if name not in value:
        return {}
    found: dict[int, _ReadT] = {}
    for partition, one in _member(what, value, name, dict).items():
        if _PARTITION.fullmatch(partition) is None:
            raise ConfigError(f"{what}: {name}", partition[:_SHOWN], "a partition is needed")
        found[int(partition)] = read(f"{name}.{partition}", one)
    return found


def _member(what: str, value: Mapping[str, Any], name: str, kind: type[_KindT]) -> _KindT:
    found = value.get(name)
    if not isinstance(found, kind):
        raise ConfigError(f"{what}: {name}", _short(found), f"a value of type {kind.__name__} is needed")
    return found


def _numbers(what: str, name: str, value: Any, least: int) -> tuple[int, ...]:
    # Of thousands of partitions, in every micro-batch.
    if not isinstance(value, list) or not set(map(type, value)) <= {int}:
        raise ConfigError(f"{what}: {name}", _short(value), "whole numbers are needed")
    if value and not least <= min(value) <= max(value) <= OPEN_END:
        raise ConfigError(f"{what}: {name}", _short(value), f"numbers from {least} to {OPEN_END} are needed")
    return tuple(value)


def _short(value: Any) -> str | None:
    return None if value is None else repr(value)[:_SHOWN]


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
    partition with data gets at least one offset (D-050); the sum may exceed the limit by that. ``None`` admits everything.
    """
    total = sum(end - start for start, end in ranges.values())
    if limit is None or total <= limit:
        return {key: end for key, (_, end) in ranges.items()}
    return {
        key: start + (max(1, (end - start) * limit // total) if end > start else 0)
        for key, (start, end) in ranges.items()
    }


def shares(sizes: Sequence[int], least: int) -> tuple[int, ...]:
    """How many of them, one after another, it takes to have ``least`` in sum, again and again; what is left goes to the last."""
    counts: list[int] = []
    count = total = 0
    for size in sizes:
        count, total = count + 1, total + size
        if total >= least:
            counts.append(count)
            count = total = 0
    if count and counts:
        counts[-1] += count
    elif count:
        counts.append(count)
    return tuple(counts)
