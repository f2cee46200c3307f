"""Small micro-batches, and the transactions of their tasks."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from statistics import median

import pyarrow as pa
from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.bench import FORMATS, SPARKS, Bench
from benchmarks.figures import OURS, Measurement, Sample, alternate
from benchmarks.progress import batch_milliseconds
from spark_ordered_kafka.kafka.properties import client_properties
from spark_ordered_kafka.kafka.replay import Claim
from spark_ordered_kafka.spark.options import SinkOptions
from spark_ordered_kafka.spark.sink import write_task

_BATCH = 1_000
# Micro-batches of each query before those that count.
_FIRST = 3
_ROWS = 250
_TIMEOUT = 60.0


def small_batches(bench: Bench) -> Iterator[Measurement]:
    """Micro-batches of 1,000 records from source to sink, one after another: the median of a query."""
    yield _micro_batches(bench, "micro-batch", 4, bench.scale.micro_batches, 1.8)


def partitions(bench: Bench) -> Iterator[Measurement]:
    """Micro-batches of 1,000 records with 1, 16 and 64 partitions."""
    for count in (1, 16, 64):
        yield _micro_batches(bench, "micro-batch-partitions", count, bench.scale.micro_batches // 4)


def _micro_batches(
    bench: Bench, part: str, partitions: int, wanted: int, goal: float | None = None
) -> Measurement:
    records = (wanted + _FIRST) * _BATCH
    source = bench.filled(partitions, records, 100)
    targets = {contender: bench.topic(partitions) for contender in FORMATS}

    def run(contender: str) -> Sample:
        limited = bench.stream(contender, source, {"maxOffsetsPerTrigger": str(_BATCH)})

        def measured() -> float:
            query = bench.write_stream(contender, limited.select("key", "value"), targets[contender])
            return median(batch_milliseconds(query)[_FIRST:])

        sample = bench.usage.watched(measured, records, workers=contender != SPARKS)
        bench.say(f"{part}: {contender}: {sample.value:.0f} ms")
        return sample

    title = f"micro-batch of 1,000 records, {partitions} partitions, source to sink, p50"
    # Each run is many micro-batches.
    samples = alternate(FORMATS, run, max(1, bench.scale.rounds - 2))
    return Measurement(part, title, "ms", "less", samples, goal)


def transactions(bench: Bench) -> Iterator[Measurement]:
    """The transaction of a task with 250 records, one after another, beside confluent-kafka's own."""
    topic = bench.topic(4)
    keys = [b"key-%d" % number for number in range(_ROWS)]
    values = [b"%0100d" % number for number in range(_ROWS)]
    contenders: dict[str, Callable[[], None]] = {
        OURS: _Task(bench, topic, keys, values).transact,
        "confluent-kafka": _Plain(bench, bench.topic(4), keys, values).transact,
    }

    def run(contender: str) -> Sample:
        def measured() -> float:
            taken = []
            for _ in range(bench.scale.transactions):
                begun = time.perf_counter()
                contenders[contender]()
                taken.append(1000 * (time.perf_counter() - begun))
            return median(taken)

        return bench.usage.watched(measured, bench.scale.transactions * _ROWS)

    samples = alternate(contenders, run, bench.scale.rounds)
    title = "transaction of a task, 250 records"
    note = "confluent-kafka's has produce(), send_offsets_to_transaction() and commit_transaction() alone."
    yield Measurement("transactions", title, "ms", "less", samples, 20.0, "value", note)


class _Task:
    """A worker's task with rows of the sink, which keeps its producer for the next one."""

    def __init__(self, bench: Bench, topic: str, keys: list[bytes], values: list[bytes]) -> None:
        self._options = SinkOptions(bench.connection, topic)
        self._writer = f"bench-{uuid.uuid4().hex[:10]}"
        self._batch = pa.RecordBatch.from_pydict(
            {"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())}
        )
        self._sequence = 0

    def transact(self) -> None:
        write_task(self._options, Claim(self._writer, self._sequence), 0, iter([self._batch]))
        self._sequence += 1


class _Plain:
    """The same records by a plain transactional producer, with an offset as a task of the sink has it."""

    def __init__(self, bench: Bench, topic: str, keys: list[bytes], values: list[bytes]) -> None:
        self._topic = topic
        self._pairs = list(zip(keys, values, strict=True))
        own = {**bench.connection.kafka, "linger.ms": "5", "compression.type": "lz4"}
        group = f"bench-{uuid.uuid4().hex[:10]}"
        self._producer = Producer(client_properties(own, transactional_id=group))
        self._producer.init_transactions(_TIMEOUT)
        self._group = _group_metadata(bench, group)
        self._sequence = 0

    def transact(self) -> None:
        self._producer.begin_transaction()
        for key, value in self._pairs:
            self._producer.produce(self._topic, value, key)
        offset = TopicPartition(self._topic, 0, self._sequence)
        self._producer.send_offsets_to_transaction([offset], self._group, _TIMEOUT)
        self._producer.commit_transaction(_TIMEOUT)
        self._sequence += 1


def _group_metadata(bench: Bench, group: str) -> object:
    consumer = Consumer({**bench.connection.kafka, "group.id": group})
    try:
        return consumer.consumer_group_metadata()
    finally:
        consumer.close()
