"""What a producer has accepted and not committed: bounded over all its topics, and what callers wait for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from spark_ordered_kafka.kafka.producer import Row
from spark_ordered_kafka.kafka.sent_offsets import TransactionOffsets

SMALL_BYTES = 4096
"""Records up to this size are accepted without the lock, as far as there is room for as many of this size."""
_STEP = 1_000


@dataclass(frozen=True)
class Extra:
    """Stands for the value of a record that has more than key and value. ``size``: bytes of what it has beside them."""

    value: bytes | None
    row: Row
    size: int


@dataclass
class Chunk:
    """Records in the order of their production, as columns: an object per record would double the cost of accepting it.

    ``extras``: by index what a record has beside key and value. ``size`` in bytes. ``since``: when the first was accepted.
    """

    keys: list[bytes | None]
    values: list[bytes | None]
    extras: dict[int, Row]
    size: int
    since: float

    def __len__(self) -> int:
        return len(self.keys)

    def halves(self) -> list[Chunk]:
        """Its first and its last records; their sizes are about right."""
        middle = len(self) // 2
        return [
            Chunk(
                self.keys[start:stop],
                self.values[start:stop],
                {index - start: extra for index, extra in self.extras.items() if start <= index < stop},
                size,
                self.since,
            )
            for start, stop, size in (
                (0, middle, self.size // 2),
                (middle, len(self), self.size - self.size // 2),
            )
        ]

    @cached_property
    def _one_by_one(self) -> bool:
        # confluent-kafka's batches take neither.
        return any("headers" in extra or "timestamp" in extra for extra in self.extras.values())

    def rows(self, indices: Sequence[int]) -> list[Row]:
        """The records at some indices. If any of the chunk has headers or a timestamp, all have headers, if none: one call
        sends only such, or only others.
        """
        keys, values = self.keys, self.values
        common: Row = {"headers": []} if self._one_by_one else {}
        nothing: Row = {}
        return [
            {"value": values[index], "key": keys[index], **common, **self.extras.get(index, nothing)}
            for index in indices
        ]


class Queue:
    """Records of one topic that no transaction has taken yet.

    ``records`` alternates keys and values, so that one operation of the list, during which no other thread runs, adds
    a record. Callers add small ones without the lock while ``limit`` is not 0, and look at the limit again
    afterwards: 0, or one that is reached, means that the sender has to look. ``limit`` counts keys and values.
    Callers of every method hold the lock.
    """

    __slots__ = ("_counted", "_has_extras", "_size", "limit", "records", "since")

    def __init__(self) -> None:
        self.records: list[bytes | Extra | None] = []
        self.limit = 0
        self.since = 0.0
        self._size = 0
        self._counted = 0
        self._has_extras = False

    def __len__(self) -> int:
        return len(self.records) // 2

    @property
    def size(self) -> int:
        """Bytes of keys, values and headers."""
        self._count(self.records[self._counted :])
        return self._size

    @property
    def granted(self) -> int:
        """Records that callers may still add without the lock."""
        return max(0, self.limit // 2 - len(self))

    def put(self, key: bytes | None, content: bytes | Extra | None, now: float) -> None:
        """Add a record; ``content`` is its value, or stands for it."""
        if not self.records:
            self.since = now
        if type(content) is Extra:
            self._has_extras = True
        self.records += (key, content)

    def take(self, now: float) -> Chunk:
        """Empty the queue; the next caller has to take the lock."""
        self.limit = 0
        records = self.records[:]
        # What a caller adds from here on without the lock stays; the list object is never replaced.
        del self.records[: len(records)]
        self._count(records[self._counted :])
        values = records[1::2]
        extras: dict[int, Row] = {}
        if self._has_extras:
            for index, value in enumerate(values):
                if type(value) is Extra:
                    extras[index], values[index] = value.row, value.value
        chunk = Chunk(records[0::2], values, extras, self._size, self.since)  # type: ignore[arg-type]
        self.since, self._size, self._counted, self._has_extras = now, 0, 0, False
        return chunk

    def _count(self, more: Sequence[bytes | Extra | None]) -> None:
        self._counted += len(more)
        self._size += sum(_sizes(more)) if self._has_extras else sum(map(len, filter(None, more)))  # type: ignore[arg-type]


def _sizes(contents: Iterable[bytes | Extra | None]) -> Iterable[int]:
    for content in contents:
        if type(content) is Extra:
            yield content.size + len(content.value or b"")
        elif content is not None:
            yield len(content)  # type: ignore[arg-type]


@dataclass(eq=False)
class CommitRequest:
    """A caller's request to commit all accepted so far, with ``read`` if given; ``error``: why it was not done.

    ``sender``: whose, which commits its requests in their order. ``dropped``: an abort has followed.
    """

    read: tuple[TransactionOffsets, ...] = ()
    sender: object = None
    dropped: threading.Event = field(default_factory=threading.Event)
    done: bool = False
    error: BaseException | None = None


def raise_first(requests: Iterable[CommitRequest]) -> None:
    """Raise the first error of a commit, if one has failed."""
    for request in requests:
        if request.error is not None:
            raise request.error.with_traceback(None)


@dataclass
class Backlog:
    """Counts of all topics together, under the one lock of the producer, which callers of every method hold.

    ``progress`` is notified whenever something was committed or given up. ``manual``: nothing is committed unless a
    caller asks. Threads that add to one queue at the same instant may go beyond a bound by a record each.
    """

    max_messages: int
    max_bytes: int
    manual: bool
    clock: Callable[[], float] = time.monotonic
    lock: threading.Lock = field(default_factory=threading.Lock)
    queues: list[Queue] = field(default_factory=list)
    taken: int = 0
    taken_size: int = 0

    def __post_init__(self) -> None:
        self.progress = threading.Condition(self.lock)

    @property
    def count(self) -> int:
        """Records that are not committed."""
        return self.taken + sum(map(len, self.queues))

    @property
    def size(self) -> int:
        """Their bytes."""
        return self.taken_size + sum(queue.size for queue in self.queues)

    def has_room(self, size: int) -> bool:
        """Whether a record of ``size`` bytes may be added; a single one always may."""
        count = self.count
        return count < self.max_messages and (self.size + size <= self.max_bytes or count == 0)

    def grant(self, queue: Queue, wanted: int) -> None:
        """Let callers add up to ``wanted`` small records to ``queue`` without the lock, but no more than fit for sure."""
        promised = sum(other.granted for other in self.queues if other is not queue)
        room = self.max_messages - self.count - promised
        if room > 0:
            room = min(room, (self.max_bytes - self.size) // SMALL_BYTES - promised)
        if room <= 0 and promised:
            # Queues that use what they were granted come again.
            for other in self.queues:
                other.limit = 0
        step = min(room, wanted, _STEP)
        queue.limit = 2 * (len(queue) + step) if step > 0 else 0

    def take(self, queue: Queue) -> Chunk:
        """Empty one queue; what was in it still counts."""
        chunk = queue.take(self.clock())
        self.taken += len(chunk)
        self.taken_size += chunk.size
        return chunk

    def settle(self, chunks: list[Chunk]) -> None:
        """Count rows as committed or given up."""
        self.taken -= sum(map(len, chunks))
        self.taken_size -= sum(chunk.size for chunk in chunks)
        self.progress.notify_all()

    def refusal(self) -> BufferError:
        """What is raised for a row that does not fit."""
        remedy = "call commit()" if self.manual else "call poll() and try again"
        return BufferError(
            f"the producer's queue is full: {self.count} records of {self.size} bytes wait for their commit"
            f" (queue.buffering.max.messages {self.max_messages}, queue.buffering.max.kbytes"
            f" {self.max_bytes // 1024}); {remedy}"
        )
