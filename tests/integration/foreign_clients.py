"""Producers that know nothing of this system: librdkafka's with its partitioners, and the Java client with its own."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from confluent_kafka import Producer
from py4j.java_gateway import JavaGateway  # type: ignore[import-untyped]

from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.local.jars import kafka_jars
from spark_ordered_kafka.local.java import classpath, find_java, pyspark_jars
from tests.servers import TIMEOUT, await_true

Record = tuple[bytes | None, bytes]


def produce(cluster: LocalCluster, topic: str, records: Iterable[Record], partitioner: str) -> None:
    """Write records with librdkafka, without idempotence, by one of its partitioners."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "partitioner": partitioner})
    for key, value in records:
        producer.produce(topic, key=key, value=value)
    assert producer.flush(TIMEOUT) == 0


@contextmanager
def java_gateway(cluster: LocalCluster) -> Iterator[JavaGateway]:
    """A Java process with the Kafka client that belongs to the cluster's brokers."""
    java = find_java()
    jars = kafka_jars(cluster.kafka_version, java=java, progress=lambda _: None)
    (py4j,) = pyspark_jars("py4j-*.jar")
    gateway = JavaGateway.launch_gateway(
        java_path=java, jarpath=str(py4j), classpath=classpath(jars), die_on_exit=True
    )
    try:
        yield gateway
    finally:
        gateway.shutdown()


def produce_with_java(
    gateway: JavaGateway, cluster: LocalCluster, topic: str, records: Iterable[Record]
) -> None:
    """Write records with the Java client's defaults: idempotent, with its own partitioner."""
    serializer = "org.apache.kafka.common.serialization.ByteArraySerializer"
    properties = gateway.jvm.java.util.Properties()
    properties.put("bootstrap.servers", cluster.bootstrap_servers)
    properties.put("key.serializer", serializer)
    properties.put("value.serializer", serializer)
    clients = gateway.jvm.org.apache.kafka.clients.producer
    producer = clients.KafkaProducer(properties)
    try:
        sent = [producer.send(clients.ProducerRecord(topic, key, value)) for key, value in records]
        producer.flush()
        for future in sent:
            future.get()
    finally:
        producer.close()


class RunningProducer(threading.Thread):
    """A producer that writes to all partitions that Kafka shows, one record after another, until it is stopped.

    Values are ``foreign:0``, ``foreign:1``, …; keys are numbers. ``properties`` are librdkafka's, on top of its defaults:
    no idempotence.
    """

    def __init__(
        self, cluster: LocalCluster, topic: str, pause: float = 0.005, **properties: str | int | bool
    ) -> None:
        super().__init__(name=f"foreign-{topic}", daemon=True)
        self.written = 0
        self.partitions: set[int] = set()
        self._topic, self._pause = topic, pause
        self._ending = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "linger.ms": 0,
                "log_level": 0,
                "topic.metadata.refresh.interval.ms": 100,
                **{name.replace("_", "."): value for name, value in properties.items()},
            }
        )

    def run(self) -> None:
        while not self._ending.wait(self._pause):
            count = len(self._producer.list_topics(self._topic, TIMEOUT).topics[self._topic].partitions)
            partition = self.written % count
            number = str(self.written).encode()
            self._producer.produce(self._topic, b"foreign:" + number, number, partition)
            assert self._producer.flush(TIMEOUT) == 0
            self.partitions.add(partition)
            self.written += 1

    def await_written(self, more: int) -> None:
        """Wait for ``more`` further records."""
        goal = self.written + more
        await_true(lambda: self.written >= goal, f"{more} more records of {self.name}")

    def __enter__(self) -> RunningProducer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self.join(TIMEOUT)
        assert not self.is_alive()
        del self._producer
