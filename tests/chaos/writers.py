"""Writers of a history: they write, die in the middle of a transaction, and are succeeded."""

from __future__ import annotations

import json
import random
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field

import pyarrow as pa

from spark_ordered_kafka.errors import FencedError
from spark_ordered_kafka.kafka.task import TaskTransaction
from tests.chaos.history import Death
from tests.inside import producer_of
from tests.streams import NumberedWriter, writer_context


@dataclass(frozen=True)
class RecordId:
    """What a record's value holds: the writer, the key, and its number among that writer's records of the key."""

    writer: str
    key: bytes | None
    number: int

    @classmethod
    def parse(cls, value: bytes) -> RecordId:
        """The inverse of :meth:`value`."""
        writer, key, number = json.loads(value)
        return cls(writer, None if key is None else bytes.fromhex(key), number)

    def value(self) -> bytes:
        """The record's value."""
        return json.dumps([self.writer, None if self.key is None else self.key.hex(), self.number]).encode()


@dataclass
class ChaosWriter(NumberedWriter):
    """Transactions of random rows over ``keys`` keys, an empty key and null keys; ``seed`` makes them the same again.

    ``committed`` holds what must be in the topic, each record once.
    """

    seed: str = ""
    committed: list[RecordId] = field(default_factory=list)
    deaths: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._rng = random.Random(f"{self.seed}/{self.name}")
        self._next: Counter[bytes | None] = Counter()
        self._left_over: list[RecordId] | None = None
        self._dead: list[TaskTransaction] = []

    def transaction(self, rows: int) -> bool:
        """Write the transaction that a predecessor left over, if one did, then one of about ``rows`` new rows.

        Whether there was something left over.
        """
        succeeded = self._succeed()
        self._transact(self._new(rows), self.task())
        return succeeded

    def die(self, rows: int, how: Death) -> None:
        """Begin a transaction and never end it, or never learn that it ended."""
        self._succeed()
        records, task = self._new(rows), self.task()
        self._left_over = records
        _write(task, records, self._rng)
        if how == "flushed":
            # A change that fences it meanwhile is as good a death.
            with suppress(FencedError):
                producer_of(task).flush()
        elif how == "committed":
            task.commit()
        self._dead.append(task)
        self.deaths += 1
        self._context = writer_context(self.cluster, self.timeout)
        if how == "zombie":
            self._succeed()
            assert not task.commit(), "the ledger must tell the zombie that its successor has committed"

    def settle(self) -> None:
        """End what was left over, and release what died: librdkafka's instances must not be dropped unserved."""
        self._succeed()
        for task in self._dead:
            task.abort()
        self._dead.clear()

    def _succeed(self) -> bool:
        if self._left_over is None:
            return False
        self._transact(self._left_over, self.task())
        self._left_over = None
        return True

    def _transact(self, records: list[RecordId], task: TaskTransaction) -> None:
        _write(task, records, self._rng)
        # False is fine: a predecessor's commit, or one in doubt, that the ledger has then confirmed.
        task.commit()
        self.replays += task.replays
        self._number += 1
        self.written += len(records)
        self.committed += records

    def _new(self, rows: int) -> list[RecordId]:
        records = []
        for _ in range(self._rng.randint(1, rows)):
            key = self._key()
            records.append(RecordId(self.name, key, self._next[key]))
            self._next[key] += 1
        return records

    def _key(self) -> bytes | None:
        if self._rng.random() < 0.05:
            return None
        number = self._rng.randrange(self.keys)
        return f"k{number}".encode() if number else b""


def _write(task: TaskTransaction, records: list[RecordId], rng: random.Random) -> None:
    """In two batches, so that a fence may fall between them."""
    middle = rng.randrange(len(records))
    for part in (records[:middle], records[middle:]):
        if part:
            task.write(
                pa.RecordBatch.from_pydict(
                    {
                        "key": pa.array([record.key for record in part], pa.binary()),
                        "value": pa.array([record.value() for record in part], pa.binary()),
                    }
                )
            )
