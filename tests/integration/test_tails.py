"""Ranges whose last offsets hold nothing to deliver: they must end, and lose nothing."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest
from confluent_kafka import Producer

from spark_ordered_kafka.local import LocalCluster
from tests.queries import Query, Rows, await_stable, batch_rows, everything, verdict
from tests.servers import TIMEOUT
from tests.streams import NumberedWriter, change, create, raw_records


def transact(
    cluster: LocalCluster, topic: str, records: Sequence[tuple[bytes | None, bytes | None]], commit: bool
) -> None:
    """One transaction, of keys and values, of a producer of its own on partition 0."""
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": f"tails-{topic}"}
    )
    producer.init_transactions(TIMEOUT)
    producer.begin_transaction()
    for key, value in records:
        producer.produce(topic, key=key, value=value, partition=0)
    assert producer.flush(TIMEOUT) == 0
    if commit:
        producer.commit_transaction(TIMEOUT)
    else:
        producer.abort_transaction(TIMEOUT)
    await_stable(cluster, topic)


@pytest.mark.parametrize("committed_at_the_end", [True, pytest.param(False, marks=pytest.mark.long)])
def test_control_and_aborted_records_at_the_end(
    cluster: LocalCluster, topic_name: str, committed_at_the_end: bool
) -> None:
    """Offsets 0 to 1 and their marker, 3 to 5 aborted and their marker, perhaps 7 and its marker."""
    create(cluster, topic_name, 1)
    transact(cluster, topic_name, [(None, b"a"), (None, b"b")], commit=True)
    transact(cluster, topic_name, [(None, b"x"), (None, b"y"), (None, b"z")], commit=False)
    expected = [b"a", b"b"]
    if committed_at_the_end:
        transact(cluster, topic_name, [(None, b"c")], commit=True)
        expected.append(b"c")
    wanted = everything(cluster, topic_name)
    (rows,) = batch_rows(wanted)
    assert [row["value"] for row in rows] == expected
    with Query(wanted) as query:
        assert [row["value"] for row in query.all_rows()] == expected
        assert query.positions(topic_name) == [9 if committed_at_the_end else 7]
    for end in range(8):
        (rows,) = batch_rows(wanted | {"endingOffsets": f'{{"{topic_name}":{{"0":{end}}}}}'}) or [[]]
        assert [row["offset"] for row in rows] == [o for o in (0, 1, 7) if o < end], end
    (rows,) = batch_rows(wanted | {"startingOffsets": f'{{"{topic_name}":{{"0":3}}}}'})
    assert [row["value"] for row in rows] == expected[2:]
    (rows,) = batch_rows(wanted | {"kafka.isolation.level": "read_uncommitted"})
    assert [row["value"] for row in rows] == [b"a", b"b", b"x", b"y", b"z", *expected[2:]]


def test_records_without_content_are_no_control_records(cluster: LocalCluster, topic_name: str) -> None:
    """Neither key nor value, or empty ones: with a control record in the middle and one at the end."""
    create(cluster, topic_name, 1)
    contents = (None, b"", b"x")
    pairs = [(key, value) for key in contents for value in contents]
    for _ in range(2):
        transact(cluster, topic_name, pairs, commit=True)
    expected = [*enumerate(pairs), *enumerate(pairs, len(pairs) + 1)]

    def seen(rows: Rows) -> list[tuple[int, tuple[bytes | None, bytes | None]]]:
        return [(row["offset"], (row["key"], row["value"])) for row in rows]

    wanted = everything(cluster, topic_name)
    (rows,) = batch_rows(wanted)
    assert seen(rows) == expected, "with content and without"
    with Query(wanted) as query:
        assert seen(query.all_rows()) == expected
        assert query.positions(topic_name) == [2 * len(pairs) + 2]
    for end in (1, 2, len(pairs)):
        (rows,) = batch_rows(wanted | {"endingOffsets": f'{{"{topic_name}":{{"0":{end}}}}}'})
        assert seen(rows) == expected[:end]


@pytest.mark.long
def test_a_range_that_ends_in_a_compaction_gap(cluster: LocalCluster, topic_name: str) -> None:
    """One key has all but the last offsets, so the cleaner leaves a gap before the active segment."""
    create(
        cluster,
        topic_name,
        1,
        **{
            "cleanup.policy": "compact",
            "segment.ms": "100",
            "min.cleanable.dirty.ratio": "0.001",
            "max.compaction.lag.ms": "100",
        },
    )
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(20):
        producer.produce(topic_name, key=b"same", value=str(number).encode(), partition=0)
        assert producer.flush(TIMEOUT) == 0
    deadline = time.monotonic() + 6 * TIMEOUT
    while True:
        # A record now and then rolls the segment, without which nothing is cleaned.
        producer.produce(topic_name, key=b"other", value=b"roll", partition=0)
        assert producer.flush(TIMEOUT) == 0
        left = [message.offset() for message in raw_records(cluster, topic_name, 1)]
        if not set(left) & set(range(19)):
            break
        assert time.monotonic() < deadline, f"not compacted: {left}"
        time.sleep(0.2)
    wanted = everything(cluster, topic_name, misroutedRecords="fail")
    for end in (1, 10, 19):
        assert batch_rows(wanted | {"endingOffsets": f'{{"{topic_name}":{{"0":{end}}}}}'}) == [[]]
    (rows,) = batch_rows(wanted | {"endingOffsets": f'{{"{topic_name}":{{"0":20}}}}'})
    assert [(row["key"], row["value"]) for row in rows] == [(b"same", b"19")]
    with Query(wanted) as query:
        assert query.all_rows()[0]["offset"] == 19


def test_empty_segments(cluster: LocalCluster, topic_name: str) -> None:
    create(cluster, topic_name, 1)
    for partitions in (3, 1, 2):
        change(cluster, topic_name, partitions)
    writer = NumberedWriter(cluster, topic_name, keys=7)
    writer.write()
    for partitions in (4, 1, 3):
        change(cluster, topic_name, partitions)
    await_stable(cluster, topic_name)
    rows = [row for task in batch_rows(everything(cluster, topic_name)) for row in task]
    assert verdict(rows, writer.written).violations == 0
    with Query(everything(cluster, topic_name)) as query:
        assert verdict(query.all_rows(), writer.written).violations == 0


def test_an_unordered_batch_has_a_task_per_segment_and_can_be_put_in_order(
    cluster: LocalCluster, topic_name: str
) -> None:
    create(cluster, topic_name, 2)
    writer = NumberedWriter(cluster, topic_name, keys=11)
    for partitions in (3, 2, 5):
        writer.write()
        change(cluster, topic_name, partitions)
    writer.write()
    await_stable(cluster, topic_name)
    tasks = batch_rows(everything(cluster, topic_name, ordering="none"))
    for rows in tasks:
        assert len({(row["partition"], row["layout_epoch"]) for row in rows}) <= 1
    shuffled = [row for rows in reversed(tasks) for row in reversed(rows)]
    assert verdict(shuffled, writer.written).out_of_order > 0
    shuffled.sort(key=lambda row: (row["layout_epoch"], row["offset"]))
    assert verdict(shuffled, writer.written).violations == 0
