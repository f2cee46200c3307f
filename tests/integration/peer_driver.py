"""A Spark driver with Spark's own ``kafka`` connector beside ours: runs a query for each line of JSON that it is sent.

A line has ``format``, ``options``, ``checkpoint``, and ``counts``: whether the query counts by key, or reads numbered records.
The answer is a line, too: ``counts`` by key, or ``keys`` and ``numbers`` in the order of delivery.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession

from benchmarks.peer import connector_jars
from spark_ordered_kafka import register
from tests.servers import TIMEOUT, start_spark
from tests.streams import Collector

_ANSWER = "answer: "


class Driver:
    """The driver's process, as a test sees it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(
        self, form: str, options: Mapping[str, str], checkpoint: Path | str, *, counts: bool
    ) -> dict[str, Any]:
        """What the query delivers until it has caught up."""
        job = {"format": form, "options": dict(options), "checkpoint": str(checkpoint), "counts": counts}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith(_ANSWER):
                found: dict[str, Any] = json.loads(line.removeprefix(_ANSWER))
                return found
        raise AssertionError(f"the driver has ended with {self._process.wait(TIMEOUT)}")


@contextmanager
def peer_driver(directory: Path, conf: Mapping[str, str] | None = None) -> Iterator[Driver]:
    """A driver that lives as long as the block; ``conf``: more of its Spark conf."""
    command = [sys.executable, "-m", "tests.integration.peer_driver", str(directory), json.dumps(conf or {})]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Driver(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            # Spark takes its time to stop.
            process.wait(6 * TIMEOUT)


def _run(spark: SparkSession, job: Mapping[str, Any]) -> dict[str, Any]:
    rows = spark.readStream.format(job["format"]).options(**job["options"]).load()
    counts: dict[str, int] = {}
    collector = Collector()

    def keep(batch: DataFrame, _: int) -> None:
        counts.update({row.key: row["count"] for row in batch.collect()})

    if job["counts"]:
        keys = rows.selectExpr("CAST(key AS STRING) AS key")
        writer = keys.groupBy("key").count().writeStream.outputMode("update").foreachBatch(keep)
    else:
        writer = rows.writeStream.foreachBatch(collector.add)
    query = writer.option("checkpointLocation", job["checkpoint"]).trigger(availableNow=True).start()
    assert query.awaitTermination(180), "the stream did not catch up within 180 s"
    if job["counts"]:
        return {"counts": counts}
    empty = [np.array([])]
    return {
        "keys": np.concatenate(collector.keys or empty).tolist(),
        "numbers": np.concatenate(collector.numbers or empty).tolist(),
    }


def main(directory: Path, conf: dict[str, str]) -> None:
    """Answer lines until there are no more."""
    jars = list(map(str, connector_jars(lambda line: print(line, file=sys.stderr))))  # noqa: T201
    jars += filter(None, [conf.pop("spark.jars", None)])
    arguments = ["--jars", ",".join(jars), *(f"--conf={name}={value}" for name, value in conf.items())]
    os.environ["PYSPARK_SUBMIT_ARGS"] = shlex.join([*arguments, "pyspark-shell"])
    spark = start_spark(directory)
    register(spark)
    for line in sys.stdin:
        print(_ANSWER + json.dumps(_run(spark, json.loads(line))), flush=True)  # noqa: T201 - the answer
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
