"""confluent-kafka's serializers over the plain clients, with its Schema Registry client, as docs/clients.md shows them.

The registry is the client's own in-process one (``mock://``): none is to be had as a Java library. Brokers and controller
are real.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import (
    MessageField,
    SerializationContext,
    SerializationError,
    StringDeserializer,
    StringSerializer,
)

from spark_ordered_kafka import OrderedProducer
from spark_ordered_kafka.errors import ConfigErrors
from tests.integration.members import Room, read_until
from tests.streams import change, conf, create

FIELDS = [("account", "string"), ("amount", "long")]
AVRO = json.dumps(
    {"type": "record", "name": "Payment", "fields": [{"name": name, "type": kind} for name, kind in FIELDS]}
)
JSON = json.dumps(
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Payment",
        "type": "object",
        "properties": {"account": {"type": "string"}, "amount": {"type": "integer"}},
        "required": ["account", "amount"],
    }
)


def avro(registry: SchemaRegistryClient) -> tuple[Any, Any]:
    return AvroSerializer(registry, AVRO), AvroDeserializer(registry, AVRO)


def of_json(registry: SchemaRegistryClient) -> tuple[Any, Any]:
    return JSONSerializer(JSON, registry), JSONDeserializer(JSON, schema_registry_client=registry)


@pytest.mark.parametrize("of", [avro, of_json])
def test_serialized_records_keep_their_order_through_a_change(
    room: Room, topic_name: str, of: Callable[[SchemaRegistryClient], tuple[Any, Any]]
) -> None:
    create(room.cluster, topic_name, 1)
    registry = SchemaRegistryClient.new_client({"url": f"mock://{topic_name}"})
    to_value, from_value = of(registry)
    to_key, from_key = StringSerializer(), StringDeserializer()
    of_key, of_value = (
        SerializationContext(topic_name, field) for field in (MessageField.KEY, MessageField.VALUE)
    )
    with OrderedProducer(conf(room.cluster)) as producer:

        def pay(amounts: range) -> None:
            for amount in amounts:
                for account in ("a", "b", "c"):
                    payment = {"account": account, "amount": amount}
                    producer.produce(
                        topic_name, key=to_key(account, of_key), value=to_value(payment, of_value)
                    )

        pay(range(20))
        change(room.cluster, topic_name, 3)
        pay(range(20, 40))
        with pytest.raises((SerializationError, ValueError, TypeError, KeyError)):
            to_value({"account": 1}, of_value)
    assert registry.get_latest_version(f"{topic_name}-value").version == 1
    member = room.member(topic_name)
    read_until([member], lambda: len(member.messages) >= 120, "payments")
    found: dict[str, list[int]] = {}
    for message in member.messages:
        payment = from_value(message.value(), of_value)
        assert payment["account"] == from_key(message.key(), of_key)
        found.setdefault(payment["account"], []).append(payment["amount"])
    assert found == {account: list(range(40)) for account in ("a", "b", "c")}


def test_serializers_are_no_options(room: Room) -> None:
    servers = conf(room.cluster) | {
        "key.serializer": StringSerializer(),
        "value.serializer": StringSerializer(),
    }
    with pytest.raises(ConfigErrors, match=r"produce\(topic, key=serializer\(key, context\)\)"):
        OrderedProducer(servers)
