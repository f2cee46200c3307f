"""A topic of thousands of partitions on one broker: what its life costs, and reading it beside Spark's own connector."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from benchmarks.bench import FORMATS, Bench
from benchmarks.figures import OURS, Measurement, Sample, alternate
from benchmarks.parts.pauses import at_changes
from benchmarks.usage import resident_mb
from spark_ordered_kafka.client.consumer import OrderedConsumer
from spark_ordered_kafka.errors import UnavailableError

_WRITERS = 10
_TIMEOUT = 120.0
_ROWS, _VALUE = 100_000, 100
_Result = TypeVar("_Result")


def large_topic(bench: Bench) -> Iterator[Measurement]:
    """A topic of thousands of partitions: creation, growth under writers, description, first records."""
    most = bench.scale.large_partitions
    half = most // 2
    created, topic = _timed(lambda: bench.topic(half, {}))
    yield _row(f"creating a topic of {half:,} partitions", created, "s")

    bench.say(f"large-topic: from {half:,} to {most:,} partitions, and back")
    found = at_changes(bench, topic, _WRITERS, (most, half, most))
    title = f"pause of a writer at a change between {half:,} and {most:,} partitions, {_WRITERS} writers"
    samples = [Sample(1000 * seconds) for seconds in found]
    yield Measurement("large-topic", title, "ms", "less", {OURS: samples}, note=_memory(bench))

    described, _ = _timed(lambda: bench.controller.topic(topic))
    yield _row(f"describing {most:,} partitions through the controller", 1000 * described, "ms")

    bench.fill(topic, bench.rows(_ROWS, _VALUE))
    consumed, _ = _timed(lambda: _first_record(bench, topic))
    yield _row(f"OrderedConsumer of {most:,} partitions, from its start to the first record", consumed, "s")

    def count(contender: str) -> Sample:
        taken, _ = _timed(lambda: bench.read(contender, topic).count())
        return Sample(taken)

    title = f"batch read of {_ROWS:,} records in {most:,} partitions, counted"
    read = alternate(FORMATS, count, 1, warm_ups=0)
    yield Measurement("large-topic", title, "s", "less", read)


def _timed(work: Callable[[], _Result]) -> tuple[float, _Result]:
    """Seconds, and what the work returns."""
    begun = time.monotonic()
    result = work()
    return time.monotonic() - begun, result


def _row(title: str, value: float, unit: str) -> Measurement:
    return Measurement("large-topic", title, unit, "less", {OURS: [Sample(value)]})


def _memory(bench: Bench) -> str:
    found = bench.cluster.description()
    controller, broker = (resident_mb(found[kind][0]["pid"]) for kind in ("controllers", "brokers"))
    return f"Afterwards the controller has {controller:.0f} MB, the broker {broker:.0f} MB."


def _first_record(bench: Bench, topic: str) -> None:
    conf = {**bench.connection.kafka, "controller.url": bench.connection.controller_url}
    with OrderedConsumer({**conf, "group.id": topic, "auto.offset.reset": "earliest"}) as consumer:
        consumer.subscribe([topic])
        deadline = time.monotonic() + _TIMEOUT
        while not consumer.consume(1, 1.0):
            if time.monotonic() >= deadline:
                raise UnavailableError(f"a consumer of {topic!r} got no record within {_TIMEOUT:g} s")
