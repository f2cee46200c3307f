"""What is gone: topics created again, records that retention removed unread, logs that an unclean election cut short."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from spark_ordered_kafka.client.layout_answers import PositionCheck, TruncationView
from spark_ordered_kafka.client.topic_layouts import TopicLayouts, TopicSnapshot
from spark_ordered_kafka.client.topics import TopicDirectory
from spark_ordered_kafka.errors import DataLossError
from spark_ordered_kafka.listed import listed
from spark_ordered_kafka.ordering import Layout, LayoutHistory
from spark_ordered_kafka.ordering.offsets import TopicOffset

_LOG = logging.getLogger(__name__)
_SHOWN = 10
_HINT = "set failOnDataLoss to false to continue without them"

Starts = Mapping[tuple[int, int], int]
"""(layout epoch, partition) -> the start that is left of it after a truncation."""


@dataclass(frozen=True)
class _Judged:
    """What was found of a topic's logs under some leader epochs: to these ``positions`` those of ``offset`` were cut."""

    topic_id: str
    leader_epochs: Mapping[int, int]
    offset: TopicOffset
    positions: Mapping[int, int]


class LossGuard:
    """Compares a reader's positions with the topics as they are now.

    With ``fail_on_data_loss`` whatever is gone raises DataLossError; without it, it is skipped with a warning, and what
    is left keeps its order.
    """

    def __init__(self, directory: TopicDirectory, fail_on_data_loss: bool) -> None:
        self._directory = directory
        self._fail = fail_on_data_loss
        # Leader epochs only change when a leader does, and without that a log is never truncated.
        self._checked: dict[str, _Judged] = {}
        self._lowered: dict[str, Starts] = {}

    def surviving(
        self, snapshot: TopicSnapshot, offset: TopicOffset
    ) -> tuple[TopicSnapshot, TopicOffset, dict[int, int]]:
        """The snapshot and the offset without what is gone, and the positions that follow from both.

        Raises UnavailableError when the controller or a leader does not answer.
        """
        offset = self._same_topic(snapshot, offset)
        positions = offset.as_mapping(snapshot.history.partition_count)
        self._skip_truncated(snapshot, offset, positions)
        # The first layout's starts are among those that a truncation lowers, and reading does not begin before them.
        snapshot = replace(snapshot, layouts=self._lower(snapshot.layouts))
        self._skip_retained(snapshot, positions)
        return snapshot, offset, positions

    def left(self, layouts: TopicLayouts, offset: TopicOffset, before: TopicOffset | None) -> dict[int, int]:
        """Where what is left begins in partitions of the micro-batch from ``before`` to ``offset``, which may be read again,
        where it begins later: behind what lay in layouts that were folded since."""
        first = layouts.history.layouts[0]
        if first.epoch == 0:
            return {}
        begun: dict[int, tuple[int, int]] = {}
        for p, low, high in offset.ranges_since(before):
            begun[p] = begun.get(p, (low, low))[0], high
        lost = {p: begin for p, (low, high) in begun.items() if low < (begin := min(first.start(p), high))}
        # Of a topic that is read for the first time, and from 0 on, nothing says that there was anything.
        known = before is not None and before.topic_id == offset.topic_id
        if any(known or p in offset.resumed for p in lost):
            ranges = [f"{layouts.topic}-{p}: offsets {begun[p][0]} to {at - 1}" for p, at in lost.items()]
            self.report(
                f"records of the micro-batch are gone, and what is known of them: {listed(ranges, _SHOWN, separator='; ')}"
            )
        return lost

    def lowered(self, layouts: TopicLayouts, partitions: Collection[int]) -> TopicLayouts:
        """The layouts as :meth:`surviving` left them, in ``partitions`` also in a process that has not judged this topic
        yet."""
        if not self._fail and layouts.topic not in self._checked and _has_starts(layouts.history):
            found = self._directory.client.truncations(layouts.topic, partitions=sorted(partitions))
            self._keep_starts(layouts.topic, found.truncations)
        return self._lower(layouts)

    def report(self, message: str) -> None:
        """Raise DataLossError, or warn."""
        if self._fail:
            raise DataLossError(f"{message} ({_HINT})")
        _LOG.warning("%s", message)

    def _same_topic(self, snapshot: TopicSnapshot, offset: TopicOffset) -> TopicOffset:
        if offset.topic_id == snapshot.topic_id:
            newest = snapshot.history.current.epoch
            if offset.layout_epoch <= newest:
                return offset
            # Layout epochs of an adoption begin at 0 (D-256).
            self.report(
                f"topic {snapshot.topic!r} was released from management and adopted again: the checkpoint knows layout epoch"
                f" {offset.layout_epoch}, and the topic is at {newest}. What was not read by then is in no order, and"
                " (layout_epoch, offset) begins anew"
            )
            # Its positions are not moved, so it may be the end of a micro-batch, which begins where it ends.
            return replace(offset, layout_epoch=newest, resumed={}, cuts={})
        self.report(
            f"topic {snapshot.topic!r} was deleted and created again: the checkpoint knows id {offset.topic_id},"
            f" the topic has {snapshot.topic_id}; it would be read from its start"
        )
        return TopicOffset.of(snapshot.topic_id, 0, snapshot.starts, snapshot.leader_epochs)

    def _skip_retained(self, snapshot: TopicSnapshot, positions: dict[int, int]) -> None:
        # A partition never read before is new: its first offset is 0 unless records were removed from it.
        gone = {p: start for p, start in snapshot.starts.items() if positions[p] < start}
        lost = {p: start for p, start in gone.items() if snapshot.layouts.may_hold(p, positions[p], start)}
        if lost:
            ranges = [f"{snapshot.topic}-{p}: offsets {positions[p]} to {s - 1}" for p, s in lost.items()]
            self.report(f"records are gone before they were read: {listed(ranges, _SHOWN, separator='; ')}")
        positions.update(gone)

    def _skip_truncated(
        self, snapshot: TopicSnapshot, offset: TopicOffset, positions: dict[int, int]
    ) -> None:
        last = self._checked.get(snapshot.topic)
        if last is not None and (last.topic_id, last.leader_epochs) == (
            snapshot.topic_id,
            snapshot.leader_epochs,
        ):
            if last.offset == offset:
                # What was planned from there has not come about, as when another topic's leader was away.
                positions.update(last.positions)
            return
        found = self._truncations(snapshot, offset, self._needed(snapshot, positions))
        cut = {one.partition: one for one in found if one.layout_epoch is None}
        for p, one in cut.items():
            positions[p] = min(positions[p], one.end_offset)
        # A layout's start that was read past is no longer needed.
        cut_starts = [
            one for one in found if one.layout_epoch is not None and one.offset > positions[one.partition]
        ]
        if cut or cut_starts:
            ranges = [
                f"{snapshot.topic}-{one.partition}: offsets {one.end_offset} to {one.offset - 1}"
                f" of leader epoch {one.leader_epoch}"
                for one in (*cut.values(), *cut_starts)
            ]
            self.report(
                f"records were lost in a leader election, and their offsets taken again: {listed(ranges, _SHOWN, separator='; ')}"
            )
        self._keep_starts(snapshot.topic, found)
        self._checked[snapshot.topic] = _Judged(
            snapshot.topic_id, snapshot.leader_epochs, offset, {p: positions[p] for p in cut}
        )

    def _truncations(
        self, snapshot: TopicSnapshot, offset: TopicOffset, needed: Collection[int]
    ) -> Sequence[TruncationView]:
        """Of what was read of partitions by leaders before the ones of now, and of layouts' starts (D-479)."""
        checks = [
            PositionCheck(partition=p, offset=at, leader_epoch=epoch)
            for p, (at, epoch) in enumerate(zip(offset.positions, offset.leader_epochs, strict=False))
            if p in needed and at > 0 and 0 <= epoch != snapshot.leader_epochs.get(p)
        ]
        if not checks and not _has_starts(snapshot.history):
            return []
        asked = None if len(needed) == snapshot.history.partition_count else sorted(needed)
        return self._directory.client.truncations(snapshot.topic, checks, asked).truncations

    def _needed(self, snapshot: TopicSnapshot, positions: Mapping[int, int]) -> set[int]:
        """The partitions that something is still read of. Of an assignment, the others are none of the reader's.

        A removed one that is read to its last start needs nothing more, whatever its log has lost: no layout writes there.
        """
        newest = snapshot.history.current
        read = {p for p in snapshot.layouts.removed if positions.get(p, 0) >= newest.start(p)}
        return snapshot.ends.keys() - snapshot.absent - (read if snapshot.layouts.ordered else set())

    def _keep_starts(self, topic: str, found: Sequence[TruncationView]) -> None:
        self._lowered[topic] = {
            (one.layout_epoch, one.partition): one.end_offset for one in found if one.layout_epoch is not None
        }

    def _lower(self, layouts: TopicLayouts) -> TopicLayouts:
        starts = {} if self._fail else self._lowered.get(layouts.topic, {})
        return replace(layouts, history=lower(layouts.history, starts)) if starts else layouts


def _has_starts(history: LayoutHistory) -> bool:
    """Whether a layout begins behind the beginning of a log: only such a start can be lost."""
    return bool(history.bounds[:-1].any())


def lower(history: LayoutHistory, starts: Starts) -> LayoutHistory:
    """The history with these starts in place of greater ones: what follows them was written after the truncation.

    A start that a layout has in common with the one before it is lowered with that one, and no earlier one is left behind
    it: the controller names a start once, for the first of the layouts that it still keeps.
    """
    bounds = history.bounds[:-1]
    lowered = bounds.copy()
    for (epoch, partition), end in starts.items():
        row = epoch - history.first_epoch
        if 0 <= row < len(lowered):
            lowered[row, partition] = min(lowered[row, partition], end)
    for row in range(1, len(lowered)):
        left = np.minimum(lowered[row], lowered[row - 1])
        lowered[row] = np.where(bounds[row] == bounds[row - 1], left, lowered[row])
    lowered = np.minimum.accumulate(lowered[::-1])[::-1]
    layouts = [
        Layout(layout.epoch, layout.count, row[: len(layout.starts)].tolist())
        for layout, row in zip(history.layouts, lowered, strict=True)
    ]
    return LayoutHistory(history.initial_count, layouts)
