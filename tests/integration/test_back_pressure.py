"""What a task writes at once: no more than there is room for, and nothing that the broker refuses."""

from __future__ import annotations

import gc
import random
from collections.abc import Iterator
from dataclasses import replace

import psutil
import pyarrow as pa
import pytest
from confluent_kafka import Producer

from spark_ordered_kafka.errors import RequestError
from spark_ordered_kafka.kafka import producer
from spark_ordered_kafka.kafka.buffer import Memory
from spark_ordered_kafka.kafka.task import TaskTransaction
from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.native.contents import Records
from spark_ordered_kafka.native.loading import VARIABLE, kernel
from spark_ordered_kafka.native.producing import Headroom, Queued, produce
from spark_ordered_kafka.ordering.routing import Routing
from tests.queries import await_stable
from tests.streams import create, raw_records, writer_context

LARGE = 10_000_000


@pytest.fixture(params=["require", "off"], autouse=True)
def native(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """With the kernel and without it."""
    monkeypatch.setenv(VARIABLE, request.param)
    kernel.cache_clear()
    yield
    kernel.cache_clear()


def test_what_is_undelivered_is_bounded(
    cluster: LocalCluster, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(cluster, topic_name, 3)
    monkeypatch.setattr(producer, "_DRAIN_RECORDS", 300)
    monkeypatch.setattr(producer, "_DRAIN_BYTES", 50_000)
    undelivered: list[int] = []
    calls: list[Queued] = []

    def watched(
        client: Producer,
        topic: str,
        routing: Routing,
        turn: int,
        rows: Records,
        start: int,
        headroom: Headroom,
    ) -> Queued:
        calls.append(queue(client, topic, routing, turn, rows, start, headroom))
        undelivered.append(len(client))
        return calls[-1]

    queue = produce
    monkeypatch.setattr(producer, "produce", watched)
    # The last ones are larger than there is room for, and go one by one.
    values = [b"%d" % n for n in range(2_000)] + [b"x" * 700] * 300 + [b"y" * 60_000] * 3
    rows = pa.RecordBatch.from_pydict(
        {"key": [b"%d" % (n % 50) for n in range(len(values))], "value": values}
    )
    task = TaskTransaction(
        writer_context(cluster), topic_name, f"ordered:{topic_name}:w:0", 0, Memory(1 << 20)
    )
    task.write(rows)
    assert task.commit()
    # Without the kernel librdkafka counts reports of statistics among what it has to deliver.
    assert max(undelivered) <= 310
    assert all(call.size <= 50_000 or call.rows == 1 for call in calls)
    await_stable(cluster, topic_name)
    assert sorted(message.value() or b"" for message in raw_records(cluster, topic_name, 3)) == sorted(values)


def test_a_value_of_10_mb(cluster: LocalCluster, topic_name: str) -> None:
    create(cluster, topic_name, 1, **{"max.message.bytes": str(2 * LARGE)})
    context = writer_context(cluster)
    kafka = {**context.connection.kafka, "message.max.bytes": str(2 * LARGE)}
    context = replace(context, connection=replace(context.connection, kafka=kafka))
    rows = pa.RecordBatch.from_pydict({"key": [b"k"] * 2, "value": [b"x" * LARGE, b""]})
    task = TaskTransaction(context, topic_name, f"ordered:{topic_name}:w:0", 0, Memory(1))
    task.write(rows)
    assert task.commit()
    await_stable(cluster, topic_name)
    assert [len(message.value() or b"") for message in raw_records(cluster, topic_name, 1)] == [LARGE, 0]


@pytest.mark.parametrize(("size", "configs"), [(2_000_000, {}), (5_000, {"max.message.bytes": "2000"})])
def test_a_value_that_is_too_large(
    cluster: LocalCluster, topic_name: str, size: int, configs: dict[str, str]
) -> None:
    create(cluster, topic_name, 1, **configs)
    # Nothing that lz4 could make smaller.
    rows = pa.RecordBatch.from_pydict({"key": [b"k"], "value": [random.Random(1).randbytes(size)]})
    task = TaskTransaction(
        writer_context(cluster), topic_name, f"ordered:{topic_name}:w:0", 0, Memory(1 << 20)
    )
    with pytest.raises(RequestError, match="MSG_SIZE_TOO_LARGE"):
        write_and_commit(task, rows)
    task.abort()
    assert list(raw_records(cluster, topic_name, 1)) == []


@pytest.mark.long
@pytest.mark.parametrize("more", [pytest.param(0, marks=pytest.mark.long), 200_000])
def test_a_refusal_amid_other_requests(cluster: LocalCluster, topic_name: str, more: int) -> None:
    create(cluster, topic_name, 1, **{"max.message.bytes": "2000"})
    context = writer_context(cluster)
    values = [random.Random(1).randbytes(5_000), *[b"v"] * more]
    rows = pa.RecordBatch.from_pydict({"key": [b"k"] * len(values), "value": values})
    threads = []
    # It comes before, while or after the offsets or later records are sent: no one attempt would do.
    for n in range(20 if more == 0 else 4):
        task = TaskTransaction(context, topic_name, f"ordered:{topic_name}:w:{n}", 0, Memory(1 << 20))
        with pytest.raises(RequestError, match="MSG_SIZE_TOO_LARGE"):
            write_and_commit(task, rows)
        assert task.replays == 0
        task.abort()
        del task
        gc.collect()
        threads.append(psutil.Process().num_threads())
    # Each client of librdkafka has four: none is left behind (D-120).
    assert threads[-1] - threads[0] < 2 * (len(threads) - 1), threads


def write_and_commit(task: TaskTransaction, rows: pa.RecordBatch) -> None:
    task.write(rows)
    task.commit()
