"""Handing keys over between the members of a consumer group, by what the group has committed.

A member commits with every offset the newest layout epoch that it knew (:class:`Release`): "below this offset everything
is processed, and whatever the layouts up to that epoch take away from this partition, I have let go". It plays the part
of KIP-253's ConsumerGroupPosition: other members open their new segments by it. An offset alone would not do (D-094).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from spark_ordered_kafka.json_texts import json_value
from spark_ordered_kafka.ordering.layout import OPEN_END, LayoutHistory
from spark_ordered_kafka.ordering.tombstones import vacated

UNKNOWN_EPOCH = -1
"""Layout epoch of an offset that something else than an ordered consumer committed: nothing was let go."""

_Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class LastRead:
    """Behind the last record read, and the leader epoch that it was written under (KIP-320)."""

    offset: int
    leader_epoch: int

    def up_to(self, offset: int) -> LastRead:
        """What is known of the log before ``offset``: later leaders have kept it."""
        return LastRead(min(self.offset, offset), self.leader_epoch)

    def is_kept_by(self, offset: int, leader_epoch: int | None) -> bool:
        """Whether a log that has a record with these still has all that was read.

        A log that has what one leader wrote has all that this leader had before it (KIP-101), and this leader had what was read.
        """
        return offset >= self.offset and leader_epoch == self.leader_epoch


@dataclass(frozen=True)
class Release:
    """A committed offset. ``since`` is the newest layout epoch when the group began to read the topic.

    ``lost_to``: what lay between the offset and this one was lost, and no member waits for it. What is written there later
    is read all the same, so the offset stays at the log's end (D-099). ``last``: by which a truncation below the offset is
    known, if it is known; markers and gaps may lie between there and the offset, of later leaders, too (D-375). ``topic_id``: of
    the topic that was read, if it is known; another one of that name has other records (D-431).
    """

    offset: int
    layout_epoch: int = UNKNOWN_EPOCH
    since: int = 0
    lost_to: int = 0
    last: LastRead | None = field(default=None, compare=False)
    topic_id: str | None = field(default=None, compare=False)

    @property
    def reached(self) -> int:
        """Below it nothing is waited for."""
        return max(self.offset, self.lost_to)

    def is_of(self, topic_id: str | None) -> bool:
        """Whether the offset counts for the topic of that id. Where either id is not known, it does."""
        return None in (topic_id, self.topic_id) or self.topic_id == topic_id

    def metadata(self) -> str:
        """The metadata to commit with the offset."""
        said: dict[str, int | str] = {"layout_epoch": self.layout_epoch, "since": self.since}
        if self.lost_to > self.offset:
            said["lost_to"] = self.lost_to
        if self.last is not None and self.last.offset < self.offset:
            said["read_to"] = self.last.offset
        if self.topic_id is not None:
            said["topic_id"] = self.topic_id
        return json.dumps(said, separators=(",", ":"))

    @classmethod
    def parse(cls, offset: int, metadata: str | None, leader_epoch: int | None = None) -> Release:
        """The inverse of :meth:`metadata`; of anything else the layout epoch is unknown."""
        last = None if leader_epoch is None else LastRead(offset, leader_epoch)
        try:
            said = json_value(metadata or "")
        except ValueError:
            return cls(offset, last=last)
        if not isinstance(said, dict):
            return cls(offset, last=last)
        names = {"layout_epoch": None, "since": None, "lost_to": 0, "read_to": offset}
        numbers: tuple[Any, ...] = tuple(said.get(name, default) for name, default in names.items())
        # Anybody who may commit for the group may have written it.
        if not all(type(one) is int and UNKNOWN_EPOCH <= one <= OPEN_END for one in numbers):
            return cls(offset, last=last)
        layout_epoch, since, lost_to, read_to = numbers
        last = None if last is None else last.up_to(read_to)
        topic_id = said.get("topic_id")
        return cls(
            offset, layout_epoch, since, lost_to, last, topic_id if isinstance(topic_id, str) else None
        )

    def level(self, history: LayoutHistory, partition: int) -> int:
        """The epoch whose keys the committer holds at most: those of all earlier ones were let go."""
        return max(min(history.epoch_of(partition, self.reached), self.layout_epoch), 0)


def released(history: LayoutHistory, releases: Mapping[int, Release]) -> dict[int, int]:
    """Positions for the gate: a partition whose boundary is reached but not let go counts as just before it."""
    newest = history.current.epoch
    positions = {}
    for partition, release in releases.items():
        positions[partition] = release.reached
        if release.layout_epoch < newest:
            level = release.level(history, partition)
            if level < history.epoch_of(partition, release.reached):
                boundary = history.start(level + 1, partition)
                positions[partition] = min(release.reached, max(boundary - 1, 0))
    return positions


def is_due(history: LayoutHistory, partition: int, before: Release, after: Release) -> bool:
    """Whether committing ``after`` lets go of more layouts than ``before`` did, so that others may wait for it."""
    return after.level(history, partition) > before.level(history, partition)


def leaves(
    history: LayoutHistory,
    partition: int,
    before: Release,
    after: Release,
    ordered: Callable[[int], bool] = lambda _: True,
) -> bool:
    """Whether keys whose records were read from ``partition`` are let go by committing ``after``.

    ``ordered`` says whether an epoch has ordered delivery: without, no keys are handed over (KIP-253), and where it
    begins again, every key may have lain anywhere. Of a folded epoch that is not known any more, so it may be (D-011).
    """
    return any(
        ordered(max(epoch + 1, history.first_epoch))
        and (
            epoch < history.first_epoch
            or (
                history.start(epoch + 1, partition) > 0
                and (
                    not ordered(epoch)
                    or (partition < history.count(epoch) and _moves(history, epoch, epoch + 1)[partition])
                )
            )
        )
        for epoch in range(before.level(history, partition), after.level(history, partition))
    )


def gains(
    history: LayoutHistory,
    partition: int,
    since: int,
    epoch: int,
    ordered: Callable[[int], bool] = lambda _: True,
) -> bool:
    """Whether records of ``partition`` under ``epoch`` may have keys that it did not have under ``since``.

    ``ordered`` is as in :func:`leaves`.
    """
    return ordered(epoch) and any(
        later <= history.first_epoch
        or (
            partition < history.count(later)
            and ordered(later)
            and (not ordered(later - 1) or _moves(history, later, later - 1)[partition])
        )
        for later in range(max(since, 0) + 1, epoch + 1)
    )


def _moves(history: LayoutHistory, epoch: int, other: int) -> _Bools:
    """Which partitions of ``epoch`` have keys that lie elsewhere under ``other``, be that earlier or later."""
    return _vacated(history.initial_count, history.count(epoch), history.count(other))


_vacated = lru_cache(maxsize=256)(vacated)
