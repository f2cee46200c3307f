"""How the driver's work for a micro-batch grows with partitions, without servers."""

from __future__ import annotations

import json
from collections.abc import Iterator

from benchmarks.bench import Bench
from benchmarks.figures import OURS, Measurement, Sample
from benchmarks.usage import processor_time
from spark_ordered_kafka.client.topic_layouts import TopicLayouts
from spark_ordered_kafka.ordering import Layout, LayoutHistory
from spark_ordered_kafka.ordering.offsets import SourceOffset, TopicOffset, admit
from spark_ordered_kafka.spark.plan import shared_tasks, stream_tasks

# Records of a micro-batch, and those for which it pays to have a task.
_LEAST = 10_000


def growth(bench: Bench) -> Iterator[Measurement]:
    """The driver's work for a micro-batch, by partitions; no servers."""
    sizes = [size for size in (100, 1_000, 10_000) if size <= bench.scale.partitions]
    for partitions in sizes:
        yield _row(f"offset to JSON and back, {partitions:,} partitions", _offsets(bench, partitions))
        size = len(json.dumps(SourceOffset({"topic": _offset(partitions, 1_000_000)}).to_json()))
        yield _row(f"offset in the checkpoint, {partitions:,} partitions", [Sample(size / 1000)], "kB")
        yield _row(f"limit and tasks of a micro-batch, {partitions:,} partitions", _tasks(bench, partitions))


def _row(title: str, samples: list[Sample], unit: str = "ms") -> Measurement:
    return Measurement("growth", title, unit, "less", {OURS: samples})


def _offsets(bench: Bench, partitions: int) -> list[Sample]:
    offset = SourceOffset({"topic": _offset(partitions, 1_000_000)})

    def there_and_back() -> object:
        return SourceOffset.from_json(json.loads(json.dumps(offset.to_json())))

    return processor_time(there_and_back, bench.scale.rounds, per_second=1000)


def _tasks(bench: Bench, partitions: int) -> list[Sample]:
    history = LayoutHistory(partitions, [Layout(0, partitions, [0] * partitions)])
    layouts = TopicLayouts("topic", "id", history, (None,))
    before, after = _offset(partitions, 1_000_000), _offset(partitions, 1_000_001)

    def plan() -> object:
        ranges = {("topic", p): (before.position(p), after.position(p)) for p in range(partitions)}
        admit(ranges, _LEAST)
        shared = SourceOffset({"topic": after}).sharing(SourceOffset({"topic": before}), _LEAST).shared
        return shared_tasks(stream_tasks(layouts, after, before, {}), shared)

    return processor_time(plan, bench.scale.rounds, per_second=1000)


def _offset(partitions: int, position: int) -> TopicOffset:
    return TopicOffset("id", 0, (position,) * partitions, (0,) * partitions)
