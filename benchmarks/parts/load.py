"""Many clients at one controller and one broker."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from statistics import quantiles

import psutil

from benchmarks.bench import Bench
from benchmarks.figures import OURS, Measurement, Sample
from benchmarks.parts.pauses import at_changes
from benchmarks.usage import resident_mb
from spark_ordered_kafka.client.layouts import Layouts

_SECONDS = 20.0
# Each client asks so often, as a query with a trigger of a second does.
_EVERY = 1.0
_GOAL_MS = 1_000.0
_PARTITIONS = 4
# Seconds between two commits of a producer of the crowd: the machine has room left, and it has not. Each has two records a
# second, in rounds of 20 ms.
_CROWD_INTERVALS, _CROWD_ROUNDS = (5, 1), 25


def load(bench: Bench) -> Iterator[Measurement]:
    """Clients that poll one controller, and many producers through a change."""
    yield from _polling(bench)
    yield from _crowd(bench)


def _polling(bench: Bench) -> Iterator[Measurement]:
    """Layouts as streaming queries ask for them, each client with a connection of its own."""
    topic = bench.topic(_PARTITIONS)
    clients = bench.scale.polling_clients
    controller = psutil.Process(bench.cluster.description()["controllers"][0]["pid"])
    spent = sum(controller.cpu_times()[:2])
    begin, begun = threading.Barrier(clients), time.monotonic()

    def poll(number: int) -> list[float]:
        found = []
        with Layouts(bench.connection) as layouts:
            layouts.layout(topic)  # connects
            begin.wait()
            deadline = time.monotonic() + _SECONDS
            next_at = time.monotonic() + _EVERY * number / clients
            while next_at < deadline:
                time.sleep(max(0.0, next_at - time.monotonic()))  # the rate that is measured
                asked = time.perf_counter()
                layouts.layout(topic)
                found.append(1000 * (time.perf_counter() - asked))
                next_at += _EVERY
        return found

    with ThreadPoolExecutor(clients) as pool:
        answers = [one for some in pool.map(poll, range(clients)) for one in some]
    cores = (sum(controller.cpu_times()[:2]) - spent) / (time.monotonic() - begun)
    p99 = quantiles(answers, n=100)[98]
    note = f"{len(answers)} answers; the controller took {cores:.2f} cores and has {resident_mb(controller.pid):.0f} MB."
    title = f"layout, {clients} clients that ask every second, p99"
    yield Measurement("load", title, "ms", "less", {OURS: [Sample(p99)]}, note=note)


def _crowd(bench: Bench) -> Iterator[Measurement]:
    """As the part pauses, with more producers than its largest step."""
    producers = bench.scale.crowd
    for seconds in _CROWD_INTERVALS:
        topic, counts = bench.topic(_PARTITIONS), (2 * _PARTITIONS, _PARTITIONS) * 2
        found = at_changes(bench, topic, producers, counts, interval_ms=1000 * seconds, rounds=_CROWD_ROUNDS)
        title = (
            f"pause of a writer at a change, {producers} writers in one process that commit every {seconds} s"
        )
        samples = [Sample(1000 * pause) for pause in found]
        note = f"At most {1000 * max(found):.0f} ms. The process of the producers has {resident_mb():.0f} MB."
        yield Measurement("load", title, "ms", "less", {OURS: samples}, _GOAL_MS, "value", note)
