"""A streaming query over files of numbers whose micro-batches can be run again, by tasks of the test's choice."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr
from pyspark.sql.streaming.readwriter import DataStreamWriter

from spark_ordered_kafka.local import LocalCluster
from tests.queries import await_stable
from tests.streams import FORMAT, options, raw_records

DEADLINE = 180


@dataclass
class Replayed:
    """Each file of numbers is a micro-batch; row ``n`` has the key ``k<n % 10>``, the value ``n`` and ``columns``.

    ``sink`` are options of the sink beside the servers.
    """

    cluster: LocalCluster
    spark: SparkSession
    directory: Path
    sink: dict[str, str] = field(default_factory=dict)
    columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self._files = self.directory / "files"
        self._files.mkdir()
        self.checkpoint = self.directory / "checkpoint"

    def give(self, batch: int, numbers: range) -> None:
        """The numbers of a micro-batch; again: of its replay."""
        (self._files / f"{batch:03d}").write_text("".join(f"{n}\n" for n in numbers))

    def rows(self, tasks: int, task: str) -> DataFrame:
        """The stream; the SQL expression ``task`` over ``n`` says which of ``tasks`` gets a row."""
        lines = self.spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(self._files))
        rows = lines.selectExpr("CAST(value AS INT) AS n", "value").selectExpr(
            "n", "concat('k', n % 10) AS key", "value", *self.columns
        )
        return rows.repartitionById(tasks, expr(f"CAST({task} AS INT)")).drop("n")

    def run(self, tasks: int, task: str, **more: str) -> None:
        """Run the query until it has written all; raises its error."""
        sink = options(self.cluster, **self.sink, **more)
        self.run_with(self.rows(tasks, task).writeStream.format(FORMAT).options(**sink))

    def run_with(self, writer: DataStreamWriter) -> None:
        """The same for a ``writer`` of :meth:`rows`."""
        query = writer.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True).start()
        try:
            assert query.awaitTermination(DEADLINE), f"not done within {DEADLINE} s"
        finally:
            query.stop()

    def forget(self, batch: int) -> None:
        """As if the driver had died after the tasks of the batch, before it noted the batch as done."""
        for name in (f"{batch}", f".{batch}.crc"):
            (self.checkpoint / "commits" / name).unlink()

    def written(self, topic: str, partitions: int = 2) -> Counter[int]:
        """How often each number is in the topic."""
        # A write returns before its markers let readers pass.
        await_stable(self.cluster, topic)
        return Counter(
            int(message.value() or b"-1") for message in raw_records(self.cluster, topic, partitions)
        )


def once(numbers: range) -> Counter[int]:
    """Each number once."""
    return Counter(numbers)
