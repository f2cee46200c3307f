"""Brokers that take little at a time, as by a client quota or over a slow network: what is written comes through, once."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from spark_ordered_kafka import OrderedProducer
from spark_ordered_kafka.client import sending
from spark_ordered_kafka.local import LocalCluster
from tests.integration.members import Room, read_until
from tests.quotas import limit
from tests.servers import TIMEOUT, unique_name
from tests.streams import conf, create

_RATE = 200_000
_KEYS = 7


@pytest.fixture
def slow(cluster: LocalCluster) -> Iterator[str]:
    """The id of a client that brokers take little of."""
    client_id = unique_name("slow")
    limit(cluster.bootstrap_servers, "producer_byte_rate", _RATE, client_id)
    yield client_id
    limit(cluster.bootstrap_servers, "producer_byte_rate", None, client_id)


def write(producer: OrderedProducer, topic: str, count: int) -> None:
    for number in range(count):
        # Of what can be compressed more would pass.
        value = b"%d " % number + os.urandom(1000)
        producer.produce(topic, value, b"k%d" % (number % _KEYS))


def read(room: Room, topic: str, count: int) -> None:
    """All are there once, those of a key in order."""
    member = room.member(topic)
    read_until([member], lambda: len(member.messages) >= count, f"{count} records")
    numbers = [int((one.value() or b"").split(b" ")[0]) for one in member.messages]
    assert sorted(numbers) == [*range(count)]
    for key in range(_KEYS):
        own = [one for one in numbers if one % _KEYS == key]
        assert own == sorted(own)


@pytest.mark.long
def test_what_no_transaction_can_take_at_once_goes_in_several(room: Room, topic_name: str, slow: str) -> None:
    """It was sent again and again, whole, until brokers aborted it, and given up after ``message.timeout.ms``."""
    create(room.cluster, topic_name, 2)
    options = conf(room.cluster, client_id=slow, transaction_timeout_ms=4_000)
    with OrderedProducer(options) as producer:
        write(producer, topic_name, 5_000)
        assert producer.flush(4 * TIMEOUT) == 0
        assert producer._counts[topic_name].committed > 1
    read(room, topic_name, 5_000)


@pytest.mark.long
def test_a_transaction_goes_on_for_as_long_as_brokers_take_some_of_it(
    room: Room, topic_name: str, slow: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it had to be taken within the time of one request."""
    monkeypatch.setattr(sending, "_REQUEST_TIMEOUT", 8.0)
    create(room.cluster, topic_name, 2)
    options = conf(room.cluster, client_id=slow, commit_interval_ms=0, batch_size=100_000)
    with OrderedProducer(options) as producer:
        write(producer, topic_name, 6_000)
        producer.commit(4 * TIMEOUT)
        assert producer._counts[topic_name].committed == 1
    read(room, topic_name, 6_000)
