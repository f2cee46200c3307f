"""Tasks, micro-batches and writes of the sink that come again: each row is written once."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_ordered_kafka.errors import ReplayMismatchError
from spark_ordered_kafka.kafka.buffer import Memory
from spark_ordered_kafka.kafka.ledger import Origin
from spark_ordered_kafka.kafka.task import TaskTransaction
from spark_ordered_kafka.local import LocalCluster
from tests.integration.test_sink import collected, read
from tests.queries import await_stable
from tests.servers import await_true
from tests.streams import (
    FORMAT,
    NumberedWriter,
    create,
    numbered,
    options,
    raw_records,
    writer_context,
)


def test_a_replayed_task_is_skipped_when_its_rows_are_the_same(
    cluster: LocalCluster, spark: SparkSession, topic_name: str
) -> None:
    create(cluster, topic_name, 2)

    def attempt(rows: list[pa.RecordBatch]) -> bool:
        # A context of its own: another worker process, which knows nothing of the first.
        task = TaskTransaction(
            writer_context(cluster), topic_name, f"ordered:{topic_name}:q:0", 7, Memory(1_000_000)
        )
        for batch in rows:
            task.write(batch)
        return task.commit()

    rows = numbered(10, 0, 10)
    assert attempt([rows])
    assert not attempt([rows.slice(30), rows.slice(0, 30)])
    for others in ([rows.slice(1)], [rows, rows.slice(0, 1)], [numbered(10, 1, 10)], []):
        with pytest.raises(ReplayMismatchError, match=rf"(?s)ordered:{topic_name}:q:0.*batch 7.*repartition"):
            attempt(others)
    assert read(spark, cluster, topic_name).count() == 100


def test_an_older_batch_is_refused(cluster: LocalCluster, topic_name: str) -> None:
    create(cluster, topic_name, 1)
    for sequence in (4, 3):
        task = TaskTransaction(
            writer_context(cluster), topic_name, f"ordered:{topic_name}:q:0", sequence, Memory(1000)
        )
        task.write(numbered(1, 0, 1))
        if sequence == 4:
            assert task.commit()
        else:
            with pytest.raises(ReplayMismatchError, match="checkpoint is older"):
                task.commit()


def test_two_attempts_of_a_task_at_once_write_once(
    cluster: LocalCluster, spark: SparkSession, topic_name: str
) -> None:
    create(cluster, topic_name, 1)
    rows = numbered(10, 0, 10)
    name = f"ordered:{topic_name}:q:0"
    zombie = TaskTransaction(writer_context(cluster), topic_name, name, 0, Memory(1_000_000))
    zombie.write(rows)
    winner = TaskTransaction(writer_context(cluster), topic_name, name, 0, Memory(1_000_000))
    winner.write(rows)
    assert winner.commit()
    assert not zombie.commit(), "the fenced attempt learns from the ledger that its rows are there"
    assert read(spark, cluster, topic_name).count() == 100


def test_a_replay_during_which_another_driver_goes_on_is_refused(
    cluster: LocalCluster, topic_name: str
) -> None:
    """What it confirms must be what it has compared: an older entry would let the next batch be written twice."""
    create(cluster, topic_name, 1)

    def task(driver: str, sequence: int) -> TaskTransaction:
        return TaskTransaction(
            contexts[driver],
            topic_name,
            f"ordered:{topic_name}:q:0",
            sequence,
            Memory(1_000_000),
            origin=Origin("query", driver, f"{driver}-{sequence}"),
        )

    def written(driver: str, sequence: int) -> bool:
        one = task(driver, sequence)
        one.write(numbered(10, 10 * sequence, 10))
        return one.commit()

    contexts = {driver: writer_context(cluster) for driver in ("first", "second")}
    assert written("first", 2)
    behind = task("second", 2)
    behind.write(numbered(10, 20, 10))
    assert behind.replayed
    assert written("first", 3)
    with pytest.raises(ReplayMismatchError, match=r"given batch 2 but has committed batch 3.*another driver"):
        behind.commit()
    assert not written("second", 3)
    values = [record.value() for record in raw_records(cluster, topic_name, 1)]
    assert len(values) == len(set(values)) == 200


@pytest.mark.long
def test_two_attempts_that_both_go_on_writing_do_not_fence_each_other_without_end(
    cluster: LocalCluster, spark: SparkSession, topic_name: str
) -> None:
    """As a speculative copy and the slow task that it was started for do."""
    create(cluster, topic_name, 1)
    rows, name = numbered(1, 0, 20_000), f"ordered:{topic_name}:q:0"
    slow, copy = (
        TaskTransaction(writer_context(cluster), topic_name, name, 0, Memory(10_000_000)) for _ in range(2)
    )
    left = {task: [rows.slice(place, 1) for place in reversed(range(rows.num_rows))] for task in (slow, copy)}

    def fenced(task: TaskTransaction, times: int) -> bool:
        task.write(left[task].pop())
        return task.replays == times

    copy.write(left[copy].pop())
    slow.write(left[slow].pop())
    for task, times in ((copy, 1), (slow, 1), (copy, 2)):
        await_true(partial(fenced, task, times), f"attempt fenced {times} times")
    for task in (slow, copy):
        task.write(rows.slice(rows.num_rows - len(left[task])))
    assert slow.commit()
    assert not copy.commit()
    assert (slow.replays, copy.replays) == (1, 2)
    assert read(spark, cluster, topic_name).count() == rows.num_rows


@pytest.mark.long
def test_a_restarted_query_with_other_tasks_fails_with_the_remedy(
    cluster: LocalCluster, spark: SparkSession, topic_name: str, tmp_path: Path
) -> None:
    source, target = create(cluster, f"{topic_name}-in", 1), create(cluster, f"{topic_name}-out", 2)
    NumberedWriter(cluster, source).write(3)
    await_stable(cluster, source)

    def copy(tasks: int) -> None:
        rows = spark.readStream.format(FORMAT).options(
            **options(cluster, subscribe=source, startingOffsets="earliest")
        )
        query = (
            rows.load()
            .select("key", "value")
            .repartition(tasks, "key")
            .writeStream.format(FORMAT)
            .options(**options(cluster, topic=target))
            .option("checkpointLocation", str(tmp_path))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(180)

    copy(3)
    # As if the driver had died after the tasks, before it noted the batch as done.
    for entry in (tmp_path / "commits").iterdir():
        entry.unlink()
    copy(3)
    assert collected(spark, cluster, target).report(300).violations == 0
    for entry in (tmp_path / "commits").iterdir():
        entry.unlink()
    with pytest.raises(Exception, match=r"(?s)replays batch 0 with .* rows .*repartition"):
        copy(2)
    assert read(spark, cluster, target).count() == 300


def test_foreach_batch_with_a_writer_name_is_exactly_once(
    cluster: LocalCluster, spark: SparkSession, topic_name: str, tmp_path: Path
) -> None:
    source, target = create(cluster, f"{topic_name}-in", 1), create(cluster, f"{topic_name}-out", 2)
    NumberedWriter(cluster, source).write(2)
    await_stable(cluster, source)
    sink = options(cluster, topic=target, writer=f"job-{topic_name}")

    def copy(rows: DataFrame, _batch: int) -> None:
        rows.select("key", "value").write.format(FORMAT).options(**sink).mode("append").save()

    for _ in range(2):
        query = (
            spark.readStream.format(FORMAT)
            .options(**options(cluster, subscribe=source, startingOffsets="earliest"))
            .load()
            .writeStream.foreachBatch(copy)
            .option("checkpointLocation", str(tmp_path))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(180)
        for entry in (tmp_path / "commits").iterdir():
            entry.unlink()
    assert collected(spark, cluster, target).report(200).violations == 0


def test_writes_without_a_name_do_not_take_each_other_for_a_replay(
    cluster: LocalCluster, spark: SparkSession, topic_name: str
) -> None:
    create(cluster, topic_name, 1)
    rows = spark.range(10).selectExpr("CAST(id AS STRING) AS value")
    for _ in range(2):
        rows.write.format(FORMAT).options(**options(cluster, topic=topic_name)).mode("append").save()
    assert read(spark, cluster, topic_name).count() == 20
