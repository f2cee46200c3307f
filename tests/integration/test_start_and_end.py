"""Where reading starts and ends, on real servers, mostly without Spark's engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from pyspark.sql import SparkSession

from spark_ordered_kafka.errors import ConfigError, RequestError
from spark_ordered_kafka.kafka.buffer import Memory
from spark_ordered_kafka.kafka.task import TaskTransaction
from spark_ordered_kafka.local import LocalCluster
from tests.inside import producer_of
from tests.integration.driven import (
    Stream,
    Writer,
    admin_of,
    await_more,
    batch,
    now,
    offsets,
    stream,
)
from tests.queries import Query, await_stable
from tests.servers import TIMEOUT
from tests.streams import (
    FORMAT,
    Collector,
    NumberedWriter,
    change,
    create,
    delivered,
    numbered,
    options,
    writer_context,
)

# -- in the middle of a history -------------------------------------------------------------------------------------


@pytest.mark.long
def test_starting_at_latest_amid_changes_under_load(cluster: LocalCluster, topic_name: str) -> None:
    create(cluster, topic_name, 1)
    writer = NumberedWriter(cluster, topic_name)
    source = options(cluster, subscribe=topic_name)
    with writer.under_load():
        await_more(writer)
        change(cluster, topic_name, 3)
        await_more(writer)
        with stream(source | {"maxOffsetsPerTrigger": "300"}) as running:
            for count in (5, 2, 4):
                change(cluster, topic_name, count)
                await_more(writer)
            for _ in range(4):
                running.step()
            checkpoint, found = running.start, running.found
        change(cluster, topic_name, 3)
        await_more(writer)
    await_stable(cluster, topic_name)
    with stream(source | {"maxOffsetsPerTrigger": str(writer.written // 8)}, checkpoint) as running:
        running.found = found
        running.catch_up()
    assert 0 < len(found.keys) < writer.written, "it must start in the middle"
    assert found.report().violations == 0, found.report()
    assert len(set(found.keys)) == writer.keys
    last = dict(zip(found.keys, found.numbers, strict=True))
    assert set(last.values()) == {writer.written // writer.keys - 1}


def test_times_in_the_middle_of_a_history(cluster: LocalCluster, topic_name: str) -> None:
    create(cluster, topic_name, 1)
    writer = Writer(cluster, topic_name)
    for count in (4, 2):
        writer.write()
        change(cluster, topic_name, count)
    writer.write()
    middle, before = now(), writer.written
    for count in (5, 3):
        writer.write()
        change(cluster, topic_name, count)
    writer.write()
    after = writer.written - before
    # Partitions 2 and 3 were removed before; where nothing was written since, there is no record as late.
    starting = options(
        cluster,
        subscribe=topic_name,
        startingTimestamp=middle,
        startingOffsetsByTimestampStrategy="latest",
        maxOffsetsPerTrigger=60,
    )
    with stream(starting) as running:
        assert running.catch_up() == after
        assert min(running.found.numbers) == before // writer.keys
        assert running.found.report(after).violations == 0, running.found.report(after)
    late = batch(starting)
    assert len(late.keys) == after
    assert late.report(after).violations == 0, late.report(after)
    early = batch(options(cluster, subscribe=topic_name, endingTimestamp=middle))
    assert max(early.numbers) == before // writer.keys - 1
    assert early.report(before).violations == 0, early.report(before)
    assert set(early.places).isdisjoint(late.places)
    with pytest.raises(ConfigError, match=f"option startingTimestamp has the value '{topic_name}-[0-9]+: "):
        batch(options(cluster, subscribe=topic_name, startingTimestamp=now()))


def test_times_and_offsets_of_single_partitions(cluster: LocalCluster, topic_name: str) -> None:
    create(cluster, topic_name, 2)
    writer = Writer(cluster, topic_name, keys=4, step=3)
    writer.write()
    middle = now()
    writer.write()
    starting = offsets(topic_name, p0=middle, p1=0)
    found = batch(options(cluster, subscribe=topic_name, startingOffsetsByTimestamp=starting))
    assert {
        n for k, n, place in zip(found.keys, found.numbers, found.places, strict=True) if place[1] == 0
    } == {3, 4, 5}
    assert {
        n for k, n, place in zip(found.keys, found.numbers, found.places, strict=True) if place[1] == 1
    } == set(range(6))
    ending = offsets(topic_name, p0=now(), p1=middle)
    found = batch(options(cluster, subscribe=topic_name, endingOffsetsByTimestamp=ending))
    assert {n for n, place in zip(found.numbers, found.places, strict=True) if place[1] == 1} == {0, 1, 2}
    assert {n for n, place in zip(found.numbers, found.places, strict=True) if place[1] == 0} == set(range(6))
    with stream(
        options(cluster, subscribe=topic_name, startingOffsets=offsets(topic_name, p0=2, p1=-1))
    ) as running:
        running.catch_up()
        assert min(offset for _, _, offset in running.found.places) == 2
        assert running.found.partitions(topic_name) == {0}


@pytest.mark.parametrize("start", ["offsets", "time", "assigned"])
def test_the_first_micro_batch_is_replayed_where_its_start_is_refused_by_then(
    cluster: LocalCluster, topic_name: str, start: str
) -> None:
    """The topic has another partition, and records of the start are gone; a new query cannot begin there any more."""
    create(cluster, topic_name, 2)
    begun = now()
    NumberedWriter(cluster, topic_name, keys=20).write()
    await_stable(cluster, topic_name)
    source = {
        "offsets": options(cluster, subscribe=topic_name, startingOffsets=offsets(topic_name, p0=2, p1=0)),
        "time": options(cluster, subscribe=topic_name, startingTimestamp=begun),
        "assigned": options(cluster, assign=json.dumps({topic_name: [0, 1]}), startingOffsets="earliest"),
    }[start]
    with Query(source) as query:
        end = query.plan()
        before = query.ranges(end)
    assert [partition for task in before for _, partition, _, _ in task] == [0, 1]
    change(cluster, topic_name, 3)
    ends = json.loads(end)["topics"][topic_name]["positions"]
    gone = [TopicPartition(topic_name, partition, at) for partition, at in enumerate(ends)]
    admin = admin_of(cluster)
    for future in admin.delete_records(gone).values():
        future.result(TIMEOUT)
    with Query(source) as again:
        assert again.ranges(end) == before
        with pytest.raises(ConfigError, match=topic_name):
            again.plan()


@pytest.mark.long
def test_a_query_that_is_triggered_once_reads_from_where_it_starts(
    cluster: LocalCluster, spark: SparkSession, topic_name: str, tmp_path: Path
) -> None:
    """Spark runs one micro-batch, the first."""
    create(cluster, topic_name, 1)
    writer = NumberedWriter(cluster, topic_name, keys=5)
    writer.write()
    await_stable(cluster, topic_name)
    source = options(cluster, subscribe=topic_name, startingOffsets=offsets(topic_name, p0=3))
    found = Collector()
    for _ in range(2):
        rows = spark.readStream.format(FORMAT).options(**source).load()
        query = (
            rows.writeStream.foreachBatch(found.add)
            .option("checkpointLocation", str(tmp_path))
            .trigger(once=True)
            .start()
        )
        assert query.awaitTermination(180)
        assert found.report().records == writer.written - 3


def test_what_is_not_committed_is_not_there_yet(cluster: LocalCluster, topic_name: str) -> None:
    create(cluster, topic_name, 1)
    Writer(cluster, topic_name, keys=1).write()
    middle = now()
    unfinished = TaskTransaction(
        writer_context(cluster), topic_name, f"ordered:{topic_name}:other:0", 0, Memory(1000)
    )
    unfinished.write(numbered(1, 5, 3))
    producer_of(unfinished).flush()  # the records must be in the log while it is open
    source = options(
        cluster,
        subscribe=topic_name,
        startingTimestamp=middle,
        startingOffsetsByTimestampStrategy="latest",
    )
    try:
        with stream(source) as running:
            assert running.catch_up() == 0
            unfinished.commit()
            await_stable(cluster, topic_name)
            assert running.catch_up() == 3
            assert running.found.numbers == [5, 6, 7]
    finally:
        unfinished.abort()
    assert batch(source).numbers == [5, 6, 7]


def test_a_start_at_latest_is_kept_from_the_first_batch_on(cluster: LocalCluster, topic_name: str) -> None:
    """Spark asks for the start again when it replays the first micro-batch: nothing may lie between the two answers."""
    create(cluster, topic_name, 1)
    writer = Writer(cluster, topic_name, keys=1)
    writer.write()
    source = options(cluster, subscribe=topic_name)
    with stream(source) as first:
        writer.write()
        assert first.step() == 0
        planned = first.start
    with stream(source) as again:
        assert again.reader.partitions(again.start, planned) == []
    with stream(source, planned) as restarted:
        assert restarted.catch_up() == 5
        assert restarted.found.numbers == [5, 6, 7, 8, 9]


# -- limits ---------------------------------------------------------------------------------------------------------


def test_small_batches_are_held_back(cluster: LocalCluster, topic_name: str) -> None:
    create(cluster, topic_name, 1)
    writer = Writer(cluster, topic_name, keys=1, step=5)
    clock = iter(range(0, 10_000, 40))
    source = options(
        cluster,
        subscribe=topic_name,
        startingOffsets="earliest",
        minOffsetsPerTrigger=15,
        maxTriggerDelay="100s",
    )
    writer.write()
    # The clock is asked once for the first batch and once or twice for each later one; each time 40 s have passed.
    with stream(source, clock=lambda: float(next(clock))) as running:
        assert running.step() == 5, "the first batch of a run is not held back"
        writer.write()
        assert [running.step(), running.step(), running.step()] == [0, 0, 5], "the delay has passed"
        writer.write(3)
        assert running.step() == 15, "enough"
        writer.write()
        running.reader.prepareForTriggerAvailableNow()
        assert running.step() == 5, "a run to a fixed end ignores the minimum"
        writer.write()
        assert running.catch_up() == 0


# -- bad input ------------------------------------------------------------------------------------------------------


def planned(source: dict[str, str]) -> str:
    """The end of a query's first micro-batch."""
    with stream(source) as running:
        return running.plan()


