"""How long it takes until the work begins: imports, the first micro-batch, the command line."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, StructType

from benchmarks import memory
from benchmarks.bench import FORMATS, Bench
from benchmarks.figures import OURS, Measurement, Sample, alternate
from benchmarks.progress import first_batch_begun
from spark_ordered_kafka.spark.datasource import OrderedKafkaDataSource

_RECORDS = 1_000
_TIMEOUT = 60.0
_PYTHON = "python -c pass"
_NOTHING = "doing nothing"


def start(bench: Bench) -> Iterator[Measurement]:
    """Imports of a task, a worker's first task, a query's first micro-batch in a warm session, and ``--help``."""
    yield _first_batch(bench)
    yield _floor(bench)
    yield from _fresh_worker(bench)
    help_ = [sys.executable, "-m", "spark_ordered_kafka.cli", "--help"]
    commands = {OURS: help_, _PYTHON: [sys.executable, "-c", "pass"]}
    samples = alternate(commands, lambda name: Sample(_process_seconds(commands[name])), bench.scale.rounds)
    yield Measurement("start", "ordered-kafka --help", "s", "less", samples, 0.25, "value")


def _first_batch(bench: Bench) -> Measurement:
    topic = bench.filled(4, _RECORDS, 100)

    samples = alternate(
        FORMATS, lambda name: _until_first_batch(bench, bench.stream(name, topic)), bench.scale.rounds
    )
    title = "start() to the first micro-batch, warm session"
    return Measurement("start", title, "s", "less", samples, 1.5, "value")


def _until_first_batch(bench: Bench, frame: DataFrame) -> Sample:
    begun = time.time()
    return Sample(first_batch_begun(bench.run(frame, "noop")) - begun)


def _floor(bench: Bench) -> Measurement:
    samples = alternate(
        [_NOTHING], lambda _: _until_first_batch(bench, memory.stream(bench.spark, 1, 1)), bench.scale.rounds
    )
    return Measurement("start", "PySpark's own floor of start()", "s", "less", samples)


def _fresh_worker(bench: Bench) -> Iterator[Measurement]:
    topic = bench.filled(4, _RECORDS, 100)
    source = OrderedKafkaDataSource({**bench.options(OURS), "subscribe": topic})
    sink = OrderedKafkaDataSource({**bench.options(OURS), "topic": topic})
    reader = source.reader(source.schema())
    written = StructType().add("key", BinaryType()).add("value", BinaryType())
    pickled = bench.directory / "task.pickle"
    pickled.write_bytes(
        cloudpickle.dumps(  # type: ignore[no-untyped-call]
            (reader, reader.partitions()[0], sink.streamWriter(written, overwrite=False))
        )
    )
    found = [_fresh(pickled) for _ in range(bench.scale.rounds + 1)][1:]
    imports = [Sample(one["imports"]) for one in found]
    title = "imports of a task, beyond pyspark and pyarrow"
    yield Measurement("start", title, "s", "less", {OURS: imports}, 0.25, "value")
    first = [Sample(one["imports"] + one["first"] - one["second"]) for one in found]
    title = "a fresh worker's first task, beyond its second"
    yield Measurement("start", title, "s", "less", {OURS: first})


def _fresh(pickled: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.fresh", str(pickled)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=_TIMEOUT, check=True)
    seconds: dict[str, float] = json.loads(done.stdout)
    return seconds


def _process_seconds(command: Sequence[str]) -> float:
    begun = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, timeout=_TIMEOUT, check=True)
    return time.perf_counter() - begun
