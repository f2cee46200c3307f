"""Readers outside Spark, each in one thread of one process: how far the way from Kafka to Arrow is from its limit."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from importlib.util import find_spec

import numpy as np
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, TopicPartition

from benchmarks import loop
from benchmarks.bench import Bench
from benchmarks.figures import OURS, Measurement, Sample, alternate
from spark_ordered_kafka.errors import UnavailableError
from spark_ordered_kafka.spark.datasource import OrderedKafkaDataSource

_PARTITIONS = 4
_TIMEOUT = 30.0
_BATCH = 10_000
_COPIED = 500_000_000


def limits(bench: Bench) -> Iterator[Measurement]:
    """A whole topic read outside Spark: into Arrow by this package and by kafkarrow, into messages, into nothing by C."""
    records = bench.scale.small
    topic = bench.filled(_PARTITIONS, records, 100)
    contenders: dict[str, Callable[[], float]] = {OURS: lambda: _ours(bench, topic, records)}
    missing = []
    program = loop.compiled(bench.directory)
    if program is None:
        missing.append("no C compiler: no loop in C")
    else:
        servers = bench.cluster.bootstrap_servers
        contenders["loop in C"] = lambda: loop.seconds(program, servers, topic, _PARTITIONS, records)
    contenders["consume()"] = lambda: _consume(bench, topic, records)
    if find_spec("kafkarrow") is None:
        missing.append("kafkarrow is not installed")
    else:
        contenders["kafkarrow"] = lambda: _kafkarrow(bench, topic, records)

    def run(name: str) -> Sample:
        sample = bench.usage.watched(lambda: records / contenders[name](), records)
        bench.say(f"limits: {name}: {sample.value:,.0f} records/s")
        return sample

    samples = alternate(contenders, run, bench.scale.rounds)
    note = "; ".join(
        ["Ours reads four tasks one after another; the others all partitions at once, in any order", *missing]
    )
    title = "one thread outside Spark, 100 B, 4 partitions"
    yield Measurement("limits", title, "records/s", "more", samples, note=f"{note}.")
    copies = {"memcpy": [Sample(_copied()) for _ in range(bench.scale.rounds)]}
    yield Measurement("limits", "copying memory, one core", "GB/s", "more", copies)


def _ours(bench: Bench, topic: str, records: int) -> float:
    """Seconds in which all tasks of a batch read have been read, one after another."""
    source = OrderedKafkaDataSource({**bench.options(OURS), "subscribe": topic})
    reader = source.reader(source.schema())
    tasks = reader.partitions()
    begun = time.perf_counter()
    found = sum(batch.num_rows for task in tasks for batch in reader.read(task))
    return _taken(begun, found, records)


def _consume(bench: Bench, topic: str, records: int) -> float:
    """Seconds in which confluent-kafka's consumer has given all messages."""
    own = {
        "group.id": f"bench-{uuid.uuid4().hex}",
        "enable.auto.commit": "false",
        "fetch.queue.backoff.ms": "1",
    }
    consumer = Consumer({**bench.connection.kafka, **own})
    try:
        begun = time.perf_counter()
        consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(_PARTITIONS)])
        found = 0
        while found < records and time.perf_counter() < begun + _TIMEOUT:
            messages = consumer.consume(_BATCH, 1.0)
            for error in filter(None, map(Message.error, messages)):
                raise KafkaException(error)
            found += len(messages)
        return _taken(begun, found, records)
    finally:
        consumer.close()


def _kafkarrow(bench: Bench, topic: str, records: int) -> float:
    """Seconds in which kafkarrow gives so many records as Arrow batches, by those that it gives.

    It keeps the last of a topic back, since records of a transaction have an end that it does not see.
    """
    import kafkarrow

    config = {**bench.connection.kafka, "group.id": f"bench-{uuid.uuid4().hex}"}
    begun = last = time.perf_counter()
    manager = kafkarrow.ConsumerManager(config=config, topics=[kafkarrow.SourceTopic.from_earliest(topic)])
    found = 0
    while found < records and time.perf_counter() < begun + _TIMEOUT:
        rows = manager.poll(timeout_ms=1000).num_rows
        if rows:
            found += rows
            last = time.perf_counter()
        elif 2 * found > records:
            break
    if 2 * found <= records:
        raise UnavailableError(f"kafkarrow gave {found} of {records} records within {_TIMEOUT:g} s")
    return (last - begun) * records / found


def _copied() -> float:
    """Gigabytes that one core copies in a second, from memory to memory: more than caches hold."""
    source = np.ones(_COPIED, np.uint8)
    target = np.zeros_like(source)
    begun = time.perf_counter()
    np.copyto(target, source)
    return _COPIED / 1e9 / (time.perf_counter() - begun)


def _taken(begun: float, found: int, records: int) -> float:
    if found < records:
        raise UnavailableError(f"{found} of {records} records came within {_TIMEOUT:g} s")
    return time.perf_counter() - begun
