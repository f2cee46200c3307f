"""How long a partition change keeps live producers from committing."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from confluent_kafka import KafkaError, KafkaException, Message

from benchmarks.bench import Bench
from benchmarks.figures import OURS, Measurement, Sample
from spark_ordered_kafka.client.producer import OrderedProducer
from spark_ordered_kafka.errors import UnavailableError

_GOAL_MS = 1_000.0
_TIMEOUT = 60.0
_PARTITIONS = 4
_WRITERS = (10, 50, 100)
_VALUE = b"v" * 100
# Some commit often and are measured, as a gap in rare commits would show little of a pause; the others keep
# transactions open.
_MEASURED, _MEASURED_INTERVAL_MS = 10, 100
_CROWD_INTERVAL_MS = 1_000
# Seconds between two records of a producer.
_PACE = 0.02
# Commits of every producer that a change is preceded and followed by.
_BEFORE, _AFTER = 5, 2


@dataclass
class _Writer:
    producer: OrderedProducer
    # When delivery reports were served, which is after each commit.
    delivered: list[float] = field(default_factory=list)
    error: KafkaError | None = None

    def turn(self, topic: str, number: int) -> None:
        """Produce a record, and serve what was committed."""
        self.producer.produce(topic, _VALUE, b"key-%d" % number, on_delivery=self._on_delivery)
        if self.producer.poll(0) > 0:
            self.delivered.append(time.monotonic())
        if self.error is not None:
            raise KafkaException(self.error)

    def gaps(self, since: float, until: float) -> list[float]:
        """Seconds between commits, of those that end after ``since`` and begin before ``until``."""
        return [
            after - before for before, after in pairwise(self.delivered) if after > since and before < until
        ]

    def commits_after(self, moment: float) -> int:
        """Commits reported after ``moment``."""
        return sum(1 for at in reversed(self.delivered) if at > moment)

    def _on_delivery(self, error: KafkaError | None, _: Message) -> None:
        self.error = self.error or error


class _Load:
    """A thread in which all producers write slowly, so that each has a transaction open most of the time.

    ``measured`` ones write in each round, ``others`` in every ``rounds``-th.
    """

    def __init__(
        self, topic: str, measured: Sequence[_Writer], others: Sequence[_Writer], rounds: int
    ) -> None:
        self._topic = topic
        self._turns = [[*measured, *others[turn::rounds]] for turn in range(rounds)]
        self._turned = threading.Condition()
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="load of the benchmark", daemon=True)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Write until the block ends."""
        self._thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self._thread.join()

    def settle(self, writers: Sequence[_Writer], commits: int) -> float:
        """Wait until each of ``writers`` has committed ``commits`` times from now on; the time then.

        Raises UnavailableError when that takes longer than a minute, or the error that ended the load.
        """
        since = time.monotonic()

        def settled() -> bool:
            return self._failure is not None or all(
                writer.commits_after(since) >= commits for writer in writers
            )

        with self._turned:
            if not self._turned.wait_for(settled, _TIMEOUT):
                late = sum(writer.commits_after(since) < commits for writer in writers)
                raise UnavailableError(
                    f"{late} of {len(writers)} producers did not commit {commits} times within {_TIMEOUT:g} s"
                )
        if self._failure is not None:
            raise self._failure
        return time.monotonic()

    def _run(self) -> None:
        number, turns = 0, itertools.cycle(self._turns)
        try:
            while not self._stop.wait(_PACE):
                for writer in next(turns):
                    writer.turn(self._topic, number)
                    number += 1
                with self._turned:
                    self._turned.notify_all()
        except Exception as error:  # noqa: BLE001 - raised by settle()
            with self._turned:
                self._failure = error
                self._turned.notify_all()


def pauses(bench: Bench) -> Iterator[Measurement]:
    """How long a partition change pauses writers, by how many there are."""
    up_and_down = (2 * _PARTITIONS, _PARTITIONS) * ((bench.scale.rounds + 1) // 2)
    for writers in _WRITERS:
        found = at_changes(bench, bench.topic(_PARTITIONS), writers, up_and_down)
        title = f"pause of a writer at a change, {writers} writers"
        samples = [Sample(1000 * seconds) for seconds in found]
        yield Measurement("pauses", title, "ms", "less", {OURS: samples}, _GOAL_MS, "value")


def at_changes(
    bench: Bench,
    topic: str,
    writers: int,
    counts: Sequence[int],
    *,
    interval_ms: int = _CROWD_INTERVAL_MS,
    rounds: int = 1,
) -> list[float]:
    """Pauses in seconds, of each measured writer at each change, while a topic gets one partition count after another.

    Ten writers commit every 100 ms and are measured, the others every ``interval_ms``, with a record in every ``rounds``-th
    round of 20 ms. The pause of a writer at a change is the longest time between two of its commits around it, less what is
    usual for it.

    Raises UnavailableError, KafkaException, or the error of a producer or a change that fails.
    """
    conf = {**bench.connection.kafka, "controller.url": bench.connection.controller_url}
    with ExitStack() as stack:

        def opened(interval_ms: int) -> _Writer:
            producer = OrderedProducer({**conf, "commit.interval.ms": interval_ms})
            return _Writer(stack.enter_context(producer))

        measured = [opened(_MEASURED_INTERVAL_MS) for _ in range(min(writers, _MEASURED))]
        others = [opened(interval_ms) for _ in range(writers - len(measured))]
        everyone = measured + others
        load = _Load(topic, measured, others, rounds)
        with load.running():
            bench.say(f"pauses: opening {writers} writers")
            found = []
            for count in counts:
                # All are back at work.
                load.settle(everyone, 1)
                paused = _at_change(bench, topic, count, load, measured)
                bench.say(f"pauses: median {median(paused):.2f} s, at most {max(paused):.2f} s")
                found += paused
    return found


def _at_change(
    bench: Bench, topic: str, partitions: int, load: _Load, writers: Sequence[_Writer]
) -> list[float]:
    calm = time.monotonic()
    before = load.settle(writers, _BEFORE)
    bench.grow(topic, partitions)
    after = load.settle(writers, _AFTER)
    usual = [median(writer.gaps(calm, before)) for writer in writers]
    return [
        max(0.0, max(writer.gaps(before, after)) - own) for writer, own in zip(writers, usual, strict=True)
    ]
