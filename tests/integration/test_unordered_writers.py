"""Writers of topics without ordered delivery: no change fences them, so they ask for the layout again."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from dataclasses import replace

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from spark_ordered_kafka import ControllerClient
from spark_ordered_kafka.client.schemas import CreateTopicRequest
from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.kafka.buffer import Memory
from spark_ordered_kafka.kafka.pool import ProducerPool
from spark_ordered_kafka.kafka.producer import TransactionalProducer
from spark_ordered_kafka.kafka.task import TaskTransaction
from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.native.loading import kernel
from spark_ordered_kafka.ordering import bucket, key_hash
from tests.queries import await_stable
from tests.servers import TIMEOUT
from tests.streams import CHANGE_TIMEOUT, change, numbered, writer_context

KEYS = 40


class WatchedPool(ProducerPool):
    """Counts the transactions that were committed by the producer of an earlier one."""

    kept = 0
    _taken: TransactionalProducer | None = None

    def take(self, connection: Connection, transactional_id: str) -> TransactionalProducer | None:
        self._taken = super().take(connection, transactional_id)
        return self._taken

    def give_back(self, connection: Connection, producer: TransactionalProducer) -> None:
        self.kept += producer is self._taken
        super().give_back(connection, producer)


def written(cluster: LocalCluster, topic: str) -> dict[int, Counter[int]]:
    """Transaction number -> how many of its records each partition holds; there are no tombstones."""
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "raw", "enable.partition.eof": True}
    )
    found: dict[int, Counter[int]] = {}
    try:
        partitions = set(consumer.list_topics(topic, TIMEOUT).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        while partitions:
            message = consumer.poll(TIMEOUT)
            assert message is not None, f"no end of {topic} within {TIMEOUT:g} s"
            partition, value, error = message.partition(), message.value(), message.error()
            assert partition is not None
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                partitions.discard(partition)
                continue
            assert value is not None, f"a tombstone in partition {partition}"
            found.setdefault(int(value.split(b":")[1]), Counter())[partition] += 1
    finally:
        consumer.close()
    return found


@pytest.mark.skipif(kernel() is None, reason="without the kernel no producer is used again")
def test_a_cached_producer_learns_of_changes(cluster: LocalCluster, topic_name: str) -> None:
    with ControllerClient(cluster.controller_url) as controller:
        controller.create_topic(
            CreateTopicRequest(
                topic=topic_name,
                partitions=2,
                replication_factor=1,
                ordered_delivery=False,
                # No tombstones either: who writes unordered leaves old values anywhere.
                configs={"cleanup.policy": "compact", "min.compaction.lag.ms": "3600000"},
            )
        )
    pool = WatchedPool()
    context = replace(writer_context(cluster), pool=pool)
    counts: list[int] = []
    deadline = time.monotonic() + 3 * CHANGE_TIMEOUT
    # Between two transactions there is a change each time, also before those of a producer that is used again.
    for count in itertools.cycle([2, 5, 3]):
        if counts:
            change(cluster, topic_name, count)
        transaction = len(counts)
        counts.append(count)
        task = TaskTransaction(
            context, topic_name, f"ordered:{topic_name}:w:0", transaction, Memory(1_000_000)
        )
        task.write(numbered(KEYS, transaction, 1))
        assert task.commit()
        if pool.kept >= 3:
            break
        assert time.monotonic() < deadline, "no producer was used again"
    expected = {
        transaction: Counter(bucket(key_hash("murmur3", f"k{key}".encode()), 2, count) for key in range(KEYS))
        for transaction, count in enumerate(counts)
    }
    await_stable(cluster, topic_name)
    assert written(cluster, topic_name) == expected
