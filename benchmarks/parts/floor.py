"""What PySpark itself takes, without Kafka: the floor below which nothing written in Python can get."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from benchmarks import memory
from benchmarks.bench import Bench
from benchmarks.figures import OURS, Measurement, Sample, alternate
from benchmarks.progress import batch_milliseconds

_MEMORY = "memory"
_NOTHING = "doing nothing"
_FIRST = 3


def read(bench: Bench) -> Iterator[Measurement]:
    """A batch read beside a Python data source that yields Arrow batches from memory: what the socket to Spark takes."""
    bench.spark.dataSource.register(memory.MemorySource)
    records, tasks = bench.scale.small, 4
    topic = bench.filled(tasks, records, 100)

    def kafka() -> None:
        bench.read(OURS, topic).write.format("noop").mode("overwrite").save()

    def prepared() -> None:
        reader = bench.spark.read.format(memory.FORMAT).option("tasks", tasks)
        frame = reader.option("records", records // tasks).load()
        frame.write.format("noop").mode("overwrite").save()

    yield bench.rates(
        "floor-read",
        "batch read, 100 B, beside Arrow batches from memory",
        {OURS: kafka, _MEMORY: prepared},
        records,
        note="The same columns and sizes through PySpark's socket, in four tasks, with no Kafka behind them.",
    )


def micro_batches(bench: Bench) -> Iterator[Measurement]:
    """Micro-batches whose Python source and sink do nothing, with 1, 2 and 4 tasks: the median of a query."""
    for tasks in (1, 2, 4):

        def run(_: str, tasks: int = tasks) -> Sample:
            frame = memory.stream(bench.spark, tasks, bench.scale.micro_batches + _FIRST).select(
                "key", "value"
            )
            return bench.usage.watched(
                lambda: median(batch_milliseconds(bench.run(frame, memory.FORMAT))[_FIRST:]), 0
            )

        samples = alternate([_NOTHING], run, 1, warm_ups=0)
        bench.say(f"floor-micro-batch: {tasks} tasks: {samples[_NOTHING][0].value:.0f} ms")
        title = f"PySpark's own floor of a micro-batch, {tasks} tasks, p50"
        yield Measurement("floor-micro-batch", title, "ms", "less", samples)
