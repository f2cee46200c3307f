"""Writers and readers of a secured cluster, with the rights that they use and no others."""

from __future__ import annotations

import time

import javaproperties
import pytest
from pyspark.sql import SparkSession

from spark_ordered_kafka import OrderedConsumer, OrderedProducer
from spark_ordered_kafka.local import LocalCluster
from tests.integration.acls import Acls
from tests.integration.granted import READER, WRITER, Granted
from tests.servers import TIMEOUT


@pytest.fixture(scope="module")
def granted(secure_cluster: LocalCluster, acls: Acls) -> Granted:
    return Granted(secure_cluster, acls, "acc")


def test_plain_clients_need_only_the_rights_they_use(granted: Granted) -> None:
    sent = [(f"key-{n % 7}".encode(), str(n).encode()) for n in range(100)]
    with OrderedProducer(granted.conf(WRITER)) as producer:
        for key, value in sent:
            producer.produce(granted.topic, value=value, key=key)
    received: list[tuple[bytes | None, bytes | None]] = []
    with OrderedConsumer(
        granted.conf(READER, group_id=granted.group, auto_offset_reset="earliest")
    ) as consumer:
        consumer.subscribe([granted.topic])
        deadline = time.monotonic() + TIMEOUT
        while len(received) < len(sent) and time.monotonic() < deadline:
            received += [(message.key(), message.value()) for message in consumer.consume(100, timeout=1.0)]
    assert sorted(received, key=str) == sorted(sent, key=str)
    # A reader's rights are not a writer's: nothing is written, and the error says what is missing.
    with pytest.raises(Exception, match=r"(?i)authorization"):
        write_once(granted.conf(READER), granted.topic)


def write_once(conf: dict[str, str], topic: str) -> None:
    with OrderedProducer(conf) as producer:
        producer.produce(topic, value=b"x", key=b"k")
        producer.commit()


# "client" is the file that Kafka's own tools take, in the names of Java's clients.
@pytest.mark.long
@pytest.mark.parametrize("names", ["librdkafka", "client"])
def test_a_spark_job_needs_only_the_rights_it_uses(
    secure_cluster: LocalCluster, granted: Granted, spark: SparkSession, names: str
) -> None:
    def options(user: str) -> dict[str, str]:
        kafka = javaproperties.loads(secure_cluster.secrets.properties_file(user, names).read_text())
        return {f"kafka.{name}": value for name, value in kafka.items()} | secure_cluster.controller_options(
            user
        )

    rows = spark.range(50).selectExpr(f"concat('{names}-', id % 5) AS key", "CAST(id AS STRING) AS value")
    frame = rows.repartition(2, "key").write.format("ordered-kafka").options(**options(WRITER))
    frame.option("topic", granted.topic).mode("append").save()
    read = spark.read.format("ordered-kafka").options(**options(READER))
    found = read.option("subscribe", granted.topic).load().selectExpr("CAST(key AS STRING) AS key").collect()
    assert sum(row.key.startswith(names) for row in found) == 50
    wrong = options(READER) | {"controller.password": "wrong"}
    refused = spark.read.format("ordered-kafka").options(**wrong).option("subscribe", granted.topic).load()
    with pytest.raises(Exception, match="SASL_AUTHENTICATION_FAILED"):
        refused.collect()
