"""Producers that nobody uses for a while: they cost neither memory nor time, and a fence finds them at their next use."""

from __future__ import annotations

import threading
import time

import psutil
import pyarrow as pa
import pytest

from spark_ordered_kafka import OrderedProducer
from spark_ordered_kafka.kafka.buffer import Memory
from spark_ordered_kafka.kafka.ids import transactional_id
from spark_ordered_kafka.kafka.producer import TransactionalProducer
from spark_ordered_kafka.kafka.task import TaskTransaction, WriterContext
from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.native.loading import kernel
from tests import servers
from tests.inside import producer_of, undelivered
from tests.streams import conf, create, writer_context

ROWS = pa.RecordBatch.from_pydict(
    {"key": pa.array([b"key"], pa.binary()), "value": pa.array([b"value"], pa.binary())}
)


@pytest.fixture
def context(cluster: LocalCluster, topic_name: str) -> WriterContext:
    create(cluster, topic_name, 1)
    return writer_context(cluster)


def begun(context: WriterContext, topic: str, task: int) -> tuple[TaskTransaction, TransactionalProducer]:
    """The transaction of a task that has written a row and waits for others, and its producer."""
    transaction = TaskTransaction(context, topic, transactional_id(topic, "idle", task), 0, Memory(1 << 20))
    transaction.write(ROWS)
    return transaction, producer_of(transaction)


@pytest.mark.parametrize(
    ("count", "seconds"), [(8, 1.0), pytest.param(64, 10.0, marks=pytest.mark.long)], ids=["some", "many"]
)
def test_idle_producers_cost_neither_memory_nor_time(
    cluster: LocalCluster, context: WriterContext, topic_name: str, count: int, seconds: float
) -> None:
    tasks = [begun(context, topic_name, number) for number in range(count)]
    waiting, _ = begun(context, topic_name, count)
    for transaction, _ in tasks:
        assert transaction.commit()
    with OrderedProducer(conf(cluster, commit_interval_ms=0)) as producer:
        producer.produce(topic_name, b"value", b"key")
        producer.commit(servers.TIMEOUT)
        process = psutil.Process()
        memory, used, begin = process.memory_info().rss, time.process_time(), time.monotonic()
        # Not to let something happen, but to see that nothing does.
        threading.Event().wait(seconds)
        grown, spent = process.memory_info().rss - memory, time.process_time() - used
        # On a busy machine it sleeps longer than asked.
        seconds = time.monotonic() - begin
    # With a report every 100 ms 64 of them grew by 12 MB a second.
    assert grown < 4 << 20
    assert spent < 0.2 * seconds
    for _, one in tasks:
        # Its length counts what waits to be served. Without the kernel none is kept.
        kept = None if kernel() is None else one
        assert kept is None or undelivered(kept) == 0
        assert context.pool.take(context.connection, one.transactional_id) is kept
    waiting.write(ROWS)
    assert waiting.commit()
    assert (waiting.rows, waiting.replays) == (2, 0)


def test_a_task_whose_producer_is_fenced_while_it_waits_starts_over(
    context: WriterContext, topic_name: str
) -> None:
    transaction, producer = begun(context, topic_name, 0)
    usurper = TransactionalProducer(
        context.connection, topic_name, producer.transactional_id, servers.TIMEOUT
    )
    usurper.discard()
    transaction.write(ROWS)
    assert transaction.commit()
    assert (transaction.rows, transaction.replays) == (2, 1)
