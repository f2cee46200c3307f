"""Steps of a program that reads by position: data that is drawn, shrunk and printed. No I/O."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ReadStep:
    """Something that is done to topics, or a read of them."""


@dataclass(frozen=True)
class Write(ReadStep):
    """``times`` records of each key in one transaction. ``at``: their timestamp, in seconds of the program; None: now."""

    keys: tuple[int, ...]
    times: int = 1
    topic: int = 0
    at: int | None = None


@dataclass(frozen=True)
class Foreign(ReadStep):
    """Another tool writes into the partition; with ``aborted`` in a transaction that it aborts."""

    partition: int
    records: int = 1
    topic: int = 0
    aborted: bool = False


@dataclass(frozen=True)
class Change(ReadStep):
    """Change a partition count."""

    count: int
    topic: int = 0


@dataclass(frozen=True)
class Cut(ReadStep):
    """Delete the oldest records of every partition: so many percent, also unread ones of a stream that bears it."""

    percent: int
    topic: int = 0


EARLIEST, LATEST = -2, -1


@dataclass(frozen=True)
class Position:
    """Where a read starts or ends.

    Attributes:
        kind: ``earliest``, ``latest``, ``offsets``, ``time``, or ``times`` for one time per partition.
        at: of each partition in turn: percent of what it holds, :data:`EARLIEST` or :data:`LATEST`; or seconds of the
            program.
        latest: without a record as late it starts at latest; otherwise that is refused.
    """

    kind: str = "earliest"
    at: tuple[int, ...] = (0,)
    latest: bool = True

    def of(self, partition: int) -> int:
        """What ``at`` says of a partition."""
        return self.at[0 if self.kind == "time" else partition % len(self.at)]


@dataclass(frozen=True)
class Batch(ReadStep):
    """A batch read. ``unordered``: in tasks of a few offsets."""

    start: Position = Position()
    end: Position = Position("latest")
    topics: tuple[int, ...] = (0,)
    unordered: bool = False


@dataclass(frozen=True)
class Follow(ReadStep):
    """A stream begins; one before it ends.

    Attributes:
        limit: ``maxOffsetsPerTrigger``.
        share: ``minRecordsPerPartition``.
        fail: ``failOnDataLoss``.
    """

    start: Position = Position()
    topics: tuple[int, ...] = (0,)
    limit: int | None = None
    share: int | None = None
    fail: bool = True


@dataclass(frozen=True)
class Next(ReadStep):
    """Some micro-batches of the stream. ``again``: by a new reader, from its checkpoint."""

    batches: int = 1
    again: bool = False
