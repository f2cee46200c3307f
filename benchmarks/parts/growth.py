"""How cost grows: planning with partitions, layouts and brokers, without servers, and a change's pause with writers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator

from benchmarks.bench import Bench
from benchmarks.figures import OURS, Measurement, Sample
from spark_ordered_kafka.bench import gate
from spark_ordered_kafka.bench.pauses import measure_pauses
from spark_ordered_kafka.bench.placement import run as place
from spark_ordered_kafka.client.topics import TopicLayouts
from spark_ordered_kafka.ordering import Layout, LayoutHistory
from spark_ordered_kafka.ordering.offsets import SourceOffset, TopicOffset, admit
from spark_ordered_kafka.spark.plan import shared_tasks, stream_tasks

# Records of a micro-batch, and those for which it pays to have a task.
_LEAST = 10_000
_EPOCHS = (1, 10, 100)
_BROKERS = (10, 100, 1_000)
_WRITERS = (10, 100)


def planning(bench: Bench) -> Iterator[Measurement]:
    """The driver's work for a micro-batch by partitions and layouts, and the controller's by brokers: no servers."""
    sizes = [size for size in (100, 1_000, 10_000) if size <= bench.scale.partitions]
    for partitions in sizes:
        yield _row(f"offset to JSON and back, {partitions:,} partitions", _offsets(bench, partitions))
        size = len(json.dumps(SourceOffset({"topic": _offset(partitions, 1_000_000)}).to_json()))
        yield _row(f"offset in the checkpoint, {partitions:,} partitions", [Sample(size / 1000)], "kB")
        yield _row(f"limit and tasks of a micro-batch, {partitions:,} partitions", _tasks(bench, partitions))
    for epochs in _EPOCHS:
        timing = gate.run(sizes[-1], epochs, bench.scale.rounds, time.process_time)
        for who, taken in (("caught up", timing.caught_up), ("at the start", timing.lagging)):
            title = f"gate, {sizes[-1]:,} partitions, {epochs} layouts, {who}"
            yield _row(title, [Sample(taken.median_ms), Sample(taken.max_ms)])
    for brokers in _BROKERS:
        report = place(brokers, 3, sizes[-1], 3, 1, time.process_time)
        title = f"placing {sizes[-1]:,} partitions on {brokers:,} brokers (simulated)"
        yield _row(title, [Sample(1000 * plan.median_seconds) for plan in report.plans])


def writers(bench: Bench) -> Iterator[Measurement]:
    """How long a partition change pauses writers, by how many there are."""
    for count in _WRITERS:
        topic = bench.topic(4)
        pauses = measure_pauses(
            bench.connection, topic, producers=count, changes=2, value_bytes=100, say=bench.say
        )
        samples = [Sample(1000 * seconds) for change in pauses.changes for seconds in change.pauses]
        title = f"pause of a writer at a change, {count} writers"
        yield Measurement("growth-writers", title, "ms", "less", {OURS: samples})


def _row(title: str, samples: list[Sample], unit: str = "ms") -> Measurement:
    return Measurement("growth", title, unit, "less", {OURS: samples})


def _offsets(bench: Bench, partitions: int) -> list[Sample]:
    offset = SourceOffset({"topic": _offset(partitions, 1_000_000)})

    def there_and_back() -> object:
        return SourceOffset.from_json(json.loads(json.dumps(offset.to_json())))

    return _milliseconds(there_and_back, bench.scale.rounds)


def _tasks(bench: Bench, partitions: int) -> list[Sample]:
    history = LayoutHistory(partitions, [Layout(0, partitions, [0] * partitions)])
    layouts = TopicLayouts("topic", "id", history, (None,))
    before, after = _offset(partitions, 1_000_000), _offset(partitions, 1_000_001)

    def plan() -> object:
        ranges = {("topic", p): (before.position(p), after.position(p)) for p in range(partitions)}
        admit(ranges, _LEAST)
        shared = SourceOffset({"topic": after}).sharing(SourceOffset({"topic": before}), _LEAST).shared
        return shared_tasks(stream_tasks(layouts, after, before, {}), shared)

    return _milliseconds(plan, bench.scale.rounds)


def _offset(partitions: int, position: int) -> TopicOffset:
    return TopicOffset("id", 0, (position,) * partitions, (0,) * partitions)


def _milliseconds(work: Callable[[], object], rounds: int) -> list[Sample]:
    """Processor time: nothing waits for anything."""
    samples = []
    for _ in range(rounds):
        begun = time.process_time()
        work()
        samples.append(Sample(1000 * (time.process_time() - begun)))
    return samples
