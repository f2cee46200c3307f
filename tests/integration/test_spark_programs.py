"""Random Spark programs that copy a topic: tasks that fail, other numbers of tasks after a restart, changes, a lost driver.

A program is judged by one model: every record is in its target once, in the order of its key, or the query says why it
does not go on. ``PROGRAM_SEED=123 pytest tests/integration/test_spark_programs.py`` runs one again.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Message
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from spark_ordered_kafka.local import LocalCluster
from tests.queries import await_stable
from tests.seeds import fresh_seeds
from tests.streams import FORMAT, NumberedWriter, change, create, judged, options, records_in_order

SEEDS = [int(seed) for seed in os.environ.get("PROGRAM_SEED", "").split()] or fresh_seeds(__name__, 1)
DEADLINE = 180.0
KINDS = ("sink", "column", "each", "halves")
INJECTED = "by the test's own fault"


class InjectedError(Exception):
    """The application's own."""


def failing(flag: str, place: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Hands rows through; the task that takes ``flag`` away fails behind ``place`` rows."""

    def hand_through(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        seen = 0
        for batch in batches:
            seen += batch.num_rows
            if seen >= place and os.path.exists(flag):
                os.unlink(flag)
                raise InjectedError(INJECTED)
            yield batch

    return hand_through


class Program:
    """A query from one topic to two, and what happens to it."""

    def __init__(self, cluster: LocalCluster, spark: SparkSession, name: str, home: Path, seed: int) -> None:
        self.cluster, self.spark, self.home = cluster, spark, home
        self.rng = random.Random(seed)
        self.kind = self.rng.choice(KINDS)
        self.headers = self.rng.random() < 0.4
        self.source = create(cluster, name, 2)
        self.targets = [create(cluster, f"{name}-{i}", 2) for i in range(2)]
        self.counts = {self.source: 2} | dict.fromkeys(self.targets, 2)
        self.writer = NumberedWriter(cluster, self.source, keys=8, step=5)
        self.tasks = self._deployment()
        self.trace = [self.kind]

    def _deployment(self) -> int | None:
        return self.rng.choice((None, None, 1, 3, 5))

    # -- the query ----------------------------------------------------------------------------------------------

    def rows(self, fault: bool) -> DataFrame:
        """The stream."""
        limits: dict[str, Any] = {
            "maxOffsetsPerTrigger": self.rng.choice((80, 1000)),
            "minRecordsPerPartition": self.rng.choice((1, 20, 10_000)),
        }
        more = {"includeHeaders": "true"} if self.headers else {}
        read = options(self.cluster, subscribe=self.source, startingOffsets="earliest", **limits, **more)
        rows = self.spark.readStream.format(FORMAT).options(**read).load()
        columns = ["key", "value"]
        if self.headers:
            columns.append("headers")
        if self.kind == "column":
            topics = " ".join(f"WHEN crc32(key) % 2 = {i} THEN '{t}'" for i, t in enumerate(self.targets))
            columns.append(f"CASE {topics} END AS topic")
        rows = rows.selectExpr(*columns)
        if self.tasks is not None:
            rows = rows.repartition(self.tasks, "key")
        flag = self.home / "flag"
        if fault:
            flag.touch()
            rows = rows.mapInArrow(failing(str(flag), self.rng.randint(1, 30)), rows.schema)
        return rows

    def start(self, fault: bool) -> Any:
        writing = self.rows(fault).writeStream.option("checkpointLocation", str(self.home / "checkpoint"))
        writing = writing.trigger(availableNow=True)
        sink = options(self.cluster)
        if self.kind == "sink":
            return writing.format(FORMAT).options(**sink, topic=self.targets[0]).start()
        if self.kind == "column":
            return writing.format(FORMAT).options(**sink).start()
        stops_at = self.rng.choice((None, None, 0, 1, 2))

        def write(frame: DataFrame, _: int) -> None:
            nonlocal stops_at
            for place, target in enumerate(self.targets):
                if stops_at == place:
                    stops_at = None
                    raise InjectedError(INJECTED)
                rows = frame if self.kind == "each" else frame.where(f"crc32(key) % 2 = {place}")
                rows.write.format(FORMAT).mode("append").options(
                    **sink, topic=target, writer=f"{target}-w"
                ).save()
            if stops_at == len(self.targets):
                stops_at = None
                raise InjectedError(INJECTED)

        return writing.foreachBatch(write).start()

    def run(self, fault: bool = False, meanwhile: Callable[[], None] = lambda: None) -> str | None:
        """Until all is written, or its error."""
        query = self.start(fault)
        try:
            meanwhile()
            assert query.awaitTermination(DEADLINE), f"not done within {DEADLINE} s"
        except StreamingQueryException as error:
            return str(error)
        finally:
            query.stop()
        return None

    # -- what happens to it -------------------------------------------------------------------------------------

    def step(self) -> None:
        action = self.rng.choice(("run", "run", "fail", "fail", "redeploy", "change", "forget", "busy"))
        self.trace.append(action)
        if self.rng.random() < 0.8:
            self.writer.write(self.rng.randint(1, 3))
        if action == "change":
            self.change()
        elif action == "forget":
            self.forget()
        elif action == "busy":
            self.settle(self.run(meanwhile=self.load))
        else:
            before = self.tasks
            if action == "redeploy":
                self.tasks = self._deployment()
                self.trace.append(f"{before} -> {self.tasks}")
            self.settle(self.run(fault=action == "fail"), before)

    def change(self) -> None:
        topic = self.rng.choice(list(self.counts))
        self.counts[topic] = self.rng.choice([n for n in (2, 3, 5) if n != self.counts[topic]])
        change(self.cluster, topic, self.counts[topic])

    def load(self) -> None:
        self.writer.write()
        self.change()
        self.writer.write(2)

    def forget(self) -> None:
        """As if the driver had died after the last batch's tasks, before it noted the batch as done."""
        commits = self.home / "checkpoint" / "commits"
        batches = (
            sorted((int(p.name) for p in commits.glob("[0-9]*")), reverse=True) if commits.exists() else []
        )
        for name in (f"{batches[0]}", f".{batches[0]}.crc") if batches else ():
            (commits / name).unlink(missing_ok=True)

    def settle(self, error: str | None, before: int | None = -1) -> None:
        """Only known errors, and a replay by other tasks is put right by the number of before."""
        if error is None or INJECTED in error or "worker failed to connect back" in error:
            return
        self.trace.append(re.sub(r"\s+", " ", error)[:150])
        known = re.search(r"committed \d+ rows of batch|other rows than|ReplayMismatch", error)
        assert known is not None, error
        assert before not in (-1, self.tasks), error
        self.tasks = before
        again = self.run()
        self.settle(again)

    # -- the judge ----------------------------------------------------------------------------------------------

    def finish(self) -> None:
        for _ in range(6):
            if self.run() is None:
                break
        else:
            raise AssertionError("the query does not end")
        found = [self._copied(target) for target in self.targets]
        if self.kind == "each":
            for messages in found:
                self._judge(messages)
        elif self.kind == "sink":
            self._judge(found[0])
            assert found[1] == []
        else:
            self._judge(found[0] + found[1])

    def _copied(self, target: str) -> list[Message]:
        await_stable(self.cluster, target)
        return records_in_order(self.cluster, target)

    def _judge(self, messages: list[Message]) -> None:
        report = judged(messages, self.writer.written)
        assert report.violations == 0, report


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_every_record_is_copied_once_or_the_query_says_why_not(
    cluster: LocalCluster, spark: SparkSession, topic_name: str, tmp_path: Path, seed: int
) -> None:
    program = Program(cluster, spark, topic_name, tmp_path, seed)
    try:
        for _ in range(6):
            program.step()
        program.finish()
    except Exception as error:
        raise AssertionError(f"PROGRAM_SEED={seed}: {error}; {', '.join(program.trace)}") from error
