"""How long it takes to place the replicas of very many partitions on very many brokers."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from spark_ordered_kafka.controller.placement.place import check_sizes, place
from spark_ordered_kafka.errors import ConfigError

GOAL_SECONDS = 5.0

_SEED = 578


@dataclass(frozen=True)
class PlacementTiming:
    """One plan, made several times. ``capacity`` says what the brokers could take.

    ``spread``: the part of the partitions that have their replicas on as many racks as there can be; ``most`` and
    ``least``: replicas on the broker that got most, and on the one that got fewest.
    """

    capacity: str
    median_seconds: float
    max_seconds: float
    spread: float
    most: int
    least: int


@dataclass(frozen=True)
class PlacementReport:
    """What :func:`run` measured, by how much capacity there was; the goal is that of 1,000 brokers and 200,000
    partitions."""

    brokers: int
    racks: int
    partitions: int
    replication_factor: int
    plans: tuple[PlacementTiming, ...]
    goal_seconds: float = GOAL_SECONDS


def run(
    brokers: int,
    racks: int,
    partitions: int,
    replication_factor: int,
    repeats: int,
    clock: Callable[[], float] = time.perf_counter,
) -> PlacementReport:
    """Time plans for one topic, ``repeats`` times each.

    :param racks: the brokers are spread over them evenly; 0: none has one.
    :param clock: seconds, monotonic.
    :raises ConfigError: a number is below 1, or above what it can be.
    :raises RequestError: INVALID_PARTITIONS or INVALID_REPLICATION_FACTOR.
    """
    for name, value, least in (("brokers", brokers, 1), ("racks", racks, 0), ("repeats", repeats, 1)):
        if value < least:
            raise ConfigError(name, value, f"must be {least} or greater")
    if racks > brokers:
        raise ConfigError("racks", racks, f"must be {brokers}, the number of brokers, or less")
    check_sizes(brokers, partitions, replication_factor)
    cluster = {broker: f"rack-{broker % racks:03}" if racks else None for broker in range(brokers)}
    capacities: dict[str, Mapping[int, int] | None] = {
        "no limits": None,
        "differing": _differing(brokers, partitions, replication_factor),
        "just enough": _just_enough(brokers, partitions, replication_factor),
    }
    plans = []
    for name, capacity in capacities.items():
        times = []
        for _ in range(repeats):
            begun = clock()
            placed = place(cluster, partitions, replication_factor, capacity=capacity)
            times.append(clock() - begun)
        plans.append(_timing(name, times, cluster, placed))
    return PlacementReport(brokers, racks, partitions, replication_factor, tuple(plans))


def _differing(brokers: int, partitions: int, factor: int) -> dict[int, int]:
    """From an equal share to twice that."""
    rng = random.Random(_SEED)
    share = -(-partitions * factor // brokers)
    return {broker: rng.randint(share, 2 * share) for broker in range(brokers)}


def _just_enough(brokers: int, partitions: int, factor: int) -> dict[int, int]:
    share, rest = divmod(partitions * factor, brokers)
    return {broker: share + (broker < rest) for broker in range(brokers)}


def _timing(
    name: str, times: Sequence[float], racks: Mapping[int, str | None], placed: Sequence[Sequence[int]]
) -> PlacementTiming:
    hosted = Counter(broker for replicas in placed for broker in replicas)
    counts = [hosted[broker] for broker in racks]
    everywhere = min(len(placed[0]), len(set(racks.values())))
    spread = sum(len({racks[broker] for broker in replicas}) == everywhere for replicas in placed)
    return PlacementTiming(name, median(times), max(times), spread / len(placed), max(counts), min(counts))
