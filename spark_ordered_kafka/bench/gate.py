"""How long one call of the gate takes on a large topic with a long layout history."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median

from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.ordering import Layout, LayoutHistory, readable

_SEED = 253
# Records an epoch adds to a partition, at most; some partitions get none.
_MAX_RECORDS = 1_000


@dataclass(frozen=True)
class Timing:
    """Milliseconds one call of :func:`~spark_ordered_kafka.ordering.readable` took, its dicts included."""

    median_ms: float
    max_ms: float


@dataclass(frozen=True)
class GateTiming:
    """What :func:`run` measured, for three readers of the same topic.

    ``caught_up``: every partition is within the newest epoch but for one in a hundred, a little behind the last
    boundary. ``lagging``: every position is 0. ``straggler``: one partition is at 0, all others are caught up; the
    most work there is, since every epoch is unfinished and every partition's range reaches through to the end.
    """

    partitions: int
    epochs: int
    repeats: int
    caught_up: Timing
    lagging: Timing
    straggler: Timing


def run(
    partitions: int, epochs: int, repeats: int, clock: Callable[[], float] = time.perf_counter
) -> GateTiming:
    """Time the gate ``repeats`` times per reader, after one call that fills the caches of the history.

    :param partitions: Kafka partitions of the topic, 1 or more.
    :param epochs: layouts in its history, 1 or more; counts go up and down between half and all of the partitions.
    :param clock: seconds, monotonic.
    :raises ConfigError: a number is below 1.
    """
    for name, value in (("partitions", partitions), ("epochs", epochs), ("repeats", repeats)):
        if value < 1:
            raise ConfigError(name, value, "must be 1 or greater")
    rng = random.Random(_SEED)
    history, ends = _topic(partitions, epochs, rng)
    boundary = [history.current.start(p) for p in range(partitions)]
    in_newest = {p: rng.randint(boundary[p], end) for p, end in ends.items()}
    caught_up = {p: max(0, boundary[p] - 10) if rng.random() < 0.01 else at for p, at in in_newest.items()}
    lagging = dict.fromkeys(range(partitions), 0)

    def timing(positions: Mapping[int, int]) -> Timing:
        times = []
        for _ in range(repeats + 1):
            begun = clock()
            readable(history, positions, ends)
            times.append((clock() - begun) * 1_000)
        return Timing(median(times[1:]), max(times[1:]))

    return GateTiming(
        partitions=partitions,
        epochs=epochs,
        repeats=repeats,
        caught_up=timing(caught_up),
        lagging=timing(lagging),
        straggler=timing({**in_newest, 0: 0}),
    )


def _topic(partitions: int, epochs: int, rng: random.Random) -> tuple[LayoutHistory, dict[int, int]]:
    """A history that ends with all partitions in use, and the log end offsets."""
    initial = max(1, partitions // 64)
    counts = [rng.randint(max(initial, partitions // 2), partitions) for _ in range(epochs)]
    counts[0], counts[-1] = (initial if epochs > 1 else partitions), partitions
    log_end = [0] * partitions
    layouts = []
    for epoch, count in enumerate(counts):
        layouts.append(Layout(epoch, count, log_end))
        for partition in range(count):
            log_end[partition] += max(0, rng.randint(-_MAX_RECORDS // 4, _MAX_RECORDS))
    return LayoutHistory(initial, layouts), dict(enumerate(log_end))
