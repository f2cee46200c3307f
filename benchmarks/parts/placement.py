"""How long it takes to place the replicas of very many partitions on very many brokers."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping

from benchmarks.bench import Bench
from benchmarks.figures import OURS, Measurement, Sample
from benchmarks.usage import processor_time
from spark_ordered_kafka.controller.placement.place import place

_SEED = 578
_RACKS = 3
_FACTOR = 3
# Seconds, for 200,000 partitions on 1,000 brokers.
_GOAL = 5.0
_GROWTH = (10, 100, 1_000)


def placement(bench: Bench) -> Iterator[Measurement]:
    """Placing replicas by brokers, and those of a very large cluster by what its brokers can take; simulated."""
    partitions = bench.scale.partitions
    for brokers in _GROWTH:
        title = f"placing {partitions:,} partitions on {brokers:,} brokers (simulated)"
        samples = [sample for taken in _seconds(brokers, partitions, 1).values() for sample in taken]
        milliseconds = [Sample(1000 * sample.value) for sample in samples]
        yield Measurement("placement", title, "ms", "less", {OURS: milliseconds})
    brokers, partitions = bench.scale.cluster_brokers, bench.scale.cluster_partitions
    for name, samples in _seconds(brokers, partitions, bench.scale.rounds).items():
        title = f"placing {partitions:,} partitions on {brokers:,} brokers, {name} (simulated)"
        yield Measurement("placement", title, "s", "less", {OURS: samples}, _GOAL, "value")


def capacities(brokers: int, replicas: int) -> dict[str, Mapping[int, int] | None]:
    """What brokers can take of so many replicas: replicas by broker, None for any number of them."""
    rng = random.Random(_SEED)
    share, rest = divmod(replicas, brokers)
    most = -(-replicas // brokers)
    return {
        "no limits": None,
        "limits that differ": {broker: rng.randint(most, 2 * most) for broker in range(brokers)},
        "limits that are just enough": {broker: share + (broker < rest) for broker in range(brokers)},
    }


def _seconds(brokers: int, partitions: int, rounds: int) -> dict[str, list[Sample]]:
    """Processor seconds of ``rounds`` plans of one topic, by what the brokers can take."""
    cluster = {broker: f"rack-{broker % _RACKS:03}" for broker in range(brokers)}
    samples = {}
    for name, capacity in capacities(brokers, partitions * _FACTOR).items():

        def plan(capacity: Mapping[int, int] | None = capacity) -> object:
            return place(cluster, partitions, _FACTOR, capacity=capacity)

        samples[name] = processor_time(plan, rounds)
    return samples
