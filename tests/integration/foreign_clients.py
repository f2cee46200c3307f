"""Producers that know nothing of this system: librdkafka's with its partitioners, and the Java client with its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from confluent_kafka import Producer
from py4j.java_gateway import JavaGateway  # type: ignore[import-untyped]

from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.local.jars import kafka_jars
from spark_ordered_kafka.local.java import classpath, find_java, pyspark_jars
from tests.servers import TIMEOUT

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
