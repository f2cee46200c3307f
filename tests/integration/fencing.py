"""Writers with open transactions, some of which a fence must reject."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from kafka import KafkaAdminClient
from kafka import TopicPartition as KafkaPythonPartition
from kafka.admin import OffsetSpec

from tests import servers

WRITERS = 50


def soon(seconds: float = servers.TIMEOUT) -> float:
    return time.monotonic() + seconds


def unheard(_: int) -> None:
    """For fences whose progress is of no interest."""


class Writers:
    """Transactional producers of one topic with a transaction each, that has a record in every partition."""

    def __init__(self, bootstrap_servers: str, topic: str, partitions: int, names: Sequence[str]) -> None:
        self.servers = bootstrap_servers
        self.topic = topic
        self.partitions = range(partitions)
        self.ids = [f"ordered:{topic}:{name}" for name in names]
        self.producers = [self._producer(transactional_id) for transactional_id in self.ids]

    def _producer(self, transactional_id: str) -> Producer:
        # A fenced producer logs what its calls raise anyway. The first transaction is open until the last has begun.
        config = {"transactional.id": transactional_id, "transaction.timeout.ms": 600_000, "log_level": 0}
        return Producer({"bootstrap.servers": self.servers, **config})

    def begin(self) -> None:
        """Bring every producer to an open transaction whose records are in the log."""

        def begin(producer: Producer) -> None:
            producer.init_transactions(servers.TIMEOUT)
            producer.begin_transaction()
            for partition in self.partitions:
                producer.produce(self.topic, value=b"open", partition=partition)
            assert producer.flush(servers.TIMEOUT) == 0

        with ThreadPoolExecutor(8) as threads:
            list(threads.map(begin, self.producers))

    def offsets(self, isolation_level: str) -> list[int]:
        """The high watermark (read_uncommitted) or the last stable offset (read_committed) of each partition."""
        wanted = [KafkaPythonPartition(self.topic, partition) for partition in self.partitions]
        with KafkaAdminClient(bootstrap_servers=self.servers.split(",")) as client:
            found = client.list_partition_offsets(dict.fromkeys(wanted, OffsetSpec.LATEST), isolation_level)
        return [found[partition].offset for partition in wanted]

    def is_quiet(self) -> bool:
        """Whether nothing is open and the logs do not grow any more."""
        ends = self.offsets("read_uncommitted")
        if self.offsets("read_committed") != ends:
            return False
        time.sleep(0.5)
        return self.offsets("read_uncommitted") == ends

    def committed(self) -> list[bytes]:
        """Values that a read_committed consumer sees."""
        ends = self.offsets("read_uncommitted")
        consumer = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": "unused",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
            }
        )
        assigned = [TopicPartition(self.topic, partition, 0) for partition in self.partitions]
        consumer.assign(assigned)
        values = []
        deadline = soon()
        while any(
            max(row.offset, 0) < end for row, end in zip(consumer.position(assigned), ends, strict=True)
        ):
            assert time.monotonic() < deadline, f"read up to {consumer.position(assigned)}, not to {ends}"
            message = consumer.poll(0.1)
            if message is not None:
                assert message.error() is None
                value = message.value()
                assert value is not None
                values.append(value)
        consumer.close()
        return values


def assert_fenced(producer: Producer) -> None:
    with pytest.raises(KafkaException) as caught:
        producer.commit_transaction(servers.TIMEOUT)
    error = caught.value.args[0]
    assert error.code() in (
        KafkaError._FENCED,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
    ), error
