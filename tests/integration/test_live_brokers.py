"""Which brokers there are, asked for by those who wait in vain for one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.errors import UnavailableError
from spark_ordered_kafka.kafka import live_brokers as module
from spark_ordered_kafka.kafka import shared_answers
from spark_ordered_kafka.kafka.live_brokers import live_brokers
from spark_ordered_kafka.local import LocalCluster
from tests.servers import TIMEOUT, await_true

_TOPIC = "there-may-be-none"


def _connection(bootstrap_servers: str) -> Connection:
    return Connection({"bootstrap.servers": bootstrap_servers}, "http://nowhere")


def test_threads_share_an_answer(kafka_cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def counted(properties: dict[str, Any]) -> AdminClient:
        made.append(properties)
        return AdminClient(properties)

    monkeypatch.setattr(module, "AdminClient", counted)
    monkeypatch.setattr(shared_answers, "_PATIENCE", TIMEOUT)
    # None of before, and none that gets old while a busy machine starts the threads.
    monkeypatch.setattr(module, "_answers", {})
    monkeypatch.setattr(module, "_FRESH", 3600.0)
    connection = _connection(kafka_cluster.bootstrap_servers)
    with ThreadPoolExecutor(20) as threads:
        found = list(threads.map(live_brokers, repeat(connection, 100), repeat(_TOPIC)))
    assert set(found) == {frozenset({1})}
    # One asks; those that came meanwhile ask once more.
    assert len(made) <= 2


def test_no_broker_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PATIENCE", 0.5)
    with pytest.raises(UnavailableError, match="while asking for the brokers"):
        live_brokers(_connection("127.0.0.1:1"), _TOPIC)


@pytest.mark.long
def test_a_frozen_broker_is_none_of_them(three_brokers: LocalCluster) -> None:
    connection = _connection(three_brokers.bootstrap_servers)
    await_true(lambda: live_brokers(connection, _TOPIC) == {1, 2, 3}, "all brokers are known")
    three_brokers.pause("broker-2")
    try:
        await_true(lambda: live_brokers(connection, _TOPIC) == {1, 3}, "the frozen one has been replaced")
    finally:
        three_brokers.resume("broker-2")
    await_true(lambda: live_brokers(connection, _TOPIC) == {1, 2, 3}, "all brokers are known again")
