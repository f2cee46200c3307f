"""How far an ordered consumer has got with one partition, and how far it may go. No I/O."""

from __future__ import annotations

from dataclasses import dataclass, replace

from spark_ordered_kafka.ordering.handover import LastRead, Release


@dataclass
class Progress:
    """One assigned partition; every offset is that of a next record.

    Attributes:
        position: the next record to be delivered.
        committed: what the group has committed.
        opened: layout epoch whose keys the application knows to be here.
        received: behind the last record taken from librdkafka.
        validated: records below it lie in layouts that are known.
        limit: records below it may be delivered; behind ``validated`` where the gate is closed.
        end: the log's end, when it was met last; -1 if it was not met since reading began here.
        dropped: the first record beyond the closed gate, which will be fetched again; None if there is none.
        pending: records received and not delivered yet.
        following: the offset of the first of them.
        dirty: whether something was delivered and not committed.
        paused: whether the gate, or a layout that is not known, keeps librdkafka from fetching.
        stopped: whether the application has paused it.
        stored: records below it are processed (``store_offsets``); None if the application has not said so.
        last: of the last record delivered, as far as it is known.
        is_let_go: whether the application let go of keys that are still here.
        lost_from: all that was delivered before what was lost lies below it.
        lost_to: what lies between there and here was lost (see :class:`Release`).
        is_cut: whether the group's offset lies behind a truncation, so that it has to be committed anew.
    """

    position: int
    committed: Release
    opened: int
    received: int
    validated: int = 0
    limit: int = 0
    end: int = -1
    dropped: int | None = None
    pending: int = 0
    following: int = 0
    dirty: bool = False
    paused: bool = False
    stopped: bool = False
    stored: int | None = None
    last: LastRead | None = None
    is_let_go: bool = False
    lost_from: int = 0
    lost_to: int = 0
    is_cut: bool = False

    @classmethod
    def starting(cls, position: int, committed: Release, opened: int) -> Progress:
        """Of a partition from which nothing was delivered yet."""
        return cls(
            position,
            committed,
            opened,
            received=position,
            validated=position,
            limit=position,
            lost_from=position,
            lost_to=committed.lost_to,
            last=committed.last,
        )

    @property
    def reached(self) -> int:
        """Below it no record is left to deliver: the position, or what markers, gaps and dropped records follow it."""
        ahead = (self.following,) if self.pending else (self.received, self.end)
        return max(self.position, *ahead)

    @property
    def is_at_end(self) -> bool:
        """Whether the log's end was met, and nothing is left to deliver before it."""
        return self.pending == 0 and self.end >= self.received and not self.paused and not self.stopped

    @property
    def is_gated(self) -> bool:
        """Whether a paused partition waits for its gate; else the layout of what was dropped was not known."""
        return self.received < self.validated

    def cut(self, end: int) -> None:
        """The log was truncated to ``end``, below what was received of it: continue there (D-099)."""
        self.position = min(self.position, end)
        self.is_cut = self.is_cut or self.committed.offset > end
        self.committed = replace(self.committed, offset=min(self.committed.offset, end))
        if self.stored is not None:
            self.stored = min(self.stored, end)
        self.last = None if self.last is None else self.last.up_to(end)
        self.dirty = self.position > self.committed.offset
        self.read_anew(end)

    def read_anew(self, offset: int) -> None:
        """From here on the log may have other records by now: whatever was known of them is forgotten."""
        self.received = self.validated = self.limit = offset
        self.end, self.pending, self.following, self.dropped = -1, 0, 0, None

    def skip_deleted(self, begin: int) -> None:
        """The log begins at ``begin`` by now, behind what was received of it; of that nothing is left to deliver."""
        self.received, self.dropped = begin, None
        self.lose(begin)

    def lose(self, end: int) -> None:
        """What lies between what was delivered and ``end`` was lost."""
        self.lost_from, self.lost_to = self.position, max(self.lost_to, end)

    def lost_behind(self, offset: int) -> int:
        """:attr:`lost_to`, for a commit of ``offset``; 0 where it leaves something before what was lost unprocessed."""
        return self.lost_to if offset >= self.lost_from else 0

    def receive(self, first: int, last: int, count: int) -> None:
        """Take ``count`` records, the offsets of the first and the last of which are given."""
        if self.pending == 0:
            self.following = first
        self.received = last + 1
        self.pending += count
        self.dropped = None

    def close_gate(self, pending: int, dropped: int) -> None:
        """What was received from ``dropped`` on has been dropped; ``pending`` records before it are left.

        It may lie before the limit, which is where the gate is, and not what was received (D-455).
        """
        self.pending, self.dropped = pending, dropped
        self.received, self.end = min(self.limit, dropped), -1

    def forget_pending(self) -> None:
        """What was received and not delivered has been dropped."""
        if self.pending:
            self.received, self.end, self.pending = self.reached, -1, 0

    def move(self, offset: int, opened: int) -> None:
        """Go to another offset, up to which the application knows the keys of layout epoch ``opened``."""
        # What it let go of where it goes back over a boundary comes again.
        self.is_let_go = self.is_let_go or opened < self.opened
        self.opened = min(self.opened, opened)
        self.position = self.received = offset
        self.last = None if self.last is None else self.last.up_to(offset)
        self.end, self.pending, self.dropped, self.stored = -1, 0, None, None
        self.dirty = offset > self.committed.offset
