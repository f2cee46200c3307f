"""What it costs that a replayed task is recognised by its rows."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from unittest.mock import patch

import pyarrow as pa

from benchmarks.bench import Bench
from benchmarks.figures import OURS, Measurement, Sample, alternate
from spark_ordered_kafka.kafka.ledger import Fingerprint
from spark_ordered_kafka.kafka.replay import Claim
from spark_ordered_kafka.native.contents import Contents, Headers
from spark_ordered_kafka.spark.options import SinkOptions
from spark_ordered_kafka.spark.sink import write_task

_UNCHECKED = "no fingerprint"
_BATCH = 10_000


def replay_check(bench: Bench) -> Iterator[Measurement]:
    """A task of the sink with the fingerprint of its rows, which a replay is checked by, and without."""
    records = bench.scale.small // 4
    batches = [_batch(first, _BATCH) for first in range(0, records, _BATCH)]
    options = SinkOptions(bench.connection, bench.topic(4))
    writer, sequences = f"bench-{uuid.uuid4().hex[:10]}", iter(range(1_000_000))

    def run(contender: str) -> Sample:
        def measured() -> float:
            begun = time.perf_counter()
            write_task(options, Claim(writer, next(sequences)), 0, iter(batches))
            return 1000 * (time.perf_counter() - begun)

        unchecked = patch.object(Fingerprint, "add", _count)
        with unchecked if contender == _UNCHECKED else nullcontext():
            return bench.usage.watched(measured, records)

    samples = alternate((OURS, _UNCHECKED), run, bench.scale.rounds)
    title = f"a task's {records:,} rows of 100 B, with the check of replays"
    yield Measurement("replay-check", title, "ms", "less", samples, 1.1)


def _count(self: Fingerprint, keys: Contents, values: Contents, headers: Headers = None) -> Fingerprint:
    return replace(self, rows=self.rows + len(keys))


def _batch(first: int, rows: int) -> pa.RecordBatch:
    numbers = range(first, first + rows)
    keys, values = ([b"key-%d" % number for number in numbers], [b"%0100d" % number for number in numbers])
    return pa.RecordBatch.from_pydict(
        {"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())}
    )
