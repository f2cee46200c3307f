"""Writes amid which a log loses what it had acknowledged, by a real unclean leader election."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from spark_ordered_kafka import ControllerClient, OrderedProducer
from spark_ordered_kafka.client.schemas import CreateTopicRequest
from spark_ordered_kafka.kafka.buffer import Memory
from spark_ordered_kafka.kafka.task import TaskTransaction
from spark_ordered_kafka.local import LocalCluster
from tests.integration.unclean import CONFIG, UncleanElection
from tests.servers import await_true, unique_name
from tests.streams import conf, raw_records, writer_context

pytestmark = pytest.mark.long


@pytest.fixture
def topic(three_brokers: LocalCluster) -> str:
    name = unique_name("unclean")
    with ControllerClient(three_brokers.controller_url) as controller:
        controller.create_topic(CreateTopicRequest(topic=name, assignments={0: [1, 2]}, configs=CONFIG))
    return name


def write_amid_loss(brokers: LocalCluster, topic: str, write: Callable[[], object]) -> None:
    """Write until some is acknowledged, then until more is; the log loses that, and is written to again."""
    election = UncleanElection(brokers, topic, 0)

    def is_acknowledged(before: int) -> bool:
        # A producer may send what it has when more comes.
        write()
        return election.log_end().offset > before

    await_true(lambda: is_acknowledged(0), "some is acknowledged")
    election.stop_follower()
    kept = election.log_end().offset
    await_true(lambda: is_acknowledged(kept), "more is acknowledged")
    election.stop_leader()
    election.elect_follower()
    election.restore()
    write()


def test_a_task_of_the_sink_writes_all_rows_again(three_brokers: LocalCluster, topic: str) -> None:
    written: list[bytes] = []
    task = TaskTransaction(writer_context(three_brokers), topic, f"ordered:{topic}:w:0", 0, Memory(1 << 20))

    def write() -> None:
        written.append(b"%d" % len(written))
        task.write(pa.RecordBatch.from_pydict({"key": [b"k"], "value": written[-1:]}))

    write_amid_loss(three_brokers, topic, write)
    assert task.commit()
    assert [message.value() for message in raw_records(three_brokers, topic, 1)] == written


def test_a_producer_writes_its_transaction_again(three_brokers: LocalCluster, topic: str) -> None:
    written: list[bytes] = []

    def write() -> None:
        for _ in range(5_000):
            written.append(b"%d" % len(written))
            producer.produce(topic, written[-1], "k")

    with OrderedProducer(
        conf(three_brokers, commit_interval_ms=0, queue_buffering_max_messages=10**7)
    ) as producer:
        write_amid_loss(three_brokers, topic, write)
        producer.commit()
        write()
        producer.commit()
    assert [message.value() for message in raw_records(three_brokers, topic, 1)] == written
