"""Records per second of ``OrderedProducer`` and ``OrderedConsumer``, each beside confluent-kafka's own client."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle, islice

from confluent_kafka import Consumer, KafkaException, Message, Producer

from spark_ordered_kafka.client.consumer import OrderedConsumer
from spark_ordered_kafka.client.producer import OrderedProducer
from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.errors import UnavailableError
from spark_ordered_kafka.kafka.clients import client_properties

GOAL = 0.8
_KEYS = 10_000
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


@dataclass(frozen=True)
class Workload:
    """``records`` records with values of ``value_bytes`` bytes, measured ``repeats`` times."""

    records: int
    value_bytes: int
    repeats: int

    @property
    def warm_up(self) -> int:
        """Records of each transaction committed before the clock starts."""
        return max(1, self.records // 50)

    @property
    def batch(self) -> int:
        """Records of one call of ``consume()`` at most; the first call of a run is not part of the time."""
        return max(1, min(_ROUND, self.records // 10))

    def pairs(self) -> list[tuple[bytes, bytes]]:
        """Keys and values that a run repeats. Text of random digits, as compression would flatter uniform values."""
        rng = random.Random(253)
        digits = [rng.randbytes(self.value_bytes).hex()[: self.value_bytes].encode() for _ in range(_KEYS)]
        return [(b"key-%d" % number, value) for number, value in enumerate(digits)]


def compare_producers(
    connection: Connection, topics: tuple[str, str], load: Workload, say: Callable[[str], None]
) -> list[tuple[float, float]]:
    """Records per second of a plain client and of ours, in the order of repeats.

    Run a plain transactional producer into the first topic and an OrderedProducer into the second, in turn.

    Both commit every 100 ms and at the end, which is within the time taken. The plain one calls
    ``produce(topic, value, key)``, ``poll(0)`` and, when the interval is over, ``commit_transaction()``.

    Raises UnavailableError, KafkaException or the OrderedProducer's error.
    """
    pairs = load.pairs()
    # A broker that has just started takes its time until its code is compiled.
    _plain_producer_rate(connection, topics[0], load, pairs)
    rates = []
    for repeat in range(load.repeats):
        plain = _plain_producer_rate(connection, topics[0], load, pairs)
        ordered = _ordered_producer_rate(connection, topics[1], load, pairs)
        rates.append((plain, ordered))
        say(_progress("produce", repeat, load, plain, ordered))
    return rates


def compare_consumers(
    connection: Connection, topic: str, load: Workload, say: Callable[[str], None]
) -> list[tuple[float, float]]:
    """Records per second of a plain client and of ours, in the order of repeats.

    Read the topic's first ``load.records`` records with a plain Consumer and with an OrderedConsumer, in turn.

    Both have the same configuration, read committed, commit automatically, and call ``consume(1000)``. Joining the
    group is not part of the time, which starts with the first records.

    Raises UnavailableError when no records come for a minute, KafkaException or the OrderedConsumer's error.
    """
    rates = []
    for repeat in range(load.repeats):
        conf = {**connection.kafka, **_CONSUMER, "group.id": f"bench-{uuid.uuid4().hex}"}
        reader = Consumer(client_properties(conf))
        try:
            reader.subscribe([topic])
            plain = _read_rate(reader.consume, topic, load)
        finally:
            reader.close()
        conf |= {"group.id": f"bench-{uuid.uuid4().hex}", "controller.url": connection.controller_url}
        with OrderedConsumer(conf) as ours:
            ours.subscribe([topic])
            ordered = _read_rate(ours.consume, topic, load)
        rates.append((plain, ordered))
        say(_progress("consume", repeat, load, plain, ordered))
    return rates


def _plain_producer_rate(
    connection: Connection, topic: str, load: Workload, pairs: list[tuple[bytes, bytes]]
) -> float:
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
        _produce(producer, topic, pairs, load.warm_up, commit_when_due)
        producer.commit_transaction(_TIMEOUT)
        producer.begin_transaction()
    begun = time.perf_counter()
    _produce(producer, topic, pairs, load.records, commit_when_due)
    producer.commit_transaction(_TIMEOUT)
    return load.records / (time.perf_counter() - begun)


def _ordered_producer_rate(
    connection: Connection, topic: str, load: Workload, pairs: list[tuple[bytes, bytes]]
) -> float:
    conf = {
        **connection.kafka,
        **_PRODUCER,
        "controller.url": connection.controller_url,
        "commit.interval.ms": _COMMIT_INTERVAL_MS,
    }
    with OrderedProducer(conf) as producer:
        for _ in range(_WARM_UPS):
            _produce(producer, topic, pairs, load.warm_up, lambda: None)
            producer.commit(_TIMEOUT)
        begun = time.perf_counter()
        _produce(producer, topic, pairs, load.records, lambda: None)
        producer.commit(_TIMEOUT)
        return load.records / (time.perf_counter() - begun)


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


def _read_rate(consume: Callable[[int, float], list[Message]], topic: str, load: Workload) -> float:
    first = count = _some(consume, topic, load.batch)
    begun = time.perf_counter()
    while count < load.records:
        count += _some(consume, topic, load.batch)
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


def _progress(what: str, repeat: int, load: Workload, plain: float, ordered: float) -> str:
    return f"{what} {repeat + 1}/{load.repeats}: plain {plain:,.0f}/s, ordered {ordered:,.0f}/s, {ordered / plain:.2f}"
