"""A log whose compressed records were damaged on disk."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer

from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.errors import ErrorCode, RequestError
from spark_ordered_kafka.kafka.reader import ReadSettings, read_segments
from spark_ordered_kafka.kafka.segments import Segment
from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.native.draining import schema_of
from tests.native.test_draining import WAYS, way
from tests.servers import TIMEOUT, create_topic, unique_name

# Of a batch in a log: what lies before the compressed records.
_BATCH_HEADER = 61


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd", "snappy"])
def test_damaged_records_are_an_error_that_names_them(
    kafka_cluster: LocalCluster, codec: str, name: str
) -> None:
    servers = kafka_cluster.bootstrap_servers
    topic = create_topic(servers, unique_name(f"damaged-{codec}"))
    producer = Producer({"bootstrap.servers": servers, "compression.type": codec, "linger.ms": 60_000})
    # One batch, however long it takes to fill: flush() sends it.
    for number in range(50):
        producer.produce(topic, b"value-%d" % number * 20, b"key")
    assert producer.flush(TIMEOUT) == 0
    (segment,) = Path(kafka_cluster.directory).glob(f"broker-*/data-*/{topic}-0/00000000000000000000.log")
    content = bytearray(segment.read_bytes())
    content[_BATCH_HEADER : _BATCH_HEADER + 80] = bytes(range(80, 160))
    with segment.open("r+b") as file:
        file.write(content)
    settings = ReadSettings(
        Connection({"bootstrap.servers": servers}, "http://unused"), False, True, stall_timeout=TIMEOUT
    )
    with way(name), pytest.raises(RequestError, match=rf"reading {topic}-0 from offset 0") as refused:
        list(read_segments(settings, [Segment(topic, 0, 0, 0, 50)], schema_of(False)))
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
