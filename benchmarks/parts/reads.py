"""Reading a topic into Spark's ``noop`` sink."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from benchmarks.bench import Bench
from benchmarks.figures import OURS, Measurement, Sample

_SMALL, _LARGE = 100, 1_000


def small(bench: Bench) -> Iterator[Measurement]:
    """Batch reads of values of 100 bytes, of 4 and of 16 partitions."""
    for partitions in (4, 16):
        topic = bench.filled(partitions, bench.scale.small, _SMALL)
        yield from _batch(bench, "read-100", f"batch read, 100 B, {partitions} partitions", topic, goal=2.0)


def large(bench: Bench) -> Iterator[Measurement]:
    """Batch reads of values of 1 kB."""
    records = bench.scale.large
    topic = bench.filled(4, records, _LARGE)
    yield from _batch(bench, "read-1k", "batch read, 1 kB, 4 partitions", topic, records, goal=1.5)


def available_now(bench: Bench) -> Iterator[Measurement]:
    """A stream with Trigger.AvailableNow, from ``start()`` to its end; a large backlog, and one that the start outweighs."""
    for records, goal in ((bench.scale.small, None), (bench.scale.large_backlog, 2.0)):
        topic = bench.filled(4, records, _SMALL)

        def run(contender: str, topic: str = topic) -> None:
            bench.run(bench.stream(contender, topic), "noop")

        title = f"AvailableNow, {records:,} records of 100 B"
        yield from bench.connectors("read-available-now", title, run, records, goal)


def value_only(bench: Bench) -> Iterator[Measurement]:
    """Batch reads of the column ``value`` alone."""
    topic = bench.filled(4, bench.scale.small, _SMALL)
    title = "only the column value, 100 B"
    yield from _batch(bench, "read-value", title, topic, columns=("value",), goal=2.0)


def partitions(bench: Bench) -> Iterator[Measurement]:
    """Batch reads of 1 and of 64 partitions."""
    for count in (1, 64):
        topic = bench.filled(count, bench.scale.small, _SMALL)
        yield from _batch(bench, "read-partitions", f"batch read, 100 B, {count} partitions", topic)


def compression(bench: Bench) -> Iterator[Measurement]:
    """Batch reads of records that lie in the log uncompressed, and under zstd; all others are under lz4."""
    for name in ("none", "zstd"):
        topic = bench.filled(4, bench.scale.small, _SMALL, name)
        yield from _batch(bench, "read-compression", f"batch read, 100 B, compression {name}", topic)


def headers(bench: Bench) -> Iterator[Measurement]:
    """Batch reads of records with three headers each, and of the same without asking for headers."""
    topic = bench.filled(4, bench.scale.large, _SMALL, headers=3)
    records, asked = bench.scale.large, {"includeHeaders": "true"}
    yield from _batch(bench, "read-headers", "batch read with 3 headers", topic, records, options=asked)
    yield from _batch(bench, "read-headers", "3 headers, not asked for", topic, records)


def grown(bench: Bench) -> Iterator[Measurement]:
    """Batch reads of a topic that was written half with 2 and half with 64 partitions."""
    topic, half = bench.topic(2, {}), bench.scale.small // 2
    rows = bench.rows(half, _SMALL)
    bench.fill(topic, rows)
    bench.grow(topic, 64)
    bench.fill(topic, rows)
    note = "Spark's kafka does not keep the order here."
    yield from _batch(bench, "read-grown", "batch read, grown from 2 to 64", topic, 2 * half, note=note)


def backlog(bench: Bench) -> Iterator[Measurement]:
    """What memory a worker needs for a backlog in one partition; values of 1 kB."""
    records = bench.scale.backlog_mb * 1_000
    topic = bench.filled(1, records, _LARGE)

    def run() -> None:
        bench.run(bench.stream(OURS, topic), "noop")

    # Those that have written keep the memory of that.
    bench.usage.end_workers()
    runs = [bench.usage.timed(run, records) for _ in range(2)]
    peaks = [Sample(taken.worker_mb, records, taken.cpu) for taken in runs if taken.worker_mb is not None]
    title = f"worker's peak memory, backlog of {bench.scale.backlog_mb:,} MB"
    note = (
        "One task and one micro-batch; shared libraries are counted, too. It stands for a backlog of 10 GB."
    )
    yield Measurement("backlog", title, "MB", "less", {OURS: peaks}, 300.0, "value", note)


def _batch(
    bench: Bench,
    part: str,
    title: str,
    topic: str,
    records: int | None = None,
    *,
    columns: Sequence[str] = ("*",),
    options: Mapping[str, str] | None = None,
    goal: float | None = None,
    note: str = "",
) -> Iterator[Measurement]:
    def run(contender: str) -> None:
        frame = bench.read(contender, topic, options).select(*columns)
        frame.write.format("noop").mode("overwrite").save()

    yield from bench.connectors(part, title, run, records or bench.scale.small, goal, note)
