"""Which brokers a cluster has now."""

from __future__ import annotations

import time
from functools import partial

from confluent_kafka.admin import AdminClient

from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.errors import UnavailableError
from spark_ordered_kafka.kafka.clients import new_client, translating
from spark_ordered_kafka.kafka.known_brokers import note_brokers
from spark_ordered_kafka.kafka.properties import admin_properties
from spark_ordered_kafka.kafka.shared_answers import SHARED_ANSWERS

# Seconds for one of them to answer, and for which an answer holds: hundreds of writers may wait at the same time.
_PATIENCE, _FRESH = 5.0, 1.0
# By bootstrap.servers: the newest answer, and when it was asked for.
_answers: dict[str, tuple[float, frozenset[int]]] = {}


def live_brokers(connection: Connection, topic: str) -> frozenset[int]:
    """The ids of the brokers that Kafka takes for alive. ``topic``: any one that the login may describe.

    A new client asks: librdkafka (2.16) asks the broker that it has sent something last, so that one which waits for a
    frozen broker asks just that. Threads of a process share the answers, which are a second old at most (D-489). Raises
    UnavailableError where no broker answers.
    """
    asked_at, brokers = _answers.get(connection.bootstrap_servers, (float("-inf"), frozenset()))
    if time.monotonic() < asked_at + _FRESH:
        return brokers
    return SHARED_ANSWERS.get(("brokers", connection.bootstrap_servers), partial(_ask, connection, topic))


def _ask(connection: Connection, topic: str) -> frozenset[int]:
    asked_at = time.monotonic()
    admin = new_client(AdminClient, admin_properties({**connection.kafka, "log_level": "3"}))
    with translating("asking for the brokers"):
        found = admin.list_topics(topic, _PATIENCE)
    if not found.brokers:
        raise UnavailableError("a broker that has just started knows of no broker yet")
    note_brokers(connection.bootstrap_servers, found)
    brokers = frozenset(found.brokers)
    _answers[connection.bootstrap_servers] = asked_at, brokers
    return brokers
