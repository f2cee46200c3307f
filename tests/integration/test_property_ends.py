"""librdkafka's properties at the ends of their ranges: clients refuse them when they are made, or keep every promise."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest

from spark_ordered_kafka import OrderedConsumer, OrderedProducer
from spark_ordered_kafka.errors import ConfigError, ErrorCode, RequestError
from spark_ordered_kafka.local import LocalCluster
from tests.servers import TIMEOUT, unique_name
from tests.streams import change, conf, create

KEYS, ROUNDS = 5, 20

# fmt: off
OF_BOTH: Mapping[str, Sequence[Any]] = {
    "api.version.fallback.ms": (604_800_000,), "api.version.request": ("false",),
    "api.version.request.timeout.ms": (300_000,), "broker.address.family": ("v4",),
    "broker.address.ttl": (0, 86_400_000), "broker.version.fallback": ("0.8.0",),
    "client.dns.lookup": ("resolve_canonical_bootstrap_servers_only",), "client.id": ("", "ä", "x" * 1000),
    "client.rack": ("a",), "connections.max.idle.ms": (500, 2**31 - 1), "enable.metrics.push": ("false",),
    "enable.random.seed": ("false",), "enabled_events": (0, 255, 2**31 - 1), "internal.termination.signal": (0, 29),
    "log.connection.close": ("false",), "log.queue": ("true",), "log.thread.name": ("false",), "log_level": (0, 7),
    "max.in.flight.requests.per.connection": (1, 5, 6, 1_000_000), "message.copy.max.bytes": (0, 1_000_000_000),
    "message.max.bytes": (1000, 1_000_000_000), "metadata.max.age.ms": (1, 86_400_000),
    "metadata.recovery.rebootstrap.trigger.ms": (1000, 2**31 - 1), "metadata.recovery.strategy": ("none", "rebootstrap"),
    "receive.message.max.bytes": (1000, 2**31 - 1), "reconnect.backoff.max.ms": (0, 3_600_000),
    "reconnect.backoff.ms": (0, 3_600_000), "request.timeout.ms": (1, 120_000, 900_000),
    "retry.backoff.max.ms": (1, 300_000), "retry.backoff.ms": (1, 300_000),
    "socket.connection.setup.timeout.ms": (1000, 2**31 - 1), "socket.keepalive.enable": ("true",),
    "socket.max.fails": (0, 1_000_000), "socket.nagle.disable": ("false",),
    "socket.receive.buffer.bytes": (1, 100_000_000), "socket.send.buffer.bytes": (1, 100_000_000),
    "socket.timeout.ms": (300_000,), "topic.blacklist": ("^nothing",),
    "topic.metadata.propagation.max.ms": (0, 3_600_000), "topic.metadata.refresh.fast.interval.ms": (1, 60_000),
    "topic.metadata.refresh.interval.ms": (-1, 0, 1, 3_600_000), "topic.metadata.refresh.sparse": ("true", "false"),
}
OF_PRODUCER: Mapping[str, Sequence[Any]] = {
    "batch.num.messages": (1, 1_000_000), "batch.size": (1, 2**31 - 1), "commit.interval.ms": (0, 1, 100_000_000),
    "commit.max.records": (1, 2**31 - 1), "compression.codec": ("gzip", "snappy", "lz4", "zstd"),
    "compression.level": (-1, 12), "delivery.report.only.error": (True,), "delivery.timeout.ms": (120_000,),
    "enable.gapless.guarantee": ("true",), "linger.ms": (0, 0.001, 50_000, 900_000),
    "message.send.max.retries": (0,), "message.timeout.ms": (0, 1, 2**31 - 1), "produce.offset.report": (True,),
    "queue.buffering.backpressure.threshold": (1, 1_000_000), "queue.buffering.max.kbytes": (1, 2**31 - 1),
    "queue.buffering.max.messages": (0, 2**31 - 1), "queuing.strategy": ("fifo", "lifo"), "retries": (0, 1, 2**31 - 1),
    "sticky.partitioning.linger.ms": (0, 900_000), "transaction.timeout.ms": (1000, 900_000, 2**31 - 1),
}
OF_CONSUMER: Mapping[str, Sequence[Any]] = {
    "auto.commit.enable": ("false",), "auto.commit.interval.ms": (0, 1, 86_400_000), "check.crcs": ("true",),
    "consume.callback.max.messages": (1,), "coordinator.query.interval.ms": (1, 3_600_000),
    "enable.partition.eof": ("true",), "fetch.error.backoff.ms": (0, 300_000), "fetch.max.bytes": (0, 1, 2147483135),
    "fetch.message.max.bytes": (1, 1_000_000_000), "fetch.min.bytes": (100_000_000,),
    "fetch.queue.backoff.ms": (0, 300_000), "fetch.wait.max.ms": (0, 300_000), "group.instance.id": ("me",),
    "group.protocol.type": ("other",), "heartbeat.interval.ms": (1, 3_600_000),
    "isolation.level": ("read_uncommitted",), "max.poll.interval.ms": (1, 86_400_000),
    "offset.store.method": ("none", "file"), "queued.max.messages.kbytes": (1, 2097151),
    "queued.min.messages": (1, 10_000_000), "session.timeout.ms": (1, 3_600_000),
}
# fmt: on
# Brokers have bounds of their own, and say so when they are met.
REFUSED_BY_BROKERS = {("session.timeout.ms", 1), ("transaction.timeout.ms", 2**31 - 1)}


def cases() -> list[Any]:
    """Client, property and value."""
    tables = (("both", OF_BOTH), ("producer", OF_PRODUCER), ("consumer", OF_CONSUMER))
    return [
        pytest.param(
            client, name, value, marks=() if name in SHORT else pytest.mark.long, id=f"{name}={value!s:.20}"
        )
        for client, table in tables
        for name, values in table.items()
        for value in values
    ]


SHORT = frozenset({"max.in.flight.requests.per.connection", "session.timeout.ms", "message.timeout.ms"})


def reader_conf(cluster: LocalCluster) -> dict[str, Any]:
    return conf(cluster, group_id=unique_name("group"), auto_offset_reset="earliest")


def write(producer: OrderedProducer, topic: str, rounds: range) -> None:
    for number in rounds:
        for key in range(KEYS):
            producer.produce(topic, f"{key}:{number}", str(key))
    assert producer.flush(2 * TIMEOUT) == 0, "not all records were committed"


def read(consumer: OrderedConsumer, counts: dict[str, int], rounds: int) -> None:
    """Until each key has come ``rounds`` times; its numbers must ascend without a gap."""
    deadline = time.monotonic() + 2 * TIMEOUT
    while set(counts.values()) != {rounds}:
        assert time.monotonic() < deadline, counts
        for message in consumer.consume(100, 0.2):
            if message.error() is None:
                key, number = cast(bytes, message.value()).decode().split(":")
                assert int(number) == counts[key]
                counts[key] += 1


def take_turns(cluster: LocalCluster, topic: str, ours: dict[str, Any], client: str) -> None:
    """Writes, changes the partition count, reads, and writes while it is read."""
    writing, reading = conf(cluster), reader_conf(cluster)
    with OrderedProducer(writing | (ours if client != "consumer" else {})) as producer:
        write(producer, topic, range(ROUNDS // 2))
        change(cluster, topic, 3)
        write(producer, topic, range(ROUNDS // 2, ROUNDS))
    counts = {str(key): 0 for key in range(KEYS)}
    with OrderedConsumer(reading | (ours if client != "producer" else {})) as consumer:
        consumer.subscribe([topic])
        read(consumer, counts, ROUNDS)
        with OrderedProducer(writing) as producer:
            write(producer, topic, range(ROUNDS, ROUNDS + 5))
        read(consumer, counts, ROUNDS + 5)
        # The end of a partition may be told only now, with enable.partition.eof.
        assert [one.value() for one in consumer.consume(100, 0.2) if one.error() is None] == []


@pytest.mark.parametrize(("client", "name", "value"), cases())
def test_a_property_is_refused_at_once_or_keeps_all_promises(
    cluster: LocalCluster, topic_name: str, client: str, name: str, value: Any
) -> None:
    create(cluster, topic_name, 2)
    ours = {name: value}
    if is_refused(cluster, ours, client):
        return
    if (name, value) in REFUSED_BY_BROKERS:
        with pytest.raises(RequestError) as refused:
            take_turns(cluster, topic_name, ours, client)
        assert refused.value.code is ErrorCode.INVALID_CONFIG
    else:
        take_turns(cluster, topic_name, ours, client)


def is_refused(cluster: LocalCluster, ours: dict[str, Any], client: str) -> bool:
    """Whether a client cannot be made with this property; the error must be ConfigError."""
    try:
        if client != "consumer":
            OrderedProducer(conf(cluster) | ours).close()
        if client != "producer":
            OrderedConsumer(reader_conf(cluster) | ours).close()
    except ConfigError:
        return True
    return False
