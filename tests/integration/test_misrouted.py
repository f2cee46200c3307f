"""Records in a partition that their key does not belong to: tombstones for other partitions, and foreign writers'."""

from __future__ import annotations

from itertools import count

import httpx2
import pytest
from confluent_kafka import Producer
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from spark_ordered_kafka.errors import MisroutedRecordError
from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.ordering import bucket, key_hash
from tests.queries import Query, batch_rows, everything
from tests.servers import TIMEOUT
from tests.streams import NumberedWriter, change, create, delivered


def key_of(partition: int, initial: int, current: int) -> bytes:
    """A key that belongs to the partition."""
    keys = (f"stray-{number}".encode() for number in count())
    return next(key for key in keys if bucket(key_hash("murmur3", key), initial, current) == partition)


def put(
    cluster: LocalCluster,
    topic: str,
    partition: int,
    key: bytes | None,
    value: bytes | None,
    records: int = 1,
) -> None:
    """What a producer does that knows nothing of layouts."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for _ in range(records):
        producer.produce(topic, key=key, value=value, partition=partition)
    assert producer.flush(TIMEOUT) == 0


def test_foreign_records_are_counted_named_or_ignored(
    cluster: LocalCluster, topic_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    create(cluster, topic_name, 2)
    put(cluster, topic_name, 0, key_of(0, 2, 2), b"in place")
    put(cluster, topic_name, 0, None, b"without a key")
    put(cluster, topic_name, 0, key_of(1, 2, 2), b"stray", records=3)
    wanted = everything(cluster, topic_name)
    values = [b"in place", b"without a key", *[b"stray"] * 3]

    with Query(wanted) as query:
        assert [row["value"] for row in query.all_rows()] == values
    metrics = httpx2.get(f"{cluster.controller_url}/metrics", timeout=TIMEOUT)
    assert metrics.headers["content-type"].startswith("text/plain")
    assert f'ordered_kafka_misrouted_records_total{{topic="{topic_name}"}} 3.0' in metrics.text
    assert [r.getMessage().partition(".")[0] for r in caplog.records if "misrouted" in r.getMessage()] == [
        f"{topic_name}-0: misrouted records: 3, the first at offset 2"
    ]
    caplog.clear()
    with Query(wanted | {"misroutedRecords": "ignore"}) as query:
        assert [row["value"] for row in query.all_rows()] == values
    assert "misrouted" not in caplog.text
    strict = wanted | {"misroutedRecords": "fail"}
    with (
        Query(strict) as query,
        pytest.raises(MisroutedRecordError, match=f"the record at offset 2 of {topic_name}-0 lies"),
    ):
        query.all_rows()
    with pytest.raises(MisroutedRecordError, match=f"offset 2 of {topic_name}-0.*layout epoch 0"):
        batch_rows(strict)


@pytest.mark.parametrize("mode", ["ignore", "warn", "fail"])
def test_tombstones_for_other_partitions_are_left_out(
    cluster: LocalCluster, topic_name: str, mode: str
) -> None:
    """A key of partition 1 has its old values in partition 0; deleting them there must delete nothing in a reader."""
    create(cluster, topic_name, 1)
    change(cluster, topic_name, 2)
    moved, stayed = key_of(1, 1, 2), key_of(0, 1, 2)
    put(cluster, topic_name, 0, moved, None)
    put(cluster, topic_name, 0, stayed, None)
    put(cluster, topic_name, 1, moved, b"live")
    source = everything(cluster, topic_name, misroutedRecords=mode)
    for rows in (Query(source).all_rows(), [row for task in batch_rows(source) for row in task]):
        assert [(row["key"], row["value"]) for row in rows] == [(stayed, None), (moved, b"live")]


def test_before_the_first_change_a_record_without_value_is_a_record(
    cluster: LocalCluster, topic_name: str
) -> None:
    create(cluster, topic_name, 2)
    put(cluster, topic_name, 0, key_of(1, 2, 2), None)
    with Query(everything(cluster, topic_name)) as query:
        assert len(query.all_rows()) == 1


def test_records_in_a_removed_partition_are_read_and_reported(
    cluster: LocalCluster, topic_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    create(cluster, topic_name, 1)
    change(cluster, topic_name, 2)
    change(cluster, topic_name, 1)
    put(cluster, topic_name, 1, b"k", b"late")
    with Query(everything(cluster, topic_name)) as query:
        assert [(row["partition"], row["layout_epoch"]) for row in query.all_rows()] == [(1, 2)]
    assert f"{topic_name}-1: misrouted records: 1, the first at offset 0" in caplog.text


@pytest.mark.long
def test_a_query_in_spark_fails_at_a_misrouted_record(
    spark: SparkSession, cluster: LocalCluster, topic_name: str, tmp_path: str
) -> None:
    create(cluster, topic_name, 2)
    NumberedWriter(cluster, topic_name).write()
    wanted = everything(cluster, topic_name, misroutedRecords="fail")
    assert delivered(spark, wanted, str(tmp_path)).report().violations == 0
    put(cluster, topic_name, 0, key_of(1, 2, 2), b"k0:99")
    with pytest.raises(StreamingQueryException, match=rf"MisroutedRecordError.*of {topic_name}-0 lies"):
        delivered(spark, wanted, str(tmp_path))
