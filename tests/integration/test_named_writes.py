"""Writes of one micro-batch under names of their own choice (option ``writer``), in ``foreachBatch``."""

from __future__ import annotations

import shutil
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from uuid import UUID

import pytest
from pyspark import inheritable_thread_target
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr

from spark_ordered_kafka.local import LocalCluster
from tests.integration.replaying import Replayed, once
from tests.streams import FORMAT, create, options


@dataclass(frozen=True)
class Write:
    """A write of each micro-batch: options of the sink, and SQL for what becomes of the rows.

    ``group``: a job group of its own.
    """

    sink: dict[str, str]
    tasks: int = 2
    task: str = "value % 2"
    header: str = "one"
    group: str | None = None

    def __call__(self, cluster: LocalCluster, rows: DataFrame) -> None:
        """Write."""
        if self.group is not None:
            rows.sparkSession.sparkContext.setJobGroup(self.group, "of the user's own")
        made = f"array(named_struct('key', 'h', 'value', CAST('{self.header}' AS BINARY)))"
        placed = rows.repartitionById(self.tasks, expr(f"CAST({self.task} AS INT)"))
        sink = options(cluster, **self.sink)
        placed.withColumn("headers", expr(made)).write.format(FORMAT).options(**sink).mode("append").save()


def run(query: Replayed, *writes: Write) -> None:
    """Run a query that writes its micro-batches several times."""

    def write(rows: DataFrame, _batch: int) -> None:
        for one in writes:
            one(query.cluster, rows)

    query.run_with(query.rows(2, "n % 2").writeStream.foreachBatch(write))


@pytest.mark.parametrize(
    "second",
    [{"header": "two"}, pytest.param({}, marks=pytest.mark.long)],
    ids=["other headers", "the same rows"],
)
def test_a_second_write_under_a_name_is_refused(
    cluster: LocalCluster, spark: SparkSession, topic_name: str, tmp_path: Path, second: dict[str, str]
) -> None:
    create(cluster, topic_name, 2)
    query = Replayed(cluster, spark, tmp_path)
    query.give(0, range(20))
    sink = {"topic": topic_name, "writer": f"{topic_name}-1"}
    for _ in range(2):
        with pytest.raises(Exception, match=r"(?s)another write of this batch.*option writer"):
            run(query, Write(sink), Write(sink, **second))  # type: ignore[arg-type]
        assert query.written(topic_name) == once(range(20)), "before it has written anything"
    own = sink | {"writer": f"{topic_name}-2"}
    run(query, Write(sink), Write(own, **second))  # type: ignore[arg-type]
    assert query.written(topic_name) == once(range(20)) + once(range(20))


@pytest.mark.long
@pytest.mark.parametrize(
    "groups",
    [(None, "mine"), ("mine", "mine"), (f"{UUID(int=1)}", f"{UUID(int=2)}")],
    ids=["one write", "both writes", "ids"],
)
def test_a_second_write_is_refused_in_a_job_group_of_its_own(
    cluster: LocalCluster,
    spark: SparkSession,
    topic_name: str,
    tmp_path: Path,
    groups: tuple[str | None, str],
) -> None:
    """And a replay by the next run is none, whatever the group."""
    create(cluster, topic_name, 2)
    query = Replayed(cluster, spark, tmp_path)
    sink = {"topic": topic_name, "writer": topic_name}
    first, second = (Write(sink, group=group) for group in groups)
    query.give(0, range(20))
    run(query, first)
    query.give(1, range(20, 40))
    for _ in range(2):
        with pytest.raises(Exception, match=r"(?s)another write of this batch.*option writer"):
            run(query, first, second)
    assert query.written(topic_name) == once(range(40))
    query.give(2, range(40, 60))
    run(query, second)
    assert query.written(topic_name) == once(range(60))


