"""Which brokers a cluster has now."""

from __future__ import annotations

from functools import partial

from confluent_kafka.admin import AdminClient

from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.kafka.clients import new_client, translating
from spark_ordered_kafka.kafka.known_brokers import note_brokers
from spark_ordered_kafka.kafka.properties import admin_properties
from spark_ordered_kafka.kafka.shared_answers import SHARED_ANSWERS

# Seconds for one of them to answer.
_PATIENCE = 5.0


def live_brokers(connection: Connection, topic: str) -> frozenset[int]:
    """The ids of the brokers that Kafka takes for alive. ``topic``: any one that the login may describe.

    A new client asks: librdkafka (2.16) asks the broker that it has sent something last, so that one which waits for a
    frozen broker asks just that. All threads of a process that wait for the answer share it (D-489). Raises
    UnavailableError where no broker answers.
    """
    return SHARED_ANSWERS.get(("brokers", connection.bootstrap_servers), partial(_ask, connection, topic))


def _ask(connection: Connection, topic: str) -> frozenset[int]:
    admin = new_client(AdminClient, admin_properties({**connection.kafka, "log_level": "3"}))
    with translating("asking for the brokers"):
        found = admin.list_topics(topic, _PATIENCE)
    note_brokers(connection.bootstrap_servers, found)
    return frozenset(found.brokers)
