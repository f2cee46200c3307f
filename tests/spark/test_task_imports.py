"""What a worker process of Spark has to import before the first row of a task."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from typing import Any

import pytest
from pyspark import cloudpickle

from spark_ordered_kafka.client.layouts import Layouts
from spark_ordered_kafka.client.writer_names import LeasedName
from spark_ordered_kafka.controller.api.examples import EXAMPLES
from spark_ordered_kafka.kafka.segments import Segment
from spark_ordered_kafka.ordering.routing import Routing
from spark_ordered_kafka.spark.batch import OrderedBatchReader
from spark_ordered_kafka.spark.datasource import OrderedKafkaDataSource
from spark_ordered_kafka.spark.options import batch_options, sink_options, stream_options
from spark_ordered_kafka.spark.plan import SegmentsPartition
from spark_ordered_kafka.spark.sink import OrderedBatchWriter, OrderedStreamWriter
from spark_ordered_kafka.spark.stream import OrderedStreamReader
from tests.client.playing import Answer, played

# Libraries, and parts of this package, that no task needs unless something goes wrong.
UNNEEDED = {
    "kafka", "httpx2", "pydantic", "pydantic_core", "fastapi", "starlette", "uvicorn", "kazoo", "psutil", "structlog",
    "typer", "click", "rich", "pygments", "cryptography", "prometheus_client",
    "spark_ordered_kafka.client.controller", "spark_ordered_kafka.client.schemas", "spark_ordered_kafka.client.topics",
    "spark_ordered_kafka.json_options", "spark_ordered_kafka.local", "spark_ordered_kafka.controller",
}  # fmt: skip
SERVERS = {"kafka.bootstrap.servers": "127.0.0.1:9092", "controller.url": "http://127.0.0.1:8090"}
# As pyspark.worker does: what is unpickled is what is imported. Then it is used, if there is a way without servers.
WORKER = """
import json, pickle, sys
import pyarrow, pyspark.worker
before = set(sys.modules)
unpickled = pickle.load(sys.stdin.buffer)
if hasattr(unpickled, "writer_layout"):
    unpickled.writer_layout("orders")
json.dump(sorted(set(sys.modules) - before), sys.stdout)
"""

SOURCE = SERVERS | {"subscribe": "orders", "startingOffsets": '{"orders":{"0":5}}'}
SINK = SERVERS | {"topic": "orders"}
DATA_SOURCE = OrderedKafkaDataSource(dict(SOURCE))
# Spark's function has the data source beside the reader.
UNPICKLED: dict[str, Any] = {
    "batch reader": (DATA_SOURCE, OrderedBatchReader(batch_options(SOURCE))),
    "stream reader": (DATA_SOURCE, OrderedStreamReader(stream_options(SOURCE))),
    "partition": SegmentsPartition((Segment("orders", 0, 0, 0, 5, Routing("murmur3", 2, 3)),)),
    "batch writer": OrderedBatchWriter(sink_options(SINK), LeasedName("orders", "w", "n", "w")),
    "stream writer": OrderedStreamWriter(sink_options(SINK)),
}


def imported(unpickled: bytes) -> set[str]:
    done = subprocess.run([sys.executable, "-c", WORKER], input=unpickled, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr.decode()
    return set(json.loads(done.stdout))


def test_planning_imports_what_it_needs() -> None:
    """Spark plans a query in one process, and its micro-batches in another: both are new."""
    planning = "import pyspark.sql.streaming.python_streaming_source_runner as runner, json, sys\n"
    planning += "before = set(sys.modules)\nimport spark_ordered_kafka.spark.stream, spark_ordered_kafka.spark.batch\n"
    planning += "json.dump(sorted(set(sys.modules) - before), sys.stdout)"
    done = subprocess.run([sys.executable, "-c", planning], capture_output=True, timeout=300, check=True)
    modules = set(json.loads(done.stdout))
    assert "spark_ordered_kafka.client.topics" in modules
    assert modules & UNNEEDED == {"spark_ordered_kafka.client.topics"}


@pytest.mark.parametrize("what", UNPICKLED)
def test_a_task_imports_what_it_needs(what: str) -> None:
    modules = imported(cloudpickle.dumps(UNPICKLED[what]))  # type: ignore[no-untyped-call]
    assert any(name.startswith("spark_ordered_kafka.spark") for name in modules), "nothing was unpickled"
    assert not modules & UNNEEDED


def test_a_writing_task_asks_for_its_layout_without_more() -> None:
    layout = json.dumps(EXAMPLES["WriterLayoutView"]).encode()
    with played(Answer(200, layout)) as controller:
        options = sink_options(SINK | {"controller.url": controller.url})
        modules = imported(pickle.dumps(_Made(Layouts, options.connection)))
    assert ("GET", "/v1/topics/orders/layout") in controller.requests
    assert not modules & UNNEEDED


class _Made:
    """Pickled as a call, since clients with connections are not."""

    def __init__(self, kind: type[Any], *arguments: Any) -> None:
        self._made = kind, arguments

    def __reduce__(self) -> tuple[type[Any], tuple[Any, ...]]:
        return self._made


def test_readers_are_pickled_as_what_reads() -> None:
    for reader in (UNPICKLED["batch reader"][1], UNPICKLED["stream reader"][1]):
        unpickled = pickle.loads(cloudpickle.dumps(reader))  # type: ignore[no-untyped-call]
        assert type(unpickled).__module__ == "spark_ordered_kafka.spark.reading"
        assert not hasattr(unpickled, "partitions")
