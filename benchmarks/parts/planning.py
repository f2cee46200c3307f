"""How long it takes to plan reassignments of a very large cluster."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import partial

from benchmarks.bench import Bench
from benchmarks.figures import OURS, Measurement
from benchmarks.usage import processor_time
from spark_ordered_kafka.controller.placement.planner import Broker, Goal, Partition, Snapshot, plan

# Seconds, for 200,000 partitions on 1,000 brokers.
_GOAL = 10.0
_SEED = 179
_RACKS = 10
_FACTOR = 3
_PARTITIONS_OF_A_TOPIC = 100
_MEDIAN_BYTES = 1_000_000_000
# Some partitions are a hundred times as large as others, as in clusters that grew.
_DEVIATION = 1.5


def planning(bench: Bench) -> Iterator[Measurement]:
    """Planning a reassignment of a very large cluster: brokers are drained, added, and balanced; simulated."""
    brokers, partitions = bench.scale.cluster_brokers, bench.scale.cluster_partitions
    for name, (snapshot, goal) in cases(brokers, partitions).items():
        title = f"planning, {partitions:,} partitions on {brokers:,} brokers: {name} (simulated)"
        samples = processor_time(partial(plan, snapshot, goal), bench.scale.rounds)
        yield Measurement("planning", title, "s", "less", {OURS: samples}, _GOAL, "value")


def cases(brokers: int, partitions: int) -> dict[str, tuple[Snapshot, Goal]]:
    """A cluster of ten racks with three replicas of each partition, placed at random, their sizes differing.

    A hundredth of the brokers is drained; as many, new and empty, get their share; all are balanced. ``brokers`` must be
    40 or more.
    """
    some = max(1, brokers // 100)
    old, new = tuple(range(some)), tuple(range(brokers - some, brokers))
    full, grown = _snapshot(brokers, brokers, partitions), _snapshot(brokers, brokers - some, partitions)
    return {
        f"drain {some} brokers": (full, Goal("drain", brokers=old)),
        f"spread onto {some} new brokers": (grown, Goal("spread", brokers=new)),
        "balance all brokers": (full, Goal("balance")),
    }


def _snapshot(brokers: int, used: int, partitions: int) -> Snapshot:
    """A cluster whose first ``used`` brokers hold all of the partitions."""
    rng = random.Random(_SEED)
    racks: list[Sequence[int]] = [range(rack, used, _RACKS) for rack in range(_RACKS)]
    found = []
    for number in range(partitions):
        topic, partition = divmod(number, _PARTITIONS_OF_A_TOPIC)
        replicas = tuple(rng.choice(rack) for rack in rng.sample(racks, _FACTOR))
        size = int(_MEDIAN_BYTES * rng.lognormvariate(0, _DEVIATION))
        found.append(
            Partition(
                topic=f"topic-{topic:05}",
                partition=partition,
                replicas=replicas,
                leader=replicas[0],
                isr=replicas,
                sizes=(size,) * _FACTOR,
            )
        )
    return Snapshot(tuple(Broker(id=b, rack=f"rack-{b % _RACKS}") for b in range(brokers)), tuple(found))
