"""Logins of the plain clients: new credentials at run time, and JAAS as Java's clients write it."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import TopicPartition

from spark_ordered_kafka import OrderedConsumer, OrderedProducer
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.schemas import CreateTopicRequest
from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.credentials import controller_credentials
from spark_ordered_kafka.errors import RequestError
from spark_ordered_kafka.local import LocalCluster
from tests.integration.members import Member, read_until

JAAS = "org.apache.kafka.common.security.scram.ScramLoginModule required username={} password={};"


def conf(cluster: LocalCluster) -> dict[str, Any]:
    return {**cluster.kafka_properties(), **cluster.controller_options()}


@pytest.fixture
def topic(secure_cluster: LocalCluster, topic_name: str) -> str:
    options = secure_cluster.controller_options()
    url = options["controller.url"]
    connection = Connection(secure_cluster.kafka_properties(), url, controller_credentials(options, url, ""))
    with ControllerClient.of(connection) as controller:
        controller.create_topic(CreateTopicRequest(topic=topic_name, partitions=1, replication_factor=1))
    return topic_name


@pytest.mark.long
def test_a_consumer_takes_new_credentials_and_clients_take_javas_jaas(
    secure_cluster: LocalCluster, topic: str
) -> None:
    right = conf(secure_cluster)
    user, password = right.pop("sasl.username"), right.pop("sasl.password")
    jaas = right | {"sasl.jaas.config": JAAS.format(user, password)}
    if "sasl.mechanisms" in jaas:
        jaas["sasl.mechanism"] = jaas.pop("sasl.mechanisms")
    with OrderedProducer(jaas) as producer:
        producer.produce(topic, "value", "key")
    wrong = right | {"sasl.username": user, "sasl.password": "not it"}
    reading = {"group.id": topic, "auto.offset.reset": "earliest"}
    with OrderedConsumer(wrong | reading) as consumer:
        for _ in range(2):
            with pytest.raises(
                RequestError, match="SASL_AUTHENTICATION_FAILED: Kafka refuses the login of user"
            ):
                consumer.subscribe([topic])
        consumer.set_sasl_credentials(user, password)
        consumer.subscribe([topic])
        member = Member(consumer)
        read_until([member], lambda: len(member.messages) == 1, "the record")
        # For partitions by hand after a subscription there is a fresh client of librdkafka.
        consumer.unsubscribe()
        consumer.assign([TopicPartition(topic, 0, 0)])
        read_until([member], lambda: len(member.messages) == 2, "the record once more")