@pytest.mark.long
def test_a_second_write_by_other_tasks_writes_nothing(
    cluster: LocalCluster, spark: SparkSession, topic_name: str, tmp_path: Path
) -> None:
    create(cluster, topic_name, 2)
    query = Replayed(cluster, spark, tmp_path)
    query.give(0, range(20))
    write = Write({"topic": topic_name, "writer": topic_name})
    others = replace(write, tasks=4, task="2 + value % 2")
    for _ in range(2):
        with pytest.raises(Exception, match=r"(?s)another write of this batch.*option writer"):
            run(query, write, others)
        assert query.written(topic_name) == once(range(20))


@pytest.mark.long
def test_a_write_that_failed_is_made_up_for_by_the_next_run(
    cluster: LocalCluster, spark: SparkSession, topic_name: str, tmp_path: Path
) -> None:
    topics = [create(cluster, f"{topic_name}-{i}", 2) for i in range(2)]
    query = Replayed(cluster, spark, tmp_path)
    query.give(0, range(20))
    writes = [Write({"topic": topic, "writer": topic_name}) for topic in topics]
    with pytest.raises(Exception, match="no_such_column"):
        run(query, *writes, Write({"topic": topics[0]}, task="no_such_column"))
    query.give(1, range(20, 40))
    run(query, *writes)
    assert [query.written(topic) for topic in topics] == [once(range(40))] * 2, (
        "a name may serve several topics"
    )


@pytest.mark.long
def test_writes_of_a_batch_in_threads_of_their_own(
    cluster: LocalCluster, spark: SparkSession, topic_name: str, tmp_path: Path
) -> None:
    """As docs/spark.md has it; without what it says there, nothing is written and the error says why."""
    topics = [create(cluster, f"{topic_name}-{i}", 2) for i in range(2)]
    query = Replayed(cluster, spark, tmp_path)
    query.give(0, range(20))

    def write(rows: DataFrame, is_active: bool, inherits: bool) -> None:
        session = rows.sparkSession
        inherit = inheritable_thread_target(session) if inherits else partial

        def to(topic: str) -> None:
            if is_active:
                session.createDataFrame([], "a INT")
            Write({"topic": topic, "writer": topic})(cluster, rows)

        with ThreadPoolExecutor() as pool:
            for done in [pool.submit(inherit(partial(to, topic))) for topic in topics]:
                done.result()

    def runs(is_active: bool, inherits: bool) -> None:
        function = query.rows(2, "n % 2").writeStream.foreachBatch(
            lambda rows, _: write(rows, is_active, inherits)
        )
        query.run_with(function)

    with pytest.raises(Exception, match="DATA_SOURCE_NOT_FOUND"):
        runs(is_active=False, inherits=True)
    with pytest.raises(Exception, match=r"another thread only by pyspark\.inheritable_thread_target"):
        runs(is_active=True, inherits=False)
    assert [query.written(topic) for topic in topics] == [Counter()] * 2
    runs(is_active=True, inherits=True)
    query.forget(0)
    runs(is_active=True, inherits=True)
    assert [query.written(topic) for topic in topics] == [once(range(20))] * 2


@pytest.mark.long
def test_after_a_deleted_checkpoint_a_writer_needs_a_new_name(
    cluster: LocalCluster, spark: SparkSession, topic_name: str, tmp_path: Path
) -> None:
    create(cluster, topic_name, 2)
    query = Replayed(cluster, spark, tmp_path, sink={"topic": topic_name, "writer": "first"})
    query.give(0, range(10))
    query.run(2, "n % 2")
    shutil.rmtree(query.checkpoint)
    query.give(0, range(20))
    with pytest.raises(
        Exception, match=r"(?s)checkpoint was deleted.*option writer a name that was not used"
    ):
        query.run(2, "n % 2")
    query.sink["writer"] = "second"
    query.run(2, "n % 2")
    assert query.written(topic_name) == once(range(20)) + Counter(range(10)), "asked for anew, written anew"
