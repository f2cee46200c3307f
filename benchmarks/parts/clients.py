"""The plain Python clients beside confluent-kafka's own."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import cycle, islice

from confluent_kafka import Consumer, KafkaException, Message, Producer

from benchmarks.bench import Bench
from benchmarks.figures import OURS, Measurement, Sample, alternate
from spark_ordered_kafka.client.consumer import OrderedConsumer
from spark_ordered_kafka.client.producer import OrderedProducer
from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.errors import UnavailableError
from spark_ordered_kafka.kafka.properties import client_properties

_PLAIN = "confluent-kafka"
_GOAL = 1.0
_KEYS = 10_000
_VALUE_BYTES = 100
_TIMEOUT = 60.0
# Records between two calls of poll(), and from one call of consume().
_ROUND = 1_000
_COMMIT_INTERVAL_MS = 100
# Transactions before the clock starts: an OrderedProducer alternates between two instances, the second of which is
# made when it is first needed.
_WARM_UPS = 4
# OrderedProducer's defaults where librdkafka has others.
_PRODUCER = {"linger.ms": "5", "compression.type": "lz4"}
_CONSUMER = {
    "auto.offset.reset": "earliest",
    "isolation.level": "read_committed",
    "fetch.wait.max.ms": "100",
    # A consumer that empties librdkafka's queue within the second for which a full one stops it from fetching would
    # wait for the rest of it: a second more or less is not what is compared.
    "fetch.queue.backoff.ms": "10",
    "heartbeat.interval.ms": "1000",
}


def clients(bench: Bench) -> Iterator[Measurement]:
    """OrderedProducer and OrderedConsumer beside Producer and Consumer, in the same transactions."""
    topic, records, to = bench.topic(4, {}), bench.scale.large, bench.connection
    pairs = _pairs()
    producers = {
        OURS: partial(_ordered_producer_rate, to, topic, records, pairs),
        _PLAIN: partial(_plain_producer_rate, to, bench.topic(4, {}), records, pairs),
    }
    yield _compared(bench, "OrderedProducer beside produce()", producers)
    consumers = {
        OURS: partial(_ordered_consumer_rate, to, topic, records),
        _PLAIN: partial(_plain_consumer_rate, to, topic, records),
    }
    yield _compared(bench, "OrderedConsumer beside consume()", consumers)


def _compared(bench: Bench, title: str, contenders: Mapping[str, Callable[[], float]]) -> Measurement:
    def run(name: str) -> Sample:
        rate = contenders[name]()
        bench.say(f"clients: {title}: {name}: {rate:,.0f} records/s")
        return Sample(rate, bench.scale.large)

    samples = alternate(contenders, run, bench.scale.rounds)
    return Measurement("clients", title, "records/s", "more", samples, _GOAL)


def _pairs() -> list[tuple[bytes, bytes]]:
    """Keys and values that a run repeats. Text of random digits, as compression would flatter uniform values."""
    rng = random.Random(253)
    values = [rng.randbytes(_VALUE_BYTES).hex()[:_VALUE_BYTES].encode() for _ in range(_KEYS)]
    return [(b"key-%d" % number, value) for number, value in enumerate(values)]


def _warm_up(records: int) -> int:
    """Records of each transaction committed before the clock starts."""
    return max(1, records // 50)


def _plain_producer_rate(
    connection: Connection, topic: str, records: int, pairs: list[tuple[bytes, bytes]]
) -> float:
    """Records per second of a plain transactional producer that commits every 100 ms and at the end, which is within the time."""
    own = client_properties({**connection.kafka, **_PRODUCER}, transactional_id=f"bench-{uuid.uuid4().hex}")
    producer = Producer(own)
    producer.init_transactions(_TIMEOUT)
    producer.begin_transaction()
    due = time.monotonic() + _COMMIT_INTERVAL_MS / 1000

    def commit_when_due() -> None:
        nonlocal due
        if time.monotonic() >= due:
            producer.commit_transaction(_TIMEOUT)
            producer.begin_transaction()
            due = time.monotonic() + _COMMIT_INTERVAL_MS / 1000

    for _ in range(_WARM_UPS):
        _produce(producer, topic, pairs, _warm_up(records), commit_when_due)
        producer.commit_transaction(_TIMEOUT)
        producer.begin_transaction()
    begun = time.perf_counter()
    _produce(producer, topic, pairs, records, commit_when_due)
    producer.commit_transaction(_TIMEOUT)
    return records / (time.perf_counter() - begun)


def _ordered_producer_rate(
    connection: Connection, topic: str, records: int, pairs: list[tuple[bytes, bytes]]
) -> float:
    """That of an OrderedProducer, which commits as often."""
    conf = {
        **connection.kafka,
        **_PRODUCER,
        "controller.url": connection.controller_url,
        "commit.interval.ms": _COMMIT_INTERVAL_MS,
    }
    with OrderedProducer(conf) as producer:
        for _ in range(_WARM_UPS):
            _produce(producer, topic, pairs, _warm_up(records), lambda: None)
            producer.commit(_TIMEOUT)
        begun = time.perf_counter()
        _produce(producer, topic, pairs, records, lambda: None)
        producer.commit(_TIMEOUT)
        return records / (time.perf_counter() - begun)


def _produce(
    producer: Producer | OrderedProducer,
    topic: str,
    pairs: list[tuple[bytes, bytes]],
    records: int,
    after_round: Callable[[], None],
) -> None:
    stream = islice(cycle(pairs), records)
    produce, poll = producer.produce, producer.poll
    while batch := list(islice(stream, _ROUND)):
        for key, value in batch:
            try:
                produce(topic, value, key)
            except BufferError:
                _produce_late(producer, topic, key, value)
        poll(0)
        after_round()


def _produce_late(producer: Producer | OrderedProducer, topic: str, key: bytes, value: bytes) -> None:
    deadline = time.monotonic() + _TIMEOUT
    while True:
        producer.poll(0.01)
        try:
            producer.produce(topic, value, key)
        except BufferError as error:
            if time.monotonic() >= deadline:
                raise UnavailableError(f"no record of {topic!r} was sent within {_TIMEOUT:g} s") from error
        else:
            return


def _plain_consumer_rate(connection: Connection, topic: str, records: int) -> float:
    """Records per second of the first ``records`` of a topic, read by a plain Consumer in a group of its own.

    It commits automatically and calls ``consume(1000)``. The time starts with the first records, when it has joined.
    """
    consumer = Consumer(client_properties(_group_of_its_own(connection)))
    try:
        consumer.subscribe([topic])
        return _read_rate(consumer.consume, topic, records)
    finally:
        consumer.close()


def _ordered_consumer_rate(connection: Connection, topic: str, records: int) -> float:
    """That of an OrderedConsumer, with the same configuration."""
    conf = {**_group_of_its_own(connection), "controller.url": connection.controller_url}
    with OrderedConsumer(conf) as consumer:
        consumer.subscribe([topic])
        return _read_rate(consumer.consume, topic, records)


def _group_of_its_own(connection: Connection) -> dict[str, str]:
    return {**connection.kafka, **_CONSUMER, "group.id": f"bench-{uuid.uuid4().hex}"}


def _read_rate(consume: Callable[[int, float], list[Message]], topic: str, records: int) -> float:
    # The first call is not part of the time.
    limit = max(1, min(_ROUND, records // 10))
    first = count = _some(consume, topic, limit)
    begun = time.perf_counter()
    while count < records:
        count += _some(consume, topic, limit)
    return (count - first) / (time.perf_counter() - begun)


def _some(consume: Callable[[int, float], list[Message]], topic: str, limit: int) -> int:
    """How many records came, at least one."""
    deadline = time.monotonic() + _TIMEOUT
    while time.monotonic() < deadline:
        messages = consume(limit, 1.0)
        for error in filter(None, map(Message.error, messages)):
            raise KafkaException(error)
        if messages:
            return len(messages)
    raise UnavailableError(f"no records of {topic!r} came within {_TIMEOUT:g} s")
