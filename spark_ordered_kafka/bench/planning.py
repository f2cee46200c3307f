"""How long it takes to plan reassignments of a very large cluster."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spark_ordered_kafka.bench.figures import Spread
from spark_ordered_kafka.controller.placement.planner import Broker, Goal, Partition, Snapshot, plan
from spark_ordered_kafka.errors import ConfigError

GOAL_SECONDS = 10.0

_SEED = 179
_RACKS = 10
_FACTOR = 3
_PARTITIONS_OF_A_TOPIC = 100
_MEDIAN_BYTES = 1_000_000_000
# Some partitions are a hundred times as large as others, as in clusters that grew.
_DEVIATION = 1.5


@dataclass(frozen=True)
class PlanningTiming:
    """A goal that was planned for several times: seconds, and the replicas and bytes that its plan moves."""

    goal: str
    seconds: Spread
    replicas: int
    bytes: int | None


@dataclass(frozen=True)
class PlanningReport:
    """What :func:`measure_planning` measured; the goal is that of 1,000 brokers and 200,000 partitions."""

    brokers: int
    partitions: int
    timings: tuple[PlanningTiming, ...]
    goal_seconds: float = GOAL_SECONDS


def measure_planning(
    brokers: int, partitions: int, repeats: int, clock: Callable[[], float] = time.perf_counter
) -> PlanningReport:
    """Plan for a cluster of ten racks with three replicas of each partition, placed at random, their sizes differing.

    A hundredth of the brokers is drained; as many, new and empty, get their share; all are balanced.

    :param clock: seconds, monotonic.
    :raises ConfigError: fewer than 40 brokers, of which plans can be made, or no partitions.
    """
    for name, value, least in (
        ("brokers", brokers, 4 * _RACKS),
        ("partitions", partitions, 1),
        ("repeats", repeats, 1),
    ):
        if value < least:
            raise ConfigError(name, value, f"must be {least} or greater")
    some = max(1, brokers // 100)
    old, new = tuple(range(some)), tuple(range(brokers - some, brokers))
    full, grown = _snapshot(brokers, brokers, partitions), _snapshot(brokers, brokers - some, partitions)
    cases = {
        f"drain {some} brokers": (full, Goal("drain", brokers=old)),
        f"spread onto {some} new brokers": (grown, Goal("spread", brokers=new)),
        "balance all brokers": (full, Goal("balance")),
    }
    timings = tuple(_timing(name, *case, repeats, clock) for name, case in cases.items())
    return PlanningReport(brokers, partitions, timings)


def _timing(
    name: str, snapshot: Snapshot, goal: Goal, repeats: int, clock: Callable[[], float]
) -> PlanningTiming:
    seconds = []
    for _ in range(repeats):
        begun = clock()
        planned = plan(snapshot, goal)
        seconds.append(clock() - begun)
    return PlanningTiming(name, Spread.of(seconds), planned.replicas, planned.size)


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
