"""Steps of a Spark program, as those of plain clients in ``steps.py``: data that is drawn, shrunk and printed. No I/O."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, fields

SOURCE, SECOND, OUT, OUT2 = "a", "b", "out", "out2"

SINKS = ("sink", "column")
"""Queries that write by the streaming sink: to one topic, or to the one that the column ``topic`` names."""
IN_FUNCTION = ("one", "each", "halves", "batch column")
"""Queries that write in ``foreachBatch``: once; twice to one topic; twice, a half to each topic; once, by the column."""

RAISING = ("task fails", "worker dies", "function fails")
PAUSING = ("is stopped", "topic changes", "starts again", "driver dies", "another driver")
"""What happens while a task waits in the middle of its rows."""
ELSEWHERE = ("driver dies", "another driver")
"""What needs a driver process of its own, and many seconds."""
OPTIONS = ("spills", "group", "waits for more", "no misrouted", "timestamps", "small Arrow batches")


@dataclass(frozen=True)
class Job:
    """A query that copies topics. ``named``: its writes have the option ``writer``.

    ``reads``: ``one`` for ``a``, ``two`` for ``a`` and ``b``, ``pattern`` for both by ``subscribePattern``.
    """

    kind: str = "sink"
    named: bool = True
    headers: bool = False
    reads: str = "one"

    @property
    def sources(self) -> tuple[str, ...]:
        """The topics that it reads."""
        return (SOURCE,) if self.reads == "one" else (SOURCE, SECOND)

    @property
    def targets(self) -> tuple[str, ...]:
        """The topics that it writes to."""
        return (OUT, OUT2) if self.kind in ("column", "halves", "batch column") else (OUT,)

    @property
    def is_exact(self) -> bool:
        """Whether it is exactly-once; at least once otherwise."""
        return self.named or self.kind in SINKS

    def places(self, key: str | None) -> tuple[tuple[str, str], ...]:
        """Where records of a key are written: topic, and what is put before the value."""
        if self.kind == "each":
            return ((OUT, ""), (OUT, "b"))
        if len(self.targets) == 1:
            return ((OUT, ""),)
        return ((self.targets[zlib.crc32(key.encode()) % 2 if key is not None else 0], ""),)


@dataclass(frozen=True)
class SparkStep:
    """Something that is done to the query, its topics or its checkpoint."""

    def code(self) -> str:
        """Python."""
        raise NotImplementedError

    def __str__(self) -> str:
        shown = ", ".join(f"{getattr(self, one.name)!r}" for one in fields(self))
        return f"{type(self).__name__}({shown})"


@dataclass(frozen=True)
class Write(SparkStep):
    """Write a record for each key to a source, ``times`` over; one that was dropped is created again first."""

    keys: tuple[str | None, ...]
    times: int = 1
    topic: str = SOURCE

    def code(self) -> str:
        return f"use.fill({list(self.keys)!r}{f' * {self.times}' if self.times > 1 else ''}, {self.topic!r})"


@dataclass(frozen=True)
class Run(SparkStep):
    """Run the query until it has read what there is, or something ends it.

    Attributes:
        tasks: how rows come to tasks: ``as read``, ``repartition N``, ``coalesce N``, or ``adaptive`` for a repartition
            without a number and adaptive execution.
        limit: ``maxOffsetsPerTrigger``.
        share: ``minRecordsPerPartition``.
        fail: ``failOnDataLoss``.
        event: one of :data:`RAISING` and :data:`PAUSING`, in the first task that has more than ``at`` rows; of the user's
            function: before its write number ``at``.
        topic: that changes to ``count`` partitions meanwhile.
        shared: both writes of the function get one name.
        unordered: ``ordering=none``, with tasks of a few offsets.
        more: one of :data:`OPTIONS`, which change nothing that is promised.
        accept: ``acceptReplayMismatch`` as the last error said.
    """

    tasks: str = "as read"
    trigger: str = "availableNow"
    limit: int | None = None
    share: int | None = None
    fail: bool = True
    event: str = ""
    at: int = 0
    topic: str = ""
    count: int = 0
    shared: bool = False
    accept: bool = False
    unordered: bool = False
    more: str = ""

    @property
    def division(self) -> tuple[str, bool]:
        """What decides which rows a task gets."""
        return self.tasks, self.unordered

    def code(self) -> str:
        default = Run()
        given = [one.name for one in fields(self) if getattr(self, one.name) != getattr(default, one.name)]
        return f"use.run_query({', '.join(f'{name}={getattr(self, name)!r}' for name in given)})"


@dataclass(frozen=True)
class Change(SparkStep):
    """Change a topic's partition count between two runs."""

    topic: str
    count: int

    def code(self) -> str:
        return f"use.change_topic({self.topic!r}, {self.count})"


@dataclass(frozen=True)
class Delete(SparkStep):
    """Delete the older records of a source: so many percent of each partition."""

    percent: int
    topic: str = SOURCE

    def code(self) -> str:
        return f"use.delete_older({self.percent}, {self.topic!r})"


@dataclass(frozen=True)
class Drop(SparkStep):
    """Delete a source; the next step that needs it creates it again."""

    topic: str = SECOND

    def code(self) -> str:
        return f"use.drop_topic({self.topic!r})"


@dataclass(frozen=True)
class Read(SparkStep):
    """A batch read of a topic."""

    topic: str

    def code(self) -> str:
        return f"use.read({self.topic!r})"


CHECKPOINT = {
    "forget commit": "use.checkpoint.forget_commit()",
    "copy": "use.checkpoint.copy()",
    "restore": "use.checkpoint.restore()",
    "newest": "use.checkpoint.put_back_newest()",
    "delete": "use.delete_checkpoint()",
    "delete and keep writer": "use.delete_checkpoint(keep_writer=True)",
    "rename writer": "use.rename_writer()",
    "rename as told": "use.rename_writer(as_told=True)",
}


@dataclass(frozen=True)
class Tamper(SparkStep):
    """One of :data:`CHECKPOINT`."""

    what: str

    def code(self) -> str:
        return CHECKPOINT[self.what]


@dataclass(frozen=True)
class SparkProgram:
    """A job, and what happens to it in turn."""

    job: Job
    steps: tuple[SparkStep, ...]
