"""Requests of a transaction that got no answer are counted before the transaction's end is told, and nothing else is."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager

import psutil
import pytest
from confluent_kafka import Producer

from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.kafka.ledger import Fingerprint, LedgerEntry
from spark_ordered_kafka.kafka.pool import ProducerPool
from spark_ordered_kafka.kafka.producer import TransactionalProducer
from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.native.loading import VARIABLE, kernel
from spark_ordered_kafka.native.unanswered import CountingWatch, has_retries, watch
from tests.inside import undelivered
from tests.servers import TIMEOUT, await_true, unique_name


@contextmanager
def mode(name: str) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, name)
        kernel.cache_clear()
        yield
    kernel.cache_clear()


@pytest.fixture
def with_kernel() -> Iterator[None]:
    with mode("require"):
        yield


@pytest.fixture
def without_kernel() -> Iterator[None]:
    with mode("off"):
        yield


@pytest.fixture
def topic(make_topic: Callable[..., str]) -> str:
    return make_topic(prefix="unanswered")


def made(cluster: LocalCluster, topic: str) -> TransactionalProducer:
    connection = Connection({"bootstrap.servers": cluster.bootstrap_servers}, "http://nobody:1")
    return TransactionalProducer(connection, topic, unique_name("unanswered"), TIMEOUT)


def sockets() -> dict[int, int]:
    """The connections of this process: by local port the descriptor, whose number a later one may get again."""
    found = psutil.Process().net_connections("tcp")
    return {one.laddr.port: one.fd for one in found if one.status == "ESTABLISHED"}


def break_others(before: Mapping[int, int]) -> None:
    """Break the connections that were opened since ``before``."""
    for port, descriptor in sockets().items():
        if port not in before:
            with socket.socket(fileno=os.dup(descriptor)) as broken:
                broken.shutdown(socket.SHUT_RDWR)


def test_a_broken_connection_counts_if_an_answer_was_due(
    with_kernel: None, kafka_cluster: LocalCluster, topic: str
) -> None:
    before = sockets()
    producer = made(kafka_cluster, topic)
    pool = ProducerPool()
    connection = Connection({}, "http://nobody:1")

    def transaction(sequence: int) -> None:
        producer.begin()
        producer.send(0, [{"key": b"key", "value": b"value"}], 8)
        producer.commit(LedgerEntry(sequence, Fingerprint(1)))

    for sequence in range(3):
        transaction(sequence)
        pool.give_back(connection, producer)
        assert pool.take(connection, producer.transactional_id) is producer
    # No answer was due on these.
    break_others(before)
    transaction(3)
    assert producer.is_clean()

    def lost() -> bool:
        sequence = 1 + (0 if producer.last is None else producer.last.sequence)
        kafka_cluster.pause("broker-1")
        with ThreadPoolExecutor() as threads:
            try:
                begun = threads.submit(transaction, sequence)
                await_true(lambda: undelivered(producer) > 0, "the record is queued")
                # In a moment the first request is on its way, as a rule.
                wait([begun], 0.05)
                break_others(before)
            finally:
                kafka_cluster.resume("broker-1")
            begun.result(TIMEOUT)
        # It was committed all the same.
        assert producer.last == LedgerEntry(sequence, Fingerprint(1))
        return not producer.is_clean()

    await_true(lost, "requests of a transaction are lost")
    pool.give_back(connection, producer)
    assert pool.take(connection, producer.transactional_id) is None


def test_the_counter_lives_as_long_as_the_producer_or_its_owner(
    with_kernel: None, kafka_cluster: LocalCluster
) -> None:
    properties = {"bootstrap.servers": kafka_cluster.bootstrap_servers}
    watches = [CountingWatch(kernel()) for _ in range(3)]
    producers = [Producer(one.watching(properties)) for one in watches]
    watches.pop()
    assert producers[2].list_topics(timeout=TIMEOUT).topics is not None
    producers.pop(0)
    assert all(one.all_answered(producers[0].poll) for one in watches)


def test_other_plugins_and_properties_stay(with_kernel: None) -> None:
    properties = watch().watching({"plugin.library.paths": "/lib/other.so", "linger.ms": "1"})
    assert properties["linger.ms"] == "1"
    other, own = properties["plugin.library.paths"].split(";")
    assert (other, own) == ("/lib/other.so", kernel().__file__)


def test_without_the_kernel_statistics_tell_and_no_producer_is_kept(
    without_kernel: None, kafka_cluster: LocalCluster, topic: str
) -> None:
    clean: list[TransactionalProducer] = []

    def is_clean_twice() -> bool:
        producer = made(kafka_cluster, topic)
        for sequence in range(2):
            producer.begin()
            producer.commit(LedgerEntry(sequence, Fingerprint()))
            if not producer.is_clean():
                return False
        clean.append(producer)
        return True

    # On a busy machine a report comes late, and a broker may not have ended one transaction when the next one begins.
    await_true(is_clean_twice, "a producer none of whose requests was sent again")
    (producer,) = clean
    pool = ProducerPool()
    pool.give_back(Connection({}, "http://nobody:1"), producer)
    assert pool.take(Connection({}, "http://nobody:1"), producer.transactional_id) is None


@pytest.mark.parametrize(
    ("broker", "expected"),
    [
        ({"txretries": 0, "req_timeouts": 0}, False),
        ({"txretries": 1}, True),
        ({"req_timeouts": 2}, True),
        ({}, False),
    ],
)
def test_statistics_that_show_a_retry(broker: dict[str, int], expected: bool) -> None:
    assert has_retries({"brokers": {"a": {"txretries": 0}, "b": broker}}) is expected
