"""How long one call of the gate takes on a large topic with a long layout history."""

from __future__ import annotations

import random
from collections.abc import Iterator

from benchmarks.bench import Bench
from benchmarks.figures import OURS, Measurement
from benchmarks.usage import processor_time
from spark_ordered_kafka.ordering import Layout, LayoutHistory, readable

_SEED = 253
# Records an epoch adds to a partition, at most; some partitions get none.
_MAX_RECORDS = 1_000
# Of a reader that is caught up, the part of the partitions that are a little behind the last boundary.
_BEHIND = 0.01


def gate(bench: Bench) -> Iterator[Measurement]:
    """One call of the gate, by layouts and partitions, for three readers; its dicts included."""
    most = bench.scale.partitions
    for partitions, epochs in ((most, 1), (most, 10), (most, 100), (10 * most, 10)):
        history, ends = topic(partitions, epochs)
        for who, positions in readers(history, ends).items():

            def call(positions: dict[int, int] = positions) -> object:
                return readable(history, positions, ends)  # noqa: B023 - called before the next round

            call()  # fills the caches of the history
            title = f"gate, {partitions:,} partitions, {epochs} layouts, {who}"
            samples = processor_time(call, bench.scale.rounds, per_second=1000)
            yield Measurement("gate", title, "ms", "less", {OURS: samples})


def topic(partitions: int, epochs: int) -> tuple[LayoutHistory, dict[int, int]]:
    """A history of ``epochs`` layouts, and the log end offsets.

    Counts go up and down between half and all of the partitions; the last layout has all of them.
    """
    rng = random.Random(_SEED)
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


def readers(history: LayoutHistory, ends: dict[int, int]) -> dict[str, dict[int, int]]:
    """Positions of three readers.

    One is within the newest epoch, but for one partition in a hundred; one has read nothing; and one is within the
    newest epoch but for partition 0, of which it has read nothing. That is the most work there is: every epoch is
    unfinished, and every partition's range reaches through to the end.
    """
    rng = random.Random(_SEED)
    boundary = {partition: history.current.start(partition) for partition in ends}
    newest = {partition: rng.randint(boundary[partition], end) for partition, end in ends.items()}
    caught_up = {p: max(0, boundary[p] - 10) if rng.random() < _BEHIND else at for p, at in newest.items()}
    return {
        "caught up": caught_up,
        "at the start": dict.fromkeys(ends, 0),
        "one partition at the start": {**newest, 0: 0},
    }
