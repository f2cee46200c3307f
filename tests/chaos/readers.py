"""Readers of a history: the source's own reader objects, driven as Spark drives them, with a checkpoint in memory."""

from __future__ import annotations

import json
import pickle
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pyspark import cloudpickle
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from spark_ordered_kafka.checker import Report, check
from spark_ordered_kafka.spark.batch import OrderedBatchReader
from spark_ordered_kafka.spark.options import source_options
from spark_ordered_kafka.spark.stream import OrderedStreamReader
from tests.chaos.history import ReaderCrash
from tests.chaos.writers import RecordId


@dataclass(frozen=True)
class Row:
    """A record as a reader delivered it."""

    record: RecordId
    partition: int
    offset: int
    epoch: int


class ReaderDiedError(Exception):
    """The reader was dropped at the point that the history names."""


class StreamDriver:
    """One streaming query. It keeps what Spark's checkpoint keeps, offsets as text, and delivers each batch once.

    ``gone(partition)`` is the offset below which records were deleted; where readers are lossy, a replayed batch need
    not have those again.
    """

    def __init__(
        self, options: Mapping[str, str], rng: random.Random, gone: Callable[[int], int] = lambda _: 0
    ) -> None:
        self._options = source_options(options)
        self._rng = rng
        self._gone = gone
        self._reader: OrderedStreamReader | None = None
        self._first_read: list[list[Row]] | None = None
        self.planned: str | None = None
        self.delivered: list[Row] = []
        self.batches = 0
        self.replayed = 0
        self.committed = json.dumps(self._running().initialOffset())
        self.initial = self.positions

    @property
    def positions(self) -> list[int]:
        """Per partition, without zeros at the end: all before it is delivered."""
        (topic,) = json.loads(self.committed)["topics"].values()
        positions: list[int] = topic["positions"]
        return positions

    @property
    def in_flight(self) -> set[RecordId]:
        """Records of a batch that was read but not delivered yet."""
        return {row.record for rows in self._first_read or () for row in rows}

    def micro_batch(self, crash: ReaderCrash | None = None) -> bool:
        """Run one micro-batch, or the one again that a crash cut off; False when there is nothing new.

        Raises ReaderDiedError at the point of ``crash``; :meth:`restart` must follow, as after any other error.
        """
        if self.planned is None:
            reader = self._running()
            end = json.dumps(reader.latestOffset(json.loads(self.committed), reader.getDefaultReadLimit()))
            if end == self.committed:
                return False
            self.planned = end
        _die_if(crash == "planned")
        rows = self._read(half=crash == "half read")
        if self._first_read is None:
            self._first_read = rows
        else:
            self.replayed += 1
            self._check_replay(self._first_read, rows)
        _die_if(crash == "read")
        for task in self._rng.sample(rows, len(rows)):
            self.delivered += task
        self._first_read = None
        self.committed, self.planned = self.planned, None
        self.batches += 1
        _die_if(crash == "delivered")
        self._running().commit(json.loads(self.committed))
        return True

    def restart(self) -> None:
        """Drop the reader object; the next one knows the checkpoint only."""
        self.close()

    def close(self) -> None:
        """Close connections."""
        if self._reader is not None:
            self._reader.stop()
            self._reader = None

    def _running(self) -> OrderedStreamReader:
        if self._reader is None:
            self._reader = OrderedStreamReader(self._options)
        return self._reader

    def _read(self, half: bool) -> list[list[Row]]:
        """The rows of every task; ``half``: dies after the first batch of rows."""
        assert self.planned is not None
        reader = self._running()
        tasks = reader.partitions(json.loads(self.committed), json.loads(self.planned))
        return run_tasks(reader, tasks, self._rng, half)

    def _check_replay(self, before: list[list[Row]], again: list[list[Row]]) -> None:
        """The same tasks with the same rows, but for those that are gone meanwhile."""
        left = [[row for row in rows if row.offset >= self._gone(row.partition)] for rows in before]
        assert again == left, f"a replayed batch differs: {_difference(left, again)}"


def run_tasks(
    reader: DataSourceReader | DataSourceStreamReader,
    tasks: Sequence[InputPartition],
    rng: random.Random,
    half: bool = False,
) -> list[list[Row]]:
    """The rows per task, run one after another in random order with a copy of the reader, as a Spark worker has it."""
    copy = _copied(reader)
    results: list[list[Row]] = [[] for _ in tasks]
    for index in rng.sample(range(len(tasks)), len(tasks)):
        for batch in copy.read(_copied(tasks[index])):
            results[index] += _rows(batch.to_pylist())
            _die_if(half)
    return results


def batch_read(options: Mapping[str, str], rng: random.Random) -> list[Row]:
    """All that a batch query delivers, its tasks in random order."""
    reader = OrderedBatchReader(source_options(options))
    tasks = run_tasks(reader, reader.partitions(), rng)
    return [row for rows in rng.sample(tasks, len(tasks)) for row in rows]


def verdict(rows: Iterable[Row], expected: int) -> Report:
    """The shared checker's; a record without a key has no order and counts as a key of its own."""
    names, numbers = [], []
    for row in rows:
        record = row.record
        if record.key is None:
            names.append(f"{record.writer}/null/{record.number}")
            numbers.append(0)
        else:
            names.append(f"{record.writer}/{record.key.hex()}")
            numbers.append(record.number)
    return check(np.array(names), np.array(numbers, dtype=np.int64), expected)


def _rows(rows: list[dict[str, Any]]) -> Iterator[Row]:
    for row in rows:
        record = RecordId.parse(row["value"])
        assert row["key"] == record.key, row
        yield Row(record, row["partition"], row["offset"], row["layout_epoch"])


def _difference(before: list[list[Row]], again: list[list[Row]]) -> str:
    if len(before) != len(again):
        return f"{len(before)} tasks, then {len(again)}"
    for task, (first, second) in enumerate(zip(before, again, strict=True)):
        if first != second:
            missing, new = [r for r in first if r not in second], [r for r in second if r not in first]
            return f"task {task} lacks {missing[:5]}, has {new[:5]} instead"
    return "in nothing"


def _copied(value: Any) -> Any:
    """As another process has it: Spark pickles readers and partitions."""
    return pickle.loads(cloudpickle.dumps(value))  # type: ignore[no-untyped-call]


def _die_if(condition: bool) -> None:
    if condition:
        raise ReaderDiedError