def test_starts_and_ends_that_the_log_does_not_have(cluster: LocalCluster, topic_name: str) -> None:
    create(cluster, topic_name, 2)
    writer = Writer(cluster, topic_name, keys=4)
    writer.write()
    middle = now()
    writer.write()
    cut = TopicPartition(topic_name, 0, 3)
    admin = admin_of(cluster)
    admin.delete_records([cut])[cut].result(TIMEOUT)
    refused = [
        ({"startingOffsets": offsets(topic_name, p0=2, p1=0)}, r"startingOffsets .*-0: 2': the log holds the offsets 3 to \d+$"),
        ({"startingOffsets": offsets(topic_name, p0=3, p1=999)}, r"startingOffsets .*-1: 999': the log holds .* 0 to \d+$"),
        ({"startingOffsets": offsets(topic_name, p0=3, p1=0, p2=0)}, "startingOffsets .*-2': .* has the partitions 0 to 1"),
        ({"startingOffsets": offsets(topic_name, p0=3)}, f"must name every partition .* missing: {topic_name}-1"),
        ({"startingOffsets": offsets("other", p0=3)}, f"startingOffsets .*'other': the topics read are {topic_name}"),
        ({"startingOffsetsByTimestamp": offsets(topic_name, p1=0)}, f"ByTimestamp .* missing: {topic_name}-0"),
    ]  # fmt: skip
    for given, message in refused:
        for attempt in (planned, batch):
            with pytest.raises(ConfigError, match=message):
                attempt(options(cluster, subscribe=topic_name, **given))
    ends: list[tuple[dict[str, Any], str]] = [
        (
            {"endingOffsets": offsets(topic_name, p0=999, p1=-1)},
            "option endingOffsets .*-0: 999': the log holds",
        ),
        (
            {
                "startingOffsets": offsets(topic_name, p0=5, p1=5),
                "endingOffsets": offsets(topic_name, p0=5, p1=4),
            },
            r"option endingOffsets .*-1: 4': must not lie before startingOffsets \(5\)",
        ),
        (
            {"startingTimestamp": middle, "endingOffsets": offsets(topic_name, p0=3, p1=0)},
            r"option endingOffsets .*-0: 3': must not lie before startingTimestamp \(\d+\)",
        ),
    ]
    for changes, message in ends:
        with pytest.raises(ConfigError, match=message):
            batch(options(cluster, subscribe=topic_name, **changes))
    for read in (Stream, batch):
        with pytest.raises(
            ConfigError, match=r"option subscribePattern has the value 'no-such-\.\*': the whole name"
        ):
            read(options(cluster, subscribePattern="no-such-.*"))
        with pytest.raises(RequestError, match="'no-such-topic' does not exist"):
            read(options(cluster, subscribe=f"{topic_name},no-such-topic"))


