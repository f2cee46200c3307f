"""Micro-batches that are replayed with other tasks or other rows, or written twice under one name: never silently."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import SparkSession

from spark_ordered_kafka.errors import ReplayMismatchError
from spark_ordered_kafka.kafka.buffer import Memory
from spark_ordered_kafka.kafka.ledger import Fingerprint, Origin
from spark_ordered_kafka.kafka.replay import Claim
from spark_ordered_kafka.kafka.task import TaskTransaction
from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.spark.options import sink_options
from spark_ordered_kafka.spark.sink import write_task
from tests.integration.replaying import Replayed, once
from tests.queries import await_stable
from tests.servers import TIMEOUT
from tests.streams import create, numbered, options, records_in_order, writer_context


def accepting(error: object) -> dict[str, str]:
    """The option that an error offers, as it says."""
    name, value = re.search(r"(acceptReplayMismatch)=(\S+)", str(error)).groups()  # type: ignore[union-attr]
    return {name: value}


def test_a_replay_with_fewer_tasks_never_succeeds_by_itself(
    cluster: LocalCluster, spark: SparkSession, topic_name: str, tmp_path: Path
) -> None:
    create(cluster, topic_name, 2)
    query = Replayed(cluster, spark, tmp_path, sink={"topic": topic_name})
    query.give(0, range(40))
    query.run(8, "4 + n % 4")
    query.forget(0)
    for _ in range(2):
        with pytest.raises(
            Exception, match=r"(?s)4' committed 10 rows of batch 0.*none in this one"
        ) as caught:
            query.run(4, "n % 4")
    assert set(query.written(topic_name).values()) == {2}, "which only the driver can see, and has said"
    query.give(1, range(40, 80))
    query.run(4, "n % 4", **accepting(caught.value))
    later = {n: count for n, count in query.written(topic_name).items() if n >= 40}
    assert later == once(range(40, 80)), "the batch after goes on as ever"


def test_a_replay_with_fewer_tasks_and_a_column_for_the_topic(
    cluster: LocalCluster, spark: SparkSession, topic_name: str, tmp_path: Path
) -> None:
    for i in range(2):
        create(cluster, f"{topic_name}-{i}", 1)
    query = Replayed(cluster, spark, tmp_path, columns=(f"concat('{topic_name}-', n % 2) AS topic",))
    query.give(0, range(40))
    query.run(8, "4 + n % 4")
    query.forget(0)
    with pytest.raises(Exception, match=r"(?s)[4-7]' committed 10 rows of batch 0.*none in this one"):
        query.run(2, "n % 2")


@pytest.mark.long
@pytest.mark.parametrize("tasks", [7, 12])
def test_a_replay_with_other_tasks_writes_nothing_when_all_had_committed(
    cluster: LocalCluster, spark: SparkSession, topic_name: str, tmp_path: Path, tasks: int
) -> None:
    create(cluster, topic_name, 2)
    query = Replayed(cluster, spark, tmp_path, sink={"topic": topic_name})
    query.give(0, range(80))
    query.run(8, "n % 8")
    query.forget(0)
    with pytest.raises(Exception, match="replays batch 0 with"):
        query.run(tasks, f"n % {tasks}")
    assert {n for n, count in query.written(topic_name).items() if count > 1} <= set(range(80))
    query_again = query.written(topic_name)
    with pytest.raises(Exception, match="replays batch 0 with"):
        query.run(tasks, f"n % {tasks}")
    assert query.written(topic_name) == query_again, "a retry adds nothing"


@pytest.mark.parametrize(
    ("claim", "why"),
    [
        (Claim("v", 0, Origin("other", "run 2", "2")), "of another query"),
        (Claim("v", 1, Origin("query", "run 2", "2")), "checkpoint is older"),
        (Claim("w", 2, Origin("query", "run 2", "2")), "set the option writer to v,"),
    ],
    ids=["checkpoint deleted", "checkpoint restored", "writer renamed"],
)
def test_a_task_that_has_committed_nothing_writes_nothing_that_others_have(
    cluster: LocalCluster, topic_name: str, claim: Claim, why: str
) -> None:
    create(cluster, topic_name, 2)
    sink = sink_options(options(cluster, topic=topic_name))
    rows, more = numbered(2, 0, 5), numbered(2, 5, 5)
    write_task(sink, Claim("v", 2, Origin("query", "run 1", "1")), 0, iter([rows]), is_only_write=True)
    with pytest.raises(ReplayMismatchError, match=why):
        write_task(sink, claim, 1, iter([rows]), is_only_write=True)
    await_stable(cluster, topic_name)
    assert len(records_in_order(cluster, topic_name)) == rows.num_rows
    # The batch after is of the same query and name.
    following = Claim("v", 3, Origin("query", "run 2", "2"))
    write_task(sink, following, 1, iter([more]), is_only_write=True)
    await_stable(cluster, topic_name)
    assert len(records_in_order(cluster, topic_name)) == rows.num_rows + more.num_rows


def test_a_task_looks_at_the_topics_it_has_no_rows_for_now(
    cluster: LocalCluster, spark: SparkSession, topic_name: str, tmp_path: Path
) -> None:
    topics = [create(cluster, f"{topic_name}-{name}", 1) for name in "ab"]
    query = Replayed(
        cluster, spark, tmp_path, columns=(f"concat('{topic_name}-', if(n < 20, 'a', 'b')) AS topic",)
    )
    query.give(0, range(40))
    query.run(2, "n div 20")
    query.forget(0)
    with pytest.raises(Exception, match=r"(?s)committed 20 rows of batch 0.*none in this one"):
        query.run(2, "1 - n div 20")
    assert [query.written(topic, 1) for topic in topics] == [once(range(20)), once(range(20, 40))]
    query.run(2, "n div 20")
    assert [query.written(topic, 1) for topic in topics] == [once(range(20)), once(range(20, 40))]


@pytest.mark.long
def test_a_batch_whose_input_shrank_passes_once_the_operator_says_so(
    cluster: LocalCluster,
    spark: SparkSession,
    topic_name: str,
    tmp_path: Path,
) -> None:
    create(cluster, topic_name, 2)
    query = Replayed(cluster, spark, tmp_path, sink={"topic": topic_name})
    query.give(0, range(20))
    query.run(2, "n % 2")
    query.give(1, range(20, 40))
    query.run(2, "n % 2")
    query.forget(1)
    query.give(1, range(30, 40))
    for _ in range(2):
        with pytest.raises(
            Exception, match=r"(?s)replays batch 1 with 5 rows.*the 10 rows.*retention"
        ) as caught:
            query.run(2, "n % 2")
    option = accepting(caught.value)
    with pytest.raises(Exception, match="replays batch 1"):
        query.run(2, "n % 2", acceptReplayMismatch=option["acceptReplayMismatch"].replace(":1", ":2"))
    query.give(2, range(40, 60))
    query.run(2, "n % 2", **option)
    assert query.written(topic_name) == once(range(60))
    query.forget(2)
    query.give(2, range(50, 60))
    with pytest.raises(Exception, match="replays batch 2"):
        query.run(2, "n % 2", **option)


def test_what_is_passed_over_is_logged(
    cluster: LocalCluster, topic_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    create(cluster, topic_name, 1)
    name = f"ordered:{topic_name}:job:3"

    def attempt(run: str, rows: int, *, accepted: bool) -> bool:
        task = TaskTransaction(
            writer_context(cluster),
            topic_name,
            name,
            17,
            Memory(1_000_000),
            origin=Origin("query", run, f"of {run}"),
            accepted=accepted,
        )
        task.write(numbered(1, 0, rows))
        task.check()
        return task.commit()

    assert attempt("first", 10, accepted=True)
    assert not attempt("second", 10, accepted=True)
    assert not [message for message in caplog.messages if "acceptReplayMismatch" in message], (
        "nothing to accept"
    )
    with pytest.raises(ReplayMismatchError, match="acceptReplayMismatch=job:17"):
        attempt("third", 4, accepted=False)
    assert not attempt("third", 4, accepted=True)
    assert [message for message in caplog.messages if "acceptReplayMismatch" in message] == [
        f"acceptReplayMismatch: batch 17 of task {name}: the 10 rows committed before stay, the 4 rows of this attempt"
        " are skipped"
    ]


def test_the_ledger_of_the_version_before_is_understood(cluster: LocalCluster, topic_name: str) -> None:
    create(cluster, topic_name, 1)
    context, name = writer_context(cluster), f"ordered:{topic_name}:job:0"
    rows = numbered(2, 0, 5)
    headers = pa.array([[{"key": "h", "value": b"x"}]] * rows.num_rows)
    with_headers = rows.append_column("headers", headers)
    old = Fingerprint().add(rows["key"].to_pylist(), rows["value"].to_pylist())
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": name, "log_level": 3}
    )
    ledger = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": name})
    producer.init_transactions(TIMEOUT)
    producer.begin_transaction()
    entry = TopicPartition(topic_name, 0, 4, f"1:{old.rows}:{old.total:016x}")
    producer.send_offsets_to_transaction([entry], ledger.consumer_group_metadata(), TIMEOUT)
    producer.commit_transaction(TIMEOUT)
    ledger.close()
    origin = Origin("query", "run", "execution")
    replay = TaskTransaction(context, topic_name, name, 4, Memory(1_000_000), origin=origin)
    replay.write(with_headers)
    assert not replay.commit(), "it was written with headers that the old fingerprint leaves out"
    later = TaskTransaction(context, topic_name, name, 5, Memory(1_000_000), origin=origin)
    later.write(with_headers)
    assert later.commit()
    again = TaskTransaction(
        context, topic_name, name, 5, Memory(1_000_000), origin=replace(origin, run="next")
    )
    again.write(rows)
    with pytest.raises(ReplayMismatchError, match="replays batch 5"):
        again.commit()
