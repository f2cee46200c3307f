"""How far an ordered consumer has got with the partitions of a topic, and how far it may go. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from spark_ordered_kafka.client.partition_progress import Progress
from spark_ordered_kafka.client.topic_layouts import TopicLayouts
from spark_ordered_kafka.ordering import blockers, readable
from spark_ordered_kafka.ordering.handover import Release, gains, is_due, leaves, released

# Behind every offset there is.
_BEYOND = 2**62


class TopicProgress:
    """The assigned partitions of one topic, and what the group's other members have let go.

    Args:
        layouts: the topic's layouts.
        own: the assigned partitions.
        group: what the group has committed, by partition.
        since: the newest layout epoch when the group began to read the topic.
        keeps_state: whether the application has a listener for keys that come and go. Then even its own partitions
            wait for each other's commits; otherwise what was delivered to it came in order (D-095).
    """

    def __init__(
        self,
        layouts: TopicLayouts,
        own: dict[int, Progress],
        group: Mapping[int, Release],
        since: int,
        keeps_state: bool,
    ) -> None:
        self.layouts = layouts
        self.own = own
        self.since = since
        self._keeps_state = keeps_state
        self._group = dict(group)
        self._is_open = False
        self._unreleased: set[int] = set()
        self.follow(layouts)

    @property
    def epoch(self) -> int:
        """The newest layout epoch that is known."""
        return self.layouts.history.current.epoch

    def follow(self, layouts: TopicLayouts) -> None:
        """Use newer layouts from now on."""
        self.layouts = layouts
        self._is_open = False
        self._unreleased = {p for p in self.own if self._is_unreleased(p)}

    def add(self, joined: TopicProgress) -> None:
        """Take up more partitions of the topic, which have just been joined."""
        self.own |= joined.own
        self.learn(joined._group)
        self.follow(joined.layouts)

    def learn(self, group: Mapping[int, Release]) -> None:
        """What the group has committed by now."""
        self._group.update(group)

    # -- the gate -----------------------------------------------------------------------------------------------

    def gate(self) -> None:
        """Set the limits. The layouts must have been asked for after what is validated was seen."""
        if self._is_open or not self.layouts.ordered:
            for progress in self.own.values():
                progress.limit = max(progress.limit, progress.validated)
            return
        newest, positions = self.layouts.history.current, self._released()
        # Asked for a record of the newest layout that need not be there yet: a gate may be closed before an empty segment,
        # and before the rest of one whose first records retention has deleted (D-463).
        ends = {
            p: max(progress.validated, newest.start(p) + 1, positions[p] + 1)
            for p, progress in self.own.items()
        }
        allowed = readable(self.layouts.history, positions, ends)
        for p, progress in self.own.items():
            progress.limit = max(progress.limit, min(allowed[p], progress.validated))
        # An open segment stays open, so that until the next layout there is nothing to compute.
        self._is_open = allowed == ends

    def blocked(self) -> list[int]:
        """The assigned partitions that the gate holds back."""
        if self._is_open:
            return []
        return [p for p, progress in self.own.items() if progress.limit < progress.validated]

    def waits(self) -> dict[int, list[tuple[int, int]]]:
        """For each blocked partition those it waits for, its own or others', and the offsets they must reach."""
        stopped = {p: self.own[p].limit for p in self.blocked()}
        if not stopped:
            return {}
        waits = blockers(self.layouts.history, {**self._released(), **stopped})
        return {p: waits[p] for p in stopped if p in waits}

    def opens_with_delivery(self) -> bool:
        """Whether a gate opens once what was received is delivered, and committed where the application keeps state."""
        blocked = self.blocked()
        if not blocked or not any(progress.pending for progress in self.own.values()):
            return False
        limits = {p: progress.limit for p, progress in self.own.items()}
        ends = {p: self.own[p].validated for p in blocked}
        history = self.layouts.history
        allowed = readable(history, {**released(history, self._group), **limits}, ends)
        return any(allowed[p] > limits[p] for p in blocked)

    def awaited(self) -> set[int]:
        """The partitions of other members that blocked ones wait for."""
        return {q for needed in self.waits().values() for q, _ in needed} - self.own.keys()

    def unclaimed(self) -> list[int]:
        """Partitions that no member has taken up yet."""
        known = range(self.layouts.history.partition_count)
        return [p for p in known if p not in self._group and p not in self.own]

    def _released(self) -> dict[int, int]:
        own = {
            p: progress.committed if self._keeps_state else self.release(p)
            for p, progress in self.own.items()
        }
        return released(self.layouts.history, {**self._group, **own})

    # -- seeking ------------------------------------------------------------------------------------------------

    def overtaken(self, partition: int, offset: int) -> dict[int, int]:
        """The partitions that were read further than they may be while ``partition`` is at ``offset``.

        With the offset to which each has to go back, those of later layouts first. What other members have read of theirs is
        not known, only whether this one has let them.
        """
        history = self.layouts.history
        begun = history.epoch_of(partition, offset)
        has_let_go = self.own[partition].committed.level(history, partition) > begun
        if not self.layouts.ordered:
            return {}
        beyond = dict.fromkeys(range(history.partition_count), _BEYOND)
        found: dict[int, int] = {}
        for epoch in range(max(begun, history.first_epoch) + 1, self.epoch + 1):
            read = {
                q: history.start(epoch, q)
                for q in range(history.count(epoch))
                if q != partition and self._was_read(q, epoch, has_let_go)
            }
            waits = blockers(history, {**beyond, **read, partition: offset})
            for q in read.keys() & waits.keys() - found.keys():
                if any(other == partition for other, _ in waits[q]):
                    found[q] = read[q]
        return dict(reversed(found.items()))

    def _was_read(self, partition: int, epoch: int, has_let_go: bool) -> bool:
        history = self.layouts.history
        start = history.start(epoch, partition)
        if epoch < self.epoch and history.start(epoch + 1, partition) == start:
            return False
        return self.own[partition].position > start if partition in self.own else has_let_go

    def move(self, partition: int, offset: int) -> None:
        """Go to another offset in a partition, which :meth:`overtaken` allows; what was fetched is forgotten."""
        for p, progress in self.own.items():
            if p != partition:
                progress.forget_pending()
                progress.limit = progress.received
        self.own[partition].move(offset, opened_before(self.layouts, partition, offset))
        self.own[partition].limit = offset
        self._is_open = False

    def cut(self, partition: int, end: int, high: int) -> None:
        """A log was truncated to ``end``, and ends at ``high`` by now.

        Only a boundary that it does not reach is given up: another layout may begin before where the log ended once.
        """
        progress, start = self.own[partition], self.layouts.history.current.start(partition)
        is_lost = high < start <= progress.received
        progress.cut(end)
        if is_lost:
            progress.lose(start)
        self._is_open = False

    def read_anew(self, partition: int, low: int) -> None:
        """A log, which begins at ``low``, may have other records behind the position by now."""
        progress = self.own[partition]
        progress.read_anew(max(progress.position, low))
        self._is_open = False

    # -- commits ------------------------------------------------------------------------------------------------

    def release(self, partition: int, offset: int | None = None) -> Release:
        """What to commit once everything below ``offset`` (by default all that was delivered) is processed."""
        progress = self.own[partition]
        if offset is None or offset == progress.position:
            offset = max(progress.reached, progress.committed.offset)
        last = None if progress.last is None else progress.last.up_to(offset)
        lost_to = progress.lost_behind(offset)
        return Release(offset, self.epoch, self.since, lost_to, last, self.layouts.topic_id)

    def in_order(self, releases: Mapping[int, Release]) -> dict[int, Release]:
        """The releases, cut back to where a successor would not get a key's later records before its earlier ones."""
        if self._keeps_state or not self.layouts.ordered or not self._unreleased:
            return dict(releases)
        committed = {p: release.reached for p, release in self._group.items()}
        committed |= {
            p: max(own.committed.reached, own.lost_behind(own.committed.offset))
            for p, own in self.own.items()
        }
        while True:
            # As a reader would read on from what is committed: each round may open what the next one reads.
            ends = {p: max(release.reached, committed[p]) for p, release in releases.items()}
            reached = readable(self.layouts.history, committed, ends)
            if all(committed[p] == offset for p, offset in reached.items()):
                return {p: _cut_back(releases[p], offset) for p, offset in reached.items()}
            committed |= reached

    def uncommitted(self) -> dict[int, Release]:
        """The releases that go beyond what is committed."""
        found = {p: self.release(p) for p in self.own}
        return {
            p: release
            for p, release in found.items()
            if release.offset != self.own[p].committed.offset
            or release.lost_to != self.own[p].committed.lost_to
            or self.own[p].is_cut
            or p in self._unreleased
        }

    def due(self) -> list[int]:
        """Partitions whose commit would let go of keys that others may wait for."""
        if not self._unreleased:
            return []
        history = self.layouts.history
        return [p for p in self._unreleased if is_due(history, p, self.own[p].committed, self.release(p))]

    def leaving(self, releases: Mapping[int, Release]) -> list[int]:
        """The partitions of these commits from which keys go to others."""
        history, ordered = self.layouts.history, self.layouts.hands_over
        return [
            p
            for p, release in releases.items()
            if leaves(history, p, self.own[p].committed, release, ordered)
        ]

    def committed(self, releases: Mapping[int, Release]) -> None:
        """These commits were done."""
        for p, release in releases.items():
            progress = self.own[p]
            progress.committed, progress.is_cut = release, False
            progress.dirty = progress.position > release.offset
            if progress.stored is not None and progress.stored <= release.offset:
                progress.stored = None
            if self._is_unreleased(p):
                # Also one that went back over a boundary.
                self._unreleased.add(p)
            else:
                self._unreleased.discard(p)

    def _is_unreleased(self, partition: int) -> bool:
        return self.own[partition].committed.level(self.layouts.history, partition) < self.epoch

    # -- delivery -----------------------------------------------------------------------------------------------

    def opens(self, partition: int, epoch: int) -> bool:
        """Whether records of ``epoch`` may have keys that the application does not know to be in ``partition``."""
        layouts = self.layouts
        return gains(layouts.history, partition, self.own[partition].opened, epoch, layouts.hands_over)


def _cut_back(release: Release, reached: int) -> Release:
    if reached == release.reached:
        return release
    return replace(release, offset=min(release.offset, reached), lost_to=0)


def progress_of(
    topics: Mapping[str, TopicProgress], topic: str | None, partition: int | None
) -> Progress | None:
    """That of an assigned partition; None of any other, and of no partition at all."""
    if topic is None or partition is None or topic not in topics:
        return None
    return topics[topic].own.get(partition)


def opened_before(layouts: TopicLayouts, partition: int, position: int) -> int:
    """The layout epoch whose keys an application that starts at ``position`` learns of by its assignment.

    At the very start of a segment no record of it has been read: it is still to be opened.
    """
    history = layouts.history
    epoch = history.epoch_of(partition, position)
    while epoch >= max(history.first_epoch, 1) and history.start(epoch, partition) == position:
        epoch -= 1
    return epoch


def oldest_since(group: Iterable[Release], newest: int) -> int:
    """The layout epoch when the group began to read, ``newest`` if it has not yet."""
    # One that knows later epochs is from before the topic was released and adopted again, and its group older than all layouts.
    known = (0 if release.layout_epoch > newest else release.since for release in group)
    return min(known, default=newest)
