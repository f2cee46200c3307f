"""A micro-batch is read again after a topic of it has vanished: the tasks of the others keep their numbers."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from confluent_kafka.admin import AdminClient

from spark_ordered_kafka.errors import DataLossError
from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.spark.plan import SegmentsPartition
from tests.queries import Query, await_stable
from tests.servers import TIMEOUT, await_true
from tests.streams import NumberedWriter, change, create, options


def tasks(source: dict[str, str], start: str, end: str) -> list[list[tuple[Any, ...]]]:
    """Topic, partition and offsets that each task of a micro-batch reads, in a process of its own as far as it matters."""
    with Query(source, start) as query:
        found = query.reader.partitions(json.loads(start), json.loads(end))
    return [
        [(s.topic, s.partition, s.epoch, s.start, s.end) for s in cast(SegmentsPartition, task).segments]
        for task in found
    ]


CASES: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
    ({}, {}),
    ({}, {"minRecordsPerPartition": 1}),
    ({"minRecordsPerPartition": 1}, {}),
    ({"minRecordsPerPartition": 6}, {}),
    ({"ordering": "none"}, {"ordering": "none"}),
    # The options are others after the restart.
    ({"ordering": "none", "minPartitions": 9}, {"ordering": "none", "maxRecordsPerPartition": 3}),
    ({"ordering": "none", "maxRecordsPerPartition": 7}, {}),
    ({}, {"ordering": "none", "minPartitions": 9}),
)


def test_tasks_keep_their_numbers(cluster: LocalCluster, topic_name: str) -> None:
    names = [f"{topic_name}-{letter}" for letter in "abc"]
    for name in names:
        create(cluster, name, 1)
        NumberedWriter(cluster, name, keys=5).write()
        change(cluster, name, 2)
        NumberedWriter(cluster, name, keys=5, first=100).write()
        await_stable(cluster, name)
    common = {"subscribe": ",".join(names), "startingOffsets": "earliest", "failOnDataLoss": "false"}
    micro_batches = []
    for planned, later in CASES:
        with Query(options(cluster, **common, **planned)) as query:
            start, end = query.checkpoint, query.plan()
        before = tasks(options(cluster, **common, **planned), start, end)
        again = options(cluster, **common, **later)
        assert tasks(again, start, end) == before, (planned, later)
        micro_batches.append((again, start, end, before))
    assert len({len(before) for *_, before in micro_batches}) > 2, "the options make a difference"
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    for gone in names[:2]:
        admin.delete_topics([gone])[gone].result(TIMEOUT)
        await_true(
            lambda gone=gone: gone not in admin.list_topics(timeout=TIMEOUT).topics,  # type: ignore[misc]
            "the broker knows that it is gone",
        )
    # One comes back, as another topic of that name.
    create(cluster, names[1], 3)
    for again, start, end, before in micro_batches:
        left = [[segment for segment in task if segment[0] == names[2]] for task in before]
        assert left.count([]) > 1 or len(before) <= 3
        assert tasks(again, start, end) == left
        with pytest.raises(DataLossError, match="has vanished from a micro-batch that is read again"):
            tasks(again | {"failOnDataLoss": "true"}, start, end)
