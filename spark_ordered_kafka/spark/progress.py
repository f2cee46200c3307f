"""What a streaming query shows of its topics: how far it is behind, and what the gate holds back (D-250)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from heapq import nlargest
from typing import Any

import numpy as np

from spark_ordered_kafka.client.topics import TopicLayouts
from spark_ordered_kafka.ordering import LayoutHistory, blockers

# A report is kept with every progress of a query, a hundred of them by Spark: so the worst are named, and the rest counted.
_TOPICS = 50
_PARTITIONS = 5
_HELD_BACK = 3


@dataclass(frozen=True)
class TopicProgress:
    """A topic when a micro-batch has been planned, by partition: where that begins (``positions``), how far the gate lets it
    read (``readable``), where it ends (``reached``), and where the logs end."""

    layouts: TopicLayouts
    positions: Mapping[int, int]
    readable: Mapping[int, int]
    reached: Mapping[int, int]
    ends: Mapping[int, int]

    def behind(self) -> dict[int, int]:
        """By partition the offsets that are left behind the micro-batch."""
        return {p: end - self.reached[p] for p, end in self.ends.items()}

    def held_back(self) -> dict[int, int]:
        """The partitions that the gate does not let read to their ends, with the offsets that it keeps from the micro-batch."""
        return {p: end - self.readable[p] for p, end in self.ends.items() if self.readable[p] < end}


def report(topics: Mapping[str, TopicProgress], stalled: str | None = None) -> dict[str, Any]:
    """A JSON object of bounded size; ``stalled`` is why the query makes no progress now.

    ``minOffsetsBehindLatest``, ``maxOffsetsBehindLatest`` and ``avgOffsetsBehindLatest`` are those of Spark's own ``kafka``
    source: from the end of the micro-batch to the end of the log, over all partitions.
    """
    behind = {topic: progress.behind() for topic, progress in topics.items()}
    totals = {topic: sum(offsets.values()) for topic, offsets in behind.items()}
    shown = nlargest(_TOPICS, topics, key=lambda topic: (totals[topic], topic))
    found: dict[str, Any] = {
        **_statistics(offset for offsets in behind.values() for offset in offsets.values()),
        "topics": {topic: _topic(topics[topic], behind[topic]) for topic in sorted(shown)},
    }
    if len(shown) < len(topics):
        found["topicsNotShown"] = len(topics) - len(shown)
    if stalled is not None:
        found["noProgress"] = stalled
    return found


def _statistics(offsets_behind: Iterable[int]) -> dict[str, Any]:
    found = list(offsets_behind)
    if not found:
        return {}
    return {
        "offsetsBehindLatest": sum(found),
        "minOffsetsBehindLatest": min(found),
        "maxOffsetsBehindLatest": max(found),
        "avgOffsetsBehindLatest": round(sum(found) / len(found), 1),
    }


def _topic(progress: TopicProgress, behind: Mapping[int, int]) -> dict[str, Any]:
    history = progress.layouts.history
    most = nlargest(_PARTITIONS, (p for p, offsets in behind.items() if offsets), key=lambda p: behind[p])
    held = progress.held_back()
    found: dict[str, Any] = {
        "layoutEpoch": history.current.epoch,
        "partitions": history.current.count,
        **_statistics(behind.values()),
    }
    unread = oldest_unread(history, progress.reached)
    if unread != history.current.epoch:
        found["oldestUnreadLayoutEpoch"] = unread
    if most:
        found["mostBehind"] = {str(p): behind[p] for p in most}
    found["partitionsHeldBack"] = len(held)
    if held:
        found["offsetsHeldBack"] = sum(held.values())
        waiting = nlargest(_HELD_BACK, held, key=lambda p: held[p])
        found["heldBack"] = {str(p): _waits(progress, p) for p in sorted(waiting)}
    return found


def oldest_unread(history: LayoutHistory, positions: Mapping[int, int]) -> int:
    """The oldest layout epoch of which a partition in ``positions`` is not read to its end; the newest if there is none."""
    partitions = [p for p in positions if p < history.partition_count]
    reached = np.array([positions[p] for p in partitions], dtype=np.int64)
    unread = (reached < history.bounds[1:, partitions]).any(axis=1)
    return history.first_epoch + int(unread.argmax())


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
    """A line for the log for each layout after epoch ``known``; None: only for the newest, where a query begins."""
    history = layouts.history
    if known is None:
        return [
            f"topic {layouts.topic!r}: the query begins with {_described(history, history.current.epoch)}"
        ]
    met = [layout.epoch for layout in history.layouts if layout.epoch > known]
    return [
        f"topic {layouts.topic!r}: {_described(history, epoch)}{_change(history, epoch)}" for epoch in met
    ]


def _described(history: LayoutHistory, epoch: int) -> str:
    return f"layout epoch {epoch}, {history.count(epoch)} partitions"


def _change(history: LayoutHistory, epoch: int) -> str:
    layout = history.layouts[epoch - history.first_epoch]
    before = f", before {history.count(epoch - 1)}" if epoch > history.first_epoch else ""
    return f"{before}; it begins at {starts_shown(layout.starts, range(len(layout.starts)))}"


def starts_shown(starts: Collection[int], partitions: Iterable[int]) -> str:
    """``0: 120, 1: 98``; of many the first."""
    named = [f"{p}: {start}" for p, start in zip(partitions, starts, strict=True)]
    more = f" and {len(named) - 10} more" if len(named) > 10 else ""
    return ", ".join(named[:10]) + more
