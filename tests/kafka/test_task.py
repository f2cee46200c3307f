"""A task of the sink whose calls fail in any order and after any time: all of its rows are committed once, or none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.errors import (
    ConfigError,
    FencedError,
    OrderedKafkaError,
    ReplayMismatchError,
    UnavailableError,
)
from spark_ordered_kafka.kafka import task as task_module
from spark_ordered_kafka.kafka.attempts import failure_of
from spark_ordered_kafka.kafka.buffer import Memory
from spark_ordered_kafka.kafka.ledger import NO_ORIGIN, LedgerEntry, Origin
from spark_ordered_kafka.kafka.pool import ProducerPool
from spark_ordered_kafka.kafka.task import TaskTransaction, WriterContext
from spark_ordered_kafka.kafka.writer_layout import EarlierCount, WriterLayout
from spark_ordered_kafka.native.contents import Records, objects
from tests.seeds import examples

LIMIT = 60.0
"""Seconds after which brokers abort a transaction."""
AWAY = UnavailableError("the leader of t-1 does not answer")
FENCED = FencedError("another instance has the id")


@dataclass(frozen=True)
class Layout:
    """One that lasts, of a topic whose writers owe no tombstones."""

    hash: str = "murmur3"
    initial_partition_count: int = 1
    undeleted_partition_count: int = 2
    layout_epoch: int = 1
    ordered_delivery: bool = True
    earlier: Sequence[EarlierCount] = ()


@dataclass(frozen=True)
class Event:
    """What becomes of a call: ``seconds`` pass, then it fails, if there is an ``error``; ``done``: though it was carried out.

    ``others``: so many batches another driver of the query writes before that.
    """

    seconds: float = 0.0
    error: OrderedKafkaError | None = None
    done: bool = False
    others: int = 0


@dataclass
class Kafka:
    """Brokers that do with each call what comes next in ``events``, and at once what is asked once they are used up."""

    events: Iterator[Event]
    now: float = 0.0
    committed: list[list[bytes]] = field(default_factory=list)
    ledger: LedgerEntry | None = None
    instances: int = 0
    other: Callable[[], None] = lambda: None

    def take(self) -> Event:
        event = next(self.events, Event())
        self.now += event.seconds
        if event.others:
            self.events, left = iter(()), self.events
            for _ in range(event.others):
                self.other()
            self.events = left
        if event.error is not None and not event.done:
            raise event.error
        return event


class Producer:
    """A producer of those brokers."""

    def __init__(self, kafka: Kafka, *_: object, **__: object) -> None:
        kafka.take()
        kafka.instances += 1
        self._instance = kafka.instances
        self.layout: WriterLayout | None = None
        self.tombstones = None
        self.transactional_id = "ordered:t:q:0"
        self.last = kafka.ledger
        self._kafka = kafka
        self._rows: list[bytes] = []
        self._first: float | None = None

    def begin(self) -> None:
        self._kafka.take()
        self._refuse_old()
        self._rows, self._first = [], None

    def send_records(self, records: Records, routing: object, turn: int) -> int:
        self._refuse_old()
        if self._first is None:
            self._first = self._kafka.now
        event = self._kafka.take()
        self._refuse_old()
        self._rows += objects(records.values)
        if event.error is not None:
            raise event.error
        return turn

    def commit(self, entry: LedgerEntry, read: Sequence[object] = ()) -> None:
        self._refuse_old()
        event = self._kafka.take()
        self._refuse_old()
        if self._rows:
            assert entry.fingerprint.rows == len(self._rows), "an entry of rows that are not there"
            self._kafka.committed.append(self._rows)
        else:
            known = self._kafka.ledger
            assert known is not None
            assert known == replace(entry, origin=known.origin), "it confirms what is not there"
        self._kafka.ledger = entry
        if event.error is not None:
            raise event.error

    def abort(self) -> None:
        pass

    def discard(self) -> None:
        pass

    def _refuse_old(self) -> None:
        if self._instance != self._kafka.instances:
            raise FENCED
        if self._first is not None and self._kafka.now - self._first > LIMIT:
            raise FencedError("the transaction was aborted")


@contextmanager
def a_task(kafka: Kafka, sequence: int = 5, origin: Origin = NO_ORIGIN) -> Iterator[TaskTransaction]:
    def sleep(seconds: float) -> None:
        kafka.now += seconds

    context = WriterContext(
        Connection({"bootstrap.servers": "x:1"}, "http://x:1"),
        lambda topic, timeout: Layout(),
        ProducerPool(0),
        clock=lambda: kafka.now,
        sleep=sleep,
    )
    with patch.object(task_module, "TransactionalProducer", partial(Producer, kafka)):
        task = TaskTransaction(context, "t", "ordered:t:q:0", sequence, Memory(200), origin=origin)
        try:
            yield task
        except BaseException:
            # As the sink does.
            task.abort()
            raise


def rows(first: int, count: int) -> pa.RecordBatch:
    values = [b"%d" % number for number in range(first, first + count)]
    return pa.RecordBatch.from_pydict({"key": pa.array(values), "value": pa.array(values)})


def written(kafka: Kafka, batches: int) -> bool:
    """Let a task write batches of ten rows and commit them."""
    with a_task(kafka) as task:
        for number in range(batches):
            task.write(rows(10 * number, 10))
        return task.commit()


events = st.builds(
    Event,
    st.sampled_from([0.0, 5.0, 31.0, LIMIT + 1]),
    st.sampled_from([None, AWAY, FENCED]),
    st.booleans(),
)


@settings(max_examples=examples(1200))
@given(st.lists(events, max_size=30), st.integers(1, 5))
# The transaction could only be begun after a minute.
@example([Event(), Event(LIMIT + 1, AWAY)], 2)
@example([Event(), Event(LIMIT + 1, FENCED)], 2)
# The first is too old, the second cannot be begun at once.
@example([Event(), Event(), Event(LIMIT + 1), Event(), Event(1.0, AWAY)], 3)
def test_all_rows_are_committed_once_or_none(script: list[Event], batches: int) -> None:
    kafka = Kafka(iter(script))
    wanted = [b"%d" % number for number in range(10 * batches)]
    failure = failure_of(partial(written, kafka, batches))
    if failure is None:
        assert kafka.committed == [wanted]
        return
    assert kafka.committed in ([], [wanted]), "all, if the answer to a commit did not arrive"
    if isinstance(failure, ConfigError):
        assert isinstance(failure.__cause__, FencedError)
    else:
        assert isinstance(failure, UnavailableError), failure


def test_a_partition_without_a_leader_is_not_taken_for_a_slow_task() -> None:
    """Whatever the transaction's age when the wait for it ends."""
    kafka = Kafka(iter([Event(), Event(), Event(), *[Event(LIMIT + 1, AWAY), Event(), Event(), Event()] * 9]))
    with pytest.raises(UnavailableError, match=r"gave up writing 10 rows .* last error: the leader of t-1"):
        written(kafka, 1)
    assert kafka.committed == []