# -- through Spark --------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_query_by_pattern_and_time(
    cluster: LocalCluster, spark: SparkSession, topic_name: str, tmp_path: Path
) -> None:
    writers = [Writer(cluster, create(cluster, f"{topic_name}-{n}", 1), keys=5, step=4) for n in range(2)]
    for writer in writers:
        writer.write()
    middle = now()
    writers[0].write()
    source = options(
        cluster,
        subscribePattern=f"{topic_name}-.",
        startingTimestamp=middle,
        startingOffsetsByTimestampStrategy="latest",
        minOffsetsPerTrigger=10_000,
    )
    assert delivered(spark, source, str(tmp_path)).report().records == 20
    assert (tmp_path / "offsets" / "0").exists()
    later = Writer(cluster, create(cluster, f"{topic_name}-x", 1), keys=5, step=4)
    later.write()
    assert delivered(spark, source, str(tmp_path)).report(20).violations == 0
    ending = options(cluster, subscribePattern=f"{topic_name}-.", endingTimestamp=middle)
    assert spark.read.format(FORMAT).options(**ending).load().count() == 40


@pytest.mark.long
def test_a_query_that_starts_at_latest_loses_nothing_that_comes_later(
    cluster: LocalCluster, spark: SparkSession, topic_name: str, tmp_path: Path
) -> None:
    writer = Writer(cluster, create(cluster, topic_name, 1), keys=1, step=4)
    writer.write()
    source = options(cluster, assign=json.dumps({topic_name: [0]}))
    assert delivered(spark, source, str(tmp_path)).report().records == 0
    writer.write()
    found = Collector()
    delivered(spark, source, str(tmp_path), found)
    assert [number for numbers in found.numbers for number in numbers.tolist()] == [4, 5, 6, 7]


@pytest.mark.long
def test_a_read_without_order_is_split(cluster: LocalCluster, spark: SparkSession, topic_name: str) -> None:
    Writer(cluster, create(cluster, topic_name, 2)).write(4)
    source = options(cluster, subscribe=topic_name, ordering="none")
    for more, tasks in (({}, 2), ({"minPartitions": "6"}, 6), ({"maxRecordsPerPartition": "50"}, 10)):
        rows = spark.read.format(FORMAT).options(**source, **more).load()
        assert abs(rows.rdd.getNumPartitions() - tasks) <= (0 if tasks == 2 else 1), more
        assert rows.count() == 400
