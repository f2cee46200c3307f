"""What callers of one topic have asked for and its sender has not done: records, commits and aborts, in their order. No I/O."""

from __future__ import annotations

from collections.abc import Sequence

from spark_ordered_kafka.client.backlog import Backlog, Chunk, CommitRequest, Queue


class Accepted:
    """Records in ``queue`` and behind it, up to their commit, and what callers have asked for.

    ``commits``, ``aborts``: requests that the sender has not begun. ``taken``: records out of the queue, up to their commit.
    Callers of every method hold the lock of ``backlog``.
    """

    def __init__(self, backlog: Backlog, queue: Queue) -> None:
        self.commits: list[CommitRequest] = []
        self.aborts: list[CommitRequest] = []
        self.taken = 0
        self._backlog = backlog
        self._queue = queue
        self._taken_since = 0.0
        # What the commits are for, until a transaction takes it: what is produced later belongs to the next one.
        self._asked: list[Chunk] = []
        # Of what was asked, chunks and commits from before the last abort, and all rows: it drops no later ones (D-340).
        self._chunks_to_drop = self._commits_to_drop = self._rows_to_drop = 0

    @property
    def pending(self) -> int:
        """Rows that are not committed."""
        return self.taken + len(self._queue)

    @property
    def kept(self) -> int:
        """Those of them that no abort is about to drop."""
        return self.pending - self._rows_to_drop

    @property
    def oldest(self) -> float:
        """When the first pending row was accepted."""
        return self._taken_since if self.taken else self._queue.since

    @property
    def oldest_kept(self) -> float | None:
        """When the first row was accepted that no abort is about to drop, None without any."""
        if not self._rows_to_drop:
            return self.oldest if self.pending else None
        asked = self._asked[self._chunks_to_drop :]
        since = asked[0].since if asked else self._queue.since
        return since if self.kept else None

    def cut(self) -> None:
        """End a chunk with what is queued by now."""
        if len(self._queue) > 0:
            self._taken_since = self.oldest
            self.taken += len(self._queue)
            self._asked.append(self._backlog.take(self._queue))

    def drop(self) -> None:
        """Mark what is taken, and the commits that were asked for, for the next abort."""
        self._chunks_to_drop, self._commits_to_drop = len(self._asked), len(self.commits)
        self._rows_to_drop = self.taken

    def take(self) -> list[Chunk]:
        """What the transaction may take: what is queued, but for what follows a request to commit."""
        if not self.commits:
            self.cut()
        chunks, self._asked = self._asked, []
        return chunks

    def take_commits(self) -> list[CommitRequest]:
        """The commits that the sender begins with what it has taken."""
        commits, self.commits = self.commits, []
        return commits

    def take_dropped(self) -> tuple[list[CommitRequest], list[Chunk], list[CommitRequest]]:
        """The aborts, and the chunks and commits that they drop."""
        aborts, self.aborts = self.aborts, []
        chunks, commits = self._asked[: self._chunks_to_drop], self.commits[: self._commits_to_drop]
        del self._asked[: self._chunks_to_drop], self.commits[: self._commits_to_drop]
        self._chunks_to_drop = self._commits_to_drop = 0
        return aborts, chunks, commits

    def put_back(self, commits: Sequence[CommitRequest]) -> None:
        """Begin these commits again, before all others: a part of what they are for is left."""
        self.commits[:0] = commits
        if self.aborts:
            self._commits_to_drop += len(commits)

    def settle(self, rows: int, rest: Sequence[Chunk]) -> None:
        """Count ``rows`` as committed or given up; ``rest`` is still in the transaction."""
        self.taken -= rows
        self._rows_to_drop = max(0, self._rows_to_drop - rows)
        if waiting := [*rest, *self._asked]:
            self._taken_since = waiting[0].since
