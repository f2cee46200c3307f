"""What a task costs that moves between worker processes, each of which keeps the producers of its tasks."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count

from benchmarks.bench import Bench
from benchmarks.figures import OURS, Measurement, Sample

_STAYS = "the next one there"
_FRESH = "task's first transaction in a new worker process"
_MOVED = "task's first transaction in a worker process that has run others"
_BACK = "task's first transaction back where it was"
_NOTE = (
    "250 records; beside the next transaction of the same task in the same process, which finds its producer."
)


def moves(bench: Bench) -> Iterator[Measurement]:
    """The first transaction of a task in another worker process, and back in the first, beside the next one there."""
    samples: dict[str, dict[str, list[Sample]]] = {
        title: {OURS: [], _STAYS: []} for title in (_FRESH, _MOVED, _BACK)
    }
    topic = bench.topic(4)
    for number in range(-1, bench.scale.rounds):
        for title, (first, second) in _round(bench, topic).items():
            # The first round does not count.
            if number >= 0:
                samples[title][OURS].append(Sample(first))
                samples[title][_STAYS].append(Sample(second))
    for title, found in samples.items():
        yield Measurement("moves", title, "ms", "less", found, note=_NOTE)


def _round(bench: Bench, topic: str) -> dict[str, tuple[float, float]]:
    with ExitStack() as stack:
        writer = f"bench-{uuid.uuid4().hex[:10]}"
        here, there = (stack.enter_context(_Worker(bench, topic, writer)) for _ in range(2))
        sequence = count()
        found = {_FRESH: (here.transact(0, next(sequence)), here.transact(0, next(sequence)))}
        there.transact(1, next(sequence))
        found[_MOVED] = there.transact(0, next(sequence)), there.transact(0, next(sequence))
        found[_BACK] = here.transact(0, next(sequence)), here.transact(0, next(sequence))
        return found


class _Worker:
    """A worker process; it is ready once Python and Spark's own worker are imported."""

    def __init__(self, bench: Bench, topic: str, writer: str) -> None:
        places = [bench.cluster.bootstrap_servers, bench.cluster.controller_url, topic, writer]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.mover", *places],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> _Worker:
        self._line()
        return self

    def __exit__(self, *_: object) -> None:
        # The end of its input ends it.
        self._process.communicate(timeout=60)

    def transact(self, task: int, sequence: int) -> float:
        """Milliseconds of a transaction."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{task} {sequence}\n")
        self._process.stdin.flush()
        return float(self._line())

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"a worker process ended with code {self._process.wait(60)}")
        return line
