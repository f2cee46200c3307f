"""Producers that nobody uses for a while: what librdkafka reports is taken, so that it does not pile up."""

from __future__ import annotations

import pyarrow as pa
import pytest

from spark_ordered_kafka import OrderedProducer
from spark_ordered_kafka.kafka import producer as producer_module
from spark_ordered_kafka.kafka.ids import transactional_id
from spark_ordered_kafka.kafka.producer import TransactionalProducer
from spark_ordered_kafka.kafka.writer import TaskTransaction, WriterContext
from spark_ordered_kafka.local import LocalCluster
from tests import servers
from tests.servers import await_true
from tests.streams import create, writer_context

IDLE = 4
REPORTS = 100
ROWS = pa.RecordBatch.from_pydict(
    {"key": pa.array([b"key"], pa.binary()), "value": pa.array([b"value"], pa.binary())}
)


class Reports:
    """Counts the statistics that are taken, per producer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.taken: dict[int, int] = {}
        take = producer_module._Statistics.take

        def counting(statistics: producer_module._Statistics, text: str) -> None:
            self.taken[id(statistics)] = self.taken.get(id(statistics), 0) + 1
            take(statistics, text)

        monkeypatch.setattr(producer_module._Statistics, "take", counting)
        monkeypatch.setattr(producer_module, "STATISTICS_INTERVAL_MS", 20)

    def await_more(self, producers: list[TransactionalProducer]) -> None:
        """Wait until many reports of each were taken, and few are left; the calling thread takes none."""
        begun = dict(self.taken)

        def taken(one: TransactionalProducer) -> bool:
            number = id(one._statistics)
            return self.taken.get(number, 0) >= begun.get(number, 0) + REPORTS

        await_true(lambda: all(map(taken, producers)), "reports of idle producers are taken")
        # Its length counts what waits to be served.
        await_true(lambda: all(len(one._producer) < REPORTS for one in producers), "none pile up")


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch) -> Reports:
    return Reports(monkeypatch)


@pytest.fixture
def context(cluster: LocalCluster, topic_name: str, reports: Reports) -> WriterContext:
    create(cluster, topic_name, 1)
    return writer_context(cluster)


def begun(context: WriterContext, topic: str, task: int) -> tuple[TaskTransaction, TransactionalProducer]:
    """The transaction of a task that has written a row and waits for others, and its producer."""
    transaction = TaskTransaction(context, topic, transactional_id(topic, "idle", task), 0, 1 << 20)
    transaction.write(ROWS)
    return transaction, transaction._open_producer()


def test_reports_of_pooled_producers_do_not_pile_up(
    context: WriterContext, topic_name: str, reports: Reports
) -> None:
    tasks = [begun(context, topic_name, number) for number in range(IDLE)]
    for transaction, _ in tasks:
        assert transaction.commit()
    reports.await_more([producer for _, producer in tasks])
    for _, producer in tasks:
        assert context.pool.take(context.connection, producer.transactional_id) is producer


def test_reports_of_a_task_that_waits_for_rows_do_not_pile_up(
    context: WriterContext, topic_name: str, reports: Reports
) -> None:
    transaction, producer = begun(context, topic_name, 0)
    reports.await_more([producer])
    transaction.write(ROWS)
    assert transaction.commit()
    assert (transaction.rows, transaction.replays) == (2, 0)


def test_a_task_whose_producer_is_fenced_while_it_waits_starts_over(
    context: WriterContext, topic_name: str, reports: Reports
) -> None:
    transaction, producer = begun(context, topic_name, 0)
    usurper = TransactionalProducer(
        context.connection, topic_name, producer.transactional_id, servers.TIMEOUT
    )
    reports.await_more([producer])
    usurper.discard()
    transaction.write(ROWS)
    assert transaction.commit()
    assert (transaction.rows, transaction.replays) == (2, 1)


def test_reports_of_an_idle_ordered_producer_do_not_pile_up(
    cluster: LocalCluster, context: WriterContext, topic_name: str, reports: Reports
) -> None:
    options = {"bootstrap.servers": cluster.bootstrap_servers, "controller.url": cluster.controller_url}
    with OrderedProducer({**options, "commit.interval.ms": 0}) as producer:
        producer.produce(topic_name, b"value", b"key")
        producer.commit(servers.TIMEOUT)
        (lane,) = producer._lanes.values()
        idle = list(lane._transaction._instances._idle.values())
        assert len(idle) == 1
        reports.await_more(idle)
