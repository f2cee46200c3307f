"""What a streaming query shows of its topics: how far it is behind, and what the gate holds back (D-250)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from heapq import nlargest
from typing import Any

import numpy as np
import numpy.typing as npt

from spark_ordered_kafka.client.topic_layouts import TopicLayouts
from spark_ordered_kafka.listed import listed
from spark_ordered_kafka.ordering import LayoutHistory, blockers

_Offsets = npt.NDArray[np.int64]

# A report is kept with every progress of a query, a hundred of them by Spark: so the worst are named, and the rest counted.
_TOPICS = 50
_PARTITIONS = 5
_HELD_BACK = 3
# Of the log: layouts that are met at once, and partitions in a line.
_LINES = 20
_STARTS = 10


@dataclass(frozen=True)
class TopicProgress:
    """A topic when a micro-batch has been planned, by partition: where that begins (``positions``), how far the gate lets it
    read (``readable``), where it ends (``reached``), and where the logs end."""

    layouts: TopicLayouts
    positions: Mapping[int, int]
    readable: Mapping[int, int]
    reached: Mapping[int, int]
    ends: Mapping[int, int]

    @cached_property
    def partitions(self) -> _Offsets:
        """The partitions, in the order of the arrays below."""
        return np.fromiter(self.ends, np.int64, len(self.ends))

    @cached_property
    def behind(self) -> _Offsets:
        """The offsets that are left behind the micro-batch."""
        return self.offsets(self.ends) - self.offsets(self.reached)

    @cached_property
    def held_back(self) -> _Offsets:
        """The offsets that the gate keeps from the micro-batch."""
        return self.offsets(self.ends) - self.offsets(self.readable)

    def most(self, offsets: _Offsets, count: int) -> list[int]:
        """The partitions with the most ``offsets``, those with none left out."""
        some = np.argsort(-offsets, kind="stable")[:count]
        return [int(p) for p in self.partitions[some[offsets[some] > 0]]]

    def offsets(self, offsets: Mapping[int, int]) -> _Offsets:
        """``offsets`` as an array."""
        return np.fromiter((offsets[p] for p in self.ends), np.int64, len(self.ends))


def report(topics: Mapping[str, TopicProgress], stalled: str | None = None) -> dict[str, Any]:
    """A JSON object of bounded size; ``stalled`` is why the query makes no progress now.

    ``minOffsetsBehindLatest``, ``maxOffsetsBehindLatest`` and ``avgOffsetsBehindLatest`` are those of Spark's own ``kafka``
    source: from the end of the micro-batch to the end of the log, over all partitions.
    """
    shown = nlargest(_TOPICS, topics, key=lambda topic: (int(topics[topic].behind.sum()), topic))
    behind = [progress.behind for progress in topics.values()]
    found: dict[str, Any] = {
        **_statistics(np.concatenate(behind) if behind else np.zeros(0, np.int64)),
        "topics": {topic: _topic(topics[topic]) for topic in sorted(shown)},
    }
    if len(shown) < len(topics):
        found["topicsNotShown"] = len(topics) - len(shown)
    if stalled is not None:
        found["noProgress"] = stalled
    return found


def _statistics(behind: _Offsets) -> dict[str, Any]:
    if not behind.size:
        return {}
    return {
        "offsetsBehindLatest": int(behind.sum()),
        "minOffsetsBehindLatest": int(behind.min()),
        "maxOffsetsBehindLatest": int(behind.max()),
        "avgOffsetsBehindLatest": round(float(behind.mean()), 1),
    }


def _topic(progress: TopicProgress) -> dict[str, Any]:
    history = progress.layouts.history
    behind, held = progress.behind, progress.held_back
    found: dict[str, Any] = {
        "layoutEpoch": history.current.epoch,
        "partitions": history.current.count,
        **_statistics(behind),
    }
    unread = _oldest_unread(history, progress)
    if unread != history.current.epoch:
        found["oldestUnreadLayoutEpoch"] = unread
    if most := progress.most(behind, _PARTITIONS):
        found["mostBehind"] = {str(p): progress.ends[p] - progress.reached[p] for p in most}
    found["partitionsHeldBack"] = int(np.count_nonzero(held))
    if found["partitionsHeldBack"]:
        found["offsetsHeldBack"] = int(held.sum())
        found["heldBack"] = {str(p): _waits(progress, p) for p in progress.most(held, _HELD_BACK)}
    return found


def _oldest_unread(history: LayoutHistory, progress: TopicProgress) -> int:
    """The oldest layout epoch of which a partition is not read to its end; the newest if there is none."""
    # A partition that no layout has seen yet is of none.
    known = progress.partitions < history.partition_count
    reached, ends = progress.offsets(progress.reached)[known], history.bounds[1:, progress.partitions[known]]
    return history.first_epoch + int((reached < ends).any(axis=1).argmax())


def _waits(progress: TopicProgress, partition: int) -> dict[str, Any]:
    """Where a partition is held back, and what it waits for."""
    history, at = progress.layouts.history, progress.readable[partition]
    found: dict[str, Any] = {"at": at, "layoutEpoch": history.epoch_of(partition, at)}
    waits = blockers(history, {**progress.positions, partition: at}, (partition,)).get(partition, [])
    found["waitsFor"] = [
        {"partition": other, "position": progress.positions.get(other, 0), "toReach": offset}
        for other, offset in waits[:_HELD_BACK]
    ]
    if len(waits) > _HELD_BACK:
        found["waitsForMore"] = len(waits) - _HELD_BACK
    return found


def layout_lines(layouts: TopicLayouts, known: int | None) -> list[str]:
    """A line for the log for each layout after epoch ``known``, of many for the newest; None: where a query begins."""
    history, topic = layouts.history, f"topic {layouts.topic!r}: "
    if known is None:
        return [f"{topic}the query begins with {_described(history, history.current.epoch)}"]
    met = [layout.epoch for layout in history.layouts if layout.epoch > known]
    left_out = len(met) - _LINES
    lines = [f"{topic}{left_out} layouts before the following ones"] if left_out > 0 else []
    return lines + [f"{topic}{_change(history, epoch)}" for epoch in met[-_LINES:]]


def _described(history: LayoutHistory, epoch: int) -> str:
    return f"layout epoch {epoch}, {history.count(epoch)} partitions"


def _change(history: LayoutHistory, epoch: int) -> str:
    """A layout, the partition count before it, and where it begins; of many partitions the first."""
    before = f", before {history.count(epoch - 1)}" if epoch > history.first_epoch else ""
    starts = history.layouts[epoch - history.first_epoch].starts
    named = listed(range(len(starts)), _STARTS, lambda p: f"{p}: {starts[p]}")
    return f"{_described(history, epoch)}{before}; it begins at {named}"
