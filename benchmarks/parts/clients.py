"""The plain clients beside confluent-kafka's own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.bench import Bench
from benchmarks.figures import OURS, Measurement, Sample
from spark_ordered_kafka.bench.rates import Workload, compare_consumers, compare_producers

_PLAIN = "confluent-kafka"


def clients(bench: Bench) -> Iterator[Measurement]:
    """OrderedProducer and OrderedConsumer beside Producer and Consumer, in the same transactions."""
    topics = bench.topic(4, {}), bench.topic(4, {})
    load = Workload(bench.scale.large, 100, bench.scale.rounds)
    produced = compare_producers(bench.connection, topics, load, bench.say)
    yield _measurement("OrderedProducer beside produce()", produced, load)
    consumed = compare_consumers(bench.connection, topics[1], load, bench.say)
    yield _measurement("OrderedConsumer beside consume()", consumed, load)


def _measurement(title: str, pairs: Sequence[tuple[float, float]], load: Workload) -> Measurement:
    samples = {
        OURS: [Sample(ordered, load.records) for _, ordered in pairs],
        _PLAIN: [Sample(plain, load.records) for plain, _ in pairs],
    }
    return Measurement("clients", title, "records/s", "more", samples, 1.0)
