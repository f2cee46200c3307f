"""Writers and readers of a secured cluster, with the rights that they use and no others."""

from __future__ import annotations

import time
from dataclasses import dataclass

import javaproperties
import pytest
from pyspark.sql import SparkSession

from spark_ordered_kafka import OrderedConsumer, OrderedProducer
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.schemas import CreateTopicRequest
from spark_ordered_kafka.local import LocalCluster
from tests.integration.acls import Acls, acl
from tests.integration.secured import credentials
from tests.servers import TIMEOUT, await_true, unique_name


@dataclass
class Managed:
    topic: str
    writer: str
    reader: str
    group: str


@pytest.fixture(scope="module")
def managed(secure_cluster: LocalCluster, acls: Acls) -> Managed:
    """A topic that alice may write and bob may read, each with no right beyond what docs/security.md says."""
    topic = unique_name("acc")
    group = f"{topic}-readers"
    with ControllerClient(
        secure_cluster.controller_url, credentials=credentials(secure_cluster, "admin")
    ) as admin:
        admin.create_topic(CreateTopicRequest(topic=topic, partitions=2))
    ledger = f"ordered:{topic}:"
    acls.add(
        acl("User:alice", "WRITE", "TOPIC", topic),
        # Kafka wants it for the offsets of the ledger.
        acl("User:alice", "READ", "TOPIC", topic),
        acl("User:alice", "WRITE", "TRANSACTIONAL_ID", ledger, prefixed=True),
        acl("User:alice", "READ", "GROUP", ledger, prefixed=True),
        acl("User:bob", "READ", "TOPIC", topic),
        acl("User:bob", "READ", "GROUP", group, prefixed=True),
    )
    for user in ("alice", "bob"):
        with ControllerClient(
            secure_cluster.controller_url, credentials=credentials(secure_cluster, user)
        ) as client:

            def described(client: ControllerClient = client) -> bool:
                return any(row.topic == topic for row in client.topics().topics)

            await_true(described, f"{user} may describe {topic}")
    return Managed(topic, "alice", "bob", group)


def test_plain_clients_need_only_the_rights_they_use(secure_cluster: LocalCluster, managed: Managed) -> None:
    def conf(user: str) -> dict[str, str]:
        return {**secure_cluster.kafka_properties(user), **secure_cluster.controller_options(user)}

    sent = [(f"key-{n % 7}".encode(), str(n).encode()) for n in range(100)]
    with OrderedProducer(conf(managed.writer)) as producer:
        for key, value in sent:
            producer.produce(managed.topic, value=value, key=key)
    received: list[tuple[bytes | None, bytes | None]] = []
    group = {"group.id": managed.group, "auto.offset.reset": "earliest"}
    with OrderedConsumer(conf(managed.reader) | group) as consumer:
        consumer.subscribe([managed.topic])
        deadline = time.monotonic() + TIMEOUT
        while len(received) < len(sent) and time.monotonic() < deadline:
            received += [(message.key(), message.value()) for message in consumer.consume(100, timeout=1.0)]
    assert sorted(received, key=str) == sorted(sent, key=str)
    # A reader's rights are not a writer's: nothing is written, and the error says what is missing.
    with pytest.raises(Exception, match=r"(?i)authorization"):
        write_once(conf(managed.reader), managed.topic)


def write_once(conf: dict[str, str], topic: str) -> None:
    with OrderedProducer(conf) as producer:
        producer.produce(topic, value=b"x", key=b"k")
        producer.commit()


# "client" is the file that Kafka's own tools take, in the names of Java's clients.
@pytest.mark.long
@pytest.mark.parametrize("names", ["librdkafka", "client"])
def test_a_spark_job_needs_only_the_rights_it_uses(
    secure_cluster: LocalCluster, managed: Managed, spark: SparkSession, names: str
) -> None:
    def options(user: str) -> dict[str, str]:
        kafka = javaproperties.loads(secure_cluster.secrets.properties_file(user, names).read_text())
        return {f"kafka.{name}": value for name, value in kafka.items()} | secure_cluster.controller_options(
            user
        )

    rows = spark.range(50).selectExpr(f"concat('{names}-', id % 5) AS key", "CAST(id AS STRING) AS value")
    frame = rows.repartition(2, "key").write.format("ordered-kafka").options(**options(managed.writer))
    frame.option("topic", managed.topic).mode("append").save()
    read = spark.read.format("ordered-kafka").options(**options(managed.reader))
    found = read.option("subscribe", managed.topic).load().selectExpr("CAST(key AS STRING) AS key").collect()
    assert sum(row.key.startswith(names) for row in found) == 50
    wrong = options(managed.reader) | {"controller.password": "wrong"}
    refused = spark.read.format("ordered-kafka").options(**wrong).option("subscribe", managed.topic).load()
    with pytest.raises(Exception, match="SASL_AUTHENTICATION_FAILED"):
        refused.collect()
