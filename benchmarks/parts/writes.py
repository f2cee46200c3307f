"""Writing rows: exactly once by this package, at least once by Spark's own connector."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from pyspark.sql.functions import current_timestamp

from benchmarks.bench import FORMATS, Bench
from benchmarks.figures import OURS, Measurement

_TIME_OF_SENDING = "time of sending"


def small(bench: Bench) -> Iterator[Measurement]:
    """Batch writes of values of 100 bytes."""
    yield from _batch(bench, "write-100", "write 100 B, 4 partitions", bench.scale.small, 100, goal=1.3)


def large(bench: Bench) -> Iterator[Measurement]:
    """Batch writes of values of 1 kB."""
    yield from _batch(bench, "write-1k", "write 1 kB, 4 partitions", bench.scale.large, 1_000, goal=1.6)


def copy(bench: Bench) -> Iterator[Measurement]:
    """A stream that copies a topic under Trigger.AvailableNow, from ``start()`` to its end; two backlogs, as for reading."""
    for records, goal in ((bench.scale.small, None), (bench.scale.large_backlog, 1.5)):
        source = bench.filled(4, records, 100)
        targets = {contender: bench.topic(4) for contender in FORMATS}

        def run(contender: str, source: str = source, targets: Mapping[str, str] = targets) -> None:
            frame = bench.stream(contender, source).select("key", "value")
            bench.write_stream(contender, frame, targets[contender])

        yield from bench.connectors("copy", f"copy job, {records:,} records of 100 B", run, records, goal)


def compression(bench: Bench) -> Iterator[Measurement]:
    """Batch writes without compression, and with zstd; all others are with lz4."""
    for name in ("none", "zstd"):
        title = f"write 100 B, compression {name}"
        yield from _batch(bench, "write-compression", title, bench.scale.small, 100, compression=name)


def partitions(bench: Bench) -> Iterator[Measurement]:
    """Batch writes into 1, 16 and 64 partitions."""
    for count in (1, 16, 64):
        title = f"write 100 B, {count} partitions"
        yield from _batch(bench, "write-partitions", title, bench.scale.small, 100, count)


def timestamps(bench: Bench) -> Iterator[Measurement]:
    """Batch writes with ``keepTimestamps``, beside the same without it."""
    records = bench.scale.small
    rows = bench.rows(records, 100).withColumn("timestamp", current_timestamp())
    targets = {name: bench.topic(4) for name in (OURS, _TIME_OF_SENDING)}

    def write(contender: str) -> None:
        keep = str(contender == OURS).lower()
        bench.write(OURS, rows, targets[contender], options={"keepTimestamps": keep})

    contenders = {name: partial(write, name) for name in targets}
    yield bench.rates("write-timestamps", "write 100 B, keepTimestamps", contenders, records)


def _batch(
    bench: Bench,
    part: str,
    title: str,
    records: int,
    value_bytes: int,
    partitions: int = 4,
    *,
    compression: str = "lz4",
    goal: float | None = None,
) -> Iterator[Measurement]:
    rows = bench.rows(records, value_bytes)
    targets = {contender: bench.topic(partitions) for contender in FORMATS}

    def run(contender: str) -> None:
        bench.write(contender, rows, targets[contender], compression)

    yield from bench.connectors(part, title, run, records, goal)
