"""The brute-force model the gate is checked against: slow, literal, and sharing no code with the package's ordering.

- :func:`split_bucket` derives partitions by splitting one after another, without any formula for moduli.
- :func:`gate_is_open` restates the rule of the gate word by word; keys in common are found by trying all hashes.
- :class:`Topic` is a topic with its log, layouts and retention; :class:`Reader` reads it and checks the order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from spark_ordered_kafka.ordering import Layout, LayoutHistory


@cache
def split_bucket(hash_: int, initial: int, count: int) -> int:
    """The partition of a hash: ``initial`` partitions by remainder, then each further one splits its parent."""
    if count == initial:
        return hash_ % initial
    before = split_bucket(hash_, initial, count - 1)
    added = count - 1
    doubled = initial
    while doubled <= added:
        doubled *= 2
    parent = added - doubled // 2
    return added if before == parent and hash_ % doubled == added else before


@cache
def hashes_of(partition: int, initial: int, count: int, universe: int) -> frozenset[int]:
    """All hashes below ``universe`` that the partition holds."""
    return frozenset(h for h in range(universe) if split_bucket(h, initial, count) == partition)


def universe(initial: int, *counts: int) -> int:
    """So many hashes that every pair of partitions with any key in common has one among them."""
    size = initial
    while size < 2 * max(counts):
        size *= 2
    return size


def start_of(history: LayoutHistory, epoch: int, partition: int) -> int:
    """``start_e[p]``."""
    starts = history.layouts[epoch].starts
    return starts[partition] if partition < len(starts) else 0


def epoch_at(history: LayoutHistory, partition: int, offset: int) -> int:
    """The epoch of the record at ``offset``."""
    return max(e for e in range(len(history.layouts)) if start_of(history, e, partition) <= offset)


def waits(history: LayoutHistory, positions: Mapping[int, int], epoch: int, partition: int) -> dict[int, int]:
    """Partitions that segment (epoch, partition) waits for, with the greatest offset the rule asks of each."""
    found: dict[int, int] = {}
    counts = [layout.count for layout in history.layouts]
    hashes = universe(history.initial_count, *counts)
    own = hashes_of(partition, history.initial_count, counts[epoch], hashes)
    for past in range(epoch):
        for other in range(counts[past]):
            needed = start_of(history, past + 1, other)
            if other == partition or positions.get(other, 0) >= needed:
                continue
            if own & hashes_of(other, history.initial_count, counts[past], hashes):
                found[other] = max(found.get(other, 0), needed)
    return found


def gate_is_open(history: LayoutHistory, positions: Mapping[int, int], epoch: int, partition: int) -> bool:
    """The rule of the gate, and that nothing is readable of a partition that no layout has seen."""
    return partition < history.partition_count and not waits(history, positions, epoch, partition)


def model_readable(
    history: LayoutHistory, positions: Mapping[int, int], ends: Mapping[int, int]
) -> dict[int, int]:
    """``readable``, one offset after another."""
    result = {}
    for partition, end in ends.items():
        at = positions.get(partition, 0)
        opened: dict[int, bool] = {}
        while at < end:
            epoch = epoch_at(history, partition, at)
            if epoch not in opened:
                opened[epoch] = gate_is_open(history, positions, epoch, partition)
            if not opened[epoch]:
                break
            at += 1
        result[partition] = at
    return result


def model_blockers(history: LayoutHistory, positions: Mapping[int, int]) -> dict[int, list[tuple[int, int]]]:
    """``blockers``, straight from the rule."""
    result = {}
    for partition, at in positions.items():
        found = waits(history, positions, epoch_at(history, partition, at), partition)
        if found:
            result[partition] = sorted(found.items())
    return result


@dataclass(frozen=True)
class Record:
    """One record of an ordered writer; its key is given by its hash."""

    key: int
    sequence: int


@dataclass
class Topic:
    """A topic as the brokers hold it, with the layouts the controller committed.

    ``logs[p][offset]`` is a record, or None where the offset holds nothing to deliver to anyone who asks for order:
    a control record, an aborted one, or one of a foreign writer.
    """

    initial: int
    layouts: list[Layout] = field(default_factory=list)
    logs: list[list[Record | None]] = field(default_factory=list)
    log_starts: list[int] = field(default_factory=list)
    written: int = 0

    def __post_init__(self) -> None:
        self.create_partitions(self.initial)
        self.layouts.append(Layout(0, self.initial, [0] * self.initial))

    @property
    def count(self) -> int:
        return self.layouts[-1].count

    @property
    def history(self) -> LayoutHistory:
        return LayoutHistory(self.initial, self.layouts)

    def create_partitions(self, count: int) -> None:
        """Kafka partitions up to ``count``; a change creates them before it is committed."""
        while len(self.logs) < count:
            self.logs.append([])
            self.log_starts.append(0)

    def change(self, count: int) -> None:
        """A committed partition change."""
        self.create_partitions(count)
        self.layouts.append(Layout(len(self.layouts), count, [len(log) for log in self.logs]))

    def write(self, key: int) -> None:
        self.logs[split_bucket(key, self.initial, self.count)].append(Record(key, self.written))
        self.written += 1

    def append_nothing(self, partition: int) -> None:
        """An offset without a record of an ordered writer."""
        self.logs[partition].append(None)

    def delete_records(self, partition: int, before: int) -> None:
        """Retention, or deleteRecords."""
        self.log_starts[partition] = max(self.log_starts[partition], before)

    def ends(self) -> dict[int, int]:
        return {p: len(log) for p, log in enumerate(self.logs)}

    def remaining(self) -> list[Record]:
        """All records not removed by retention."""
        kept = (log[start:] for log, start in zip(self.logs, self.log_starts, strict=True))
        return [record for records in kept for record in records if record is not None]


@dataclass
class Reader:
    """Reads a topic in batches whose partitions are read in parallel, and checks the order of every key."""

    positions: dict[int, int] = field(default_factory=dict)
    delivered: set[Record] = field(default_factory=set)
    last_of_key: dict[int, int] = field(default_factory=dict)

    def skip_deleted(self, topic: Topic) -> None:
        """What retention removed cannot be read any more."""
        for partition, start in enumerate(topic.log_starts):
            self.positions[partition] = max(self.positions.get(partition, 0), start)

    def read(self, topic: Topic, ends: Mapping[int, int]) -> None:
        """One batch, up to ``ends``."""
        partition_of_key: dict[int, int] = {}
        for partition, end in ends.items():
            for record in topic.logs[partition][self.positions.get(partition, 0) : end]:
                if record is None:
                    continue
                # Partitions of a batch are read in any order: a key of two of them would have none.
                assert partition_of_key.setdefault(record.key, partition) == partition, record
                assert record.sequence > self.last_of_key.get(record.key, -1), record
                self.last_of_key[record.key] = record.sequence
                self.delivered.add(record)
        self.positions.update(ends)

    def has_unread(self, topic: Topic) -> bool:
        """Whether a record of an ordered writer is left to read."""
        return not self.delivered.issuperset(topic.remaining())