def test_rows_that_cannot_be_sent_in_time_are_refused_once_they_were_sent_at_once() -> None:
    sent_slowly = [Event(), Event(), Event(LIMIT + 1)]
    with pytest.raises(
        ConfigError, match=r"the 20 rows of .* Last error: the transaction was aborted"
    ) as caught:
        written(Kafka(iter(sent_slowly * 2)), 2)
    assert isinstance(caught.value.__cause__, FencedError)


@dataclass
class Driver:
    """One that writes batches of a query one after the other, until one of them fails."""

    kafka: Kafka
    run: str
    batches: list[int]
    failure: OrderedKafkaError | None = None

    def write(self) -> None:
        """The next batch."""
        if not self.batches or self.failure is not None:
            return
        sequence = self.batches.pop(0)
        failure = failure_of(partial(self._written, sequence))
        assert failure is None or isinstance(failure, OrderedKafkaError), failure
        self.failure = failure

    def _written(self, sequence: int) -> None:
        with a_task(self.kafka, sequence, Origin("query", self.run, f"{self.run}-{sequence}")) as task:
            task.write(rows(10 * sequence, 10))
            task.commit()


others = st.builds(
    Event, st.just(0.0), st.sampled_from([None, AWAY, FENCED]), st.booleans(), st.sampled_from([0, 0, 1, 2])
)


@settings(max_examples=examples(1200))
@given(st.lists(others, max_size=40))
# The other one has written the next batch before this one has confirmed the one before.
@example([Event(others=1), Event(others=1)])
def test_two_drivers_of_a_query_commit_a_batch_once(script: list[Event]) -> None:
    """What one has committed the other skips, or is refused."""
    kafka = Kafka(iter(script))
    one, other = (Driver(kafka, run, [5, 6, 7]) for run in ("one", "other"))
    kafka.other = other.write
    while one.batches and one.failure is None:
        one.write()
    wanted = [[b"%d" % number for number in range(10 * first, 10 * first + 10)] for first in (5, 6, 7)]
    assert kafka.committed == wanted[: len(kafka.committed)], "each batch once, in order"
    if one.failure is None:
        assert kafka.committed == wanted
    else:
        assert isinstance(one.failure, (ReplayMismatchError, UnavailableError))
