"""Readers outside Spark, each in one thread of one process: how far the way from Kafka to Arrow is from its limit."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from importlib.util import find_spec

import numpy as np
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from benchmarks import loop
from benchmarks.bench import Bench
from benchmarks.figures import OURS, Measurement, Sample, alternate
from spark_ordered_kafka.errors import UnavailableError
from spark_ordered_kafka.spark.datasource import OrderedKafkaDataSource

_PARTITIONS = 4
_TIMEOUT = 30.0
_BATCH = 10_000
_COPIED = 500_000_000
_EMPTY_POLLS = 3


def limits(bench: Bench) -> Iterator[Measurement]:
    """A whole topic read outside Spark: into Arrow by this package and by kafkarrow, into messages, into nothing by C."""
    records = bench.scale.small
    topic = bench.filled(_PARTITIONS, records, 100)
    contenders: dict[str, Callable[[], float]] = {OURS: lambda: _rate(_ours(bench, topic), records)}
    missing = []
    program = loop.compiled(bench.directory)
    if program is None:
        missing.append("no C compiler: no loop in C")
    else:
        servers = bench.cluster.bootstrap_servers
        contenders["loop in C"] = lambda: loop.rate(program, servers, topic, _PARTITIONS, records)
    contenders["consume()"] = lambda: _rate(_consume(bench, topic, records), records)
    if find_spec("kafkarrow") is None:
        missing.append("kafkarrow is not installed")
    else:
        # It keeps the end of a topic back: it does not see where a transaction ends.
        def read() -> float:
            return _rate(_kafkarrow(bench, topic, records), records // 2)

        try:
            read()
        except UnavailableError as error:
            missing.append(f"kafkarrow: {error}")
        else:
            contenders["kafkarrow"] = read

    def run(name: str) -> Sample:
        sample = bench.usage.watched(contenders[name], records)
        bench.say(f"limits: {name}: {sample.value:,.0f} records/s")
        return sample

    samples = alternate(contenders, run, bench.scale.rounds)
    notes = [
        "From the first records on. Ours reads four tasks one after another, the others all partitions at once"
    ]
    note = "; ".join([*notes, *missing])
    title = "one thread outside Spark, 100 B, 4 partitions"
    yield Measurement("limits", title, "records/s", "more", samples, note=f"{note}.")
    copies = {"memcpy": [Sample(_copied()) for _ in range(bench.scale.rounds)]}
    yield Measurement("limits", "copying memory, one core", "GB/s", "more", copies)


def _ours(bench: Bench, topic: str) -> Iterator[int]:
    """Rows of each Arrow batch of all tasks of a batch read, one task after another."""
    source = OrderedKafkaDataSource({**bench.options(OURS), "subscribe": topic})
    reader = source.reader(source.schema())
    return (batch.num_rows for task in reader.partitions() for batch in reader.read(task))


def _consume(bench: Bench, topic: str, records: int) -> Iterator[int]:
    """Messages of each call of confluent-kafka's ``consume()``."""
    own = {
        "group.id": f"bench-{uuid.uuid4().hex}",
        "enable.auto.commit": "false",
        "fetch.queue.backoff.ms": "1",
    }
    consumer = Consumer({**bench.connection.kafka, **own})
    try:
        consumer.assign([TopicPartition(topic, p, 0) for p in range(_PARTITIONS)])
        left = records
        while left > 0 and (messages := consumer.consume(min(_BATCH, left), _TIMEOUT)):
            for error in filter(None, map(Message.error, messages)):
                raise KafkaException(error)
            left -= len(messages)
            yield len(messages)
    finally:
        consumer.close()


def _kafkarrow(bench: Bench, topic: str, records: int) -> Iterator[int]:
    """Rows of each Arrow batch of kafkarrow, until it gives no more for three seconds."""
    import kafkarrow

    config = {**bench.connection.kafka, "group.id": f"bench-{uuid.uuid4().hex}"}
    manager = kafkarrow.ConsumerManager(config=config, topics=[kafkarrow.SourceTopic.from_earliest(topic)])
    deadline, left, empty = time.monotonic() + _TIMEOUT, records, 0
    while left > 0 and empty < _EMPTY_POLLS and time.monotonic() < deadline:
        rows: int = manager.poll(timeout_ms=1000).num_rows
        empty = empty + 1 if rows == 0 and left < records else 0
        left -= rows
        yield rows


def _rate(counts: Iterator[int], wanted: int) -> float:
    """Records per second from the first that came to the last; where all came at once, from the start.

    Raises UnavailableError when fewer than ``wanted`` came.
    """
    # When how many were there.
    arrivals, found = [(time.perf_counter(), 0)], 0
    for count in counts:
        if count > 0:
            found += count
            arrivals.append((time.perf_counter(), found))
    if found < max(1, wanted):
        raise UnavailableError(f"{found} of {wanted} records came within {_TIMEOUT:g} s")
    (begun, before), (ended, _) = arrivals[min(1, len(arrivals) - 2)], arrivals[-1]
    return (found - before) / (ended - begun)


def _copied() -> float:
    """Gigabytes that one core copies in a second, from memory to memory: more than caches hold."""
    source = np.ones(_COPIED, np.uint8)
    target = np.zeros_like(source)
    begun = time.perf_counter()
    np.copyto(target, source)
    return _COPIED / 1e9 / (time.perf_counter() - begun)
