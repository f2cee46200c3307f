"""What the parts share: servers, a warm Spark session with both connectors, and topics with records."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import peer, rows
from benchmarks.figures import OURS, Measurement, Sample, alternate
from benchmarks.scale import Scale
from benchmarks.usage import Usage
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.schemas import (
    CreateTopicRequest,
    PartitionCountsRequest,
    TopicPartitionCount,
)
from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.demo import spark_session
from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError, RequestError
from spark_ordered_kafka.local import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

SPARKS = "Spark's kafka"
"""Spark's own connector, as a contender."""

FORMATS = {OURS: "ordered-kafka", SPARKS: peer.FORMAT}
"""The format of each of the two connectors."""

# What is only written is deleted soon, as it could fill a disk. The local broker looks once in a second.
_SOON_GONE = {"retention.bytes": "200000000", "segment.bytes": "50000000"}
_CHANGE_TIMEOUT = 120.0
_ROOT = Path(__file__).parents[1]


def connection_to(cluster: LocalCluster) -> Connection:
    """How clients find a cluster and its controller."""
    return Connection({"bootstrap.servers": cluster.bootstrap_servers}, cluster.controller_url)


class Bench:
    """Servers and sessions, started when they are first needed and ended with the context.

    Args:
        directory: for data, checkpoints and logs; empty.
        scale: how much is measured.
        say: is told what goes on.
    """

    def __init__(self, directory: Path, scale: Scale, say: Callable[[str], None]) -> None:
        self.directory = directory
        self.scale = scale
        self.say = say
        self._stack = ExitStack()
        # Each is filled once: the parts that read it share it.
        self.filled = cache(self._filled)

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    # -- servers ------------------------------------------------------------------------------------------------

    @cached_property
    def cluster(self) -> LocalCluster:
        """One ZooKeeper, one broker, one controller."""
        return self._stack.enter_context(LocalCluster(self.directory / "cluster", progress=self.say))

    @cached_property
    def three_brokers(self) -> LocalCluster:
        """Three brokers with a ZooKeeper and a controller of their own, for what moves between brokers."""
        cluster = LocalCluster(self.directory / "three-brokers", brokers=3, progress=self.say)
        return self._stack.enter_context(cluster)

    @cached_property
    def connection(self) -> Connection:
        """To the servers."""
        return connection_to(self.cluster)

    @cached_property
    def controller(self) -> ControllerClient:
        """A client of the controller."""
        return self._stack.enter_context(ControllerClient.of(self.connection))

    @cached_property
    def usage(self) -> Usage:
        """Tells what this process, Spark and its workers take, apart from the servers, and what the broker takes."""
        found = self.cluster.description()
        servers = [*found["brokers"], *found["controllers"], *found["zookeeper_servers"]]
        return Usage((server["pid"] for server in servers), found["brokers"][0]["pid"])

    @cached_property
    def spark(self) -> SparkSession:
        """``local[2]``, with both connectors; Python workers can import this package."""
        paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        os.environ["PYTHONPATH"] = os.pathsep.join(paths)
        conf = {
            "spark.jars": ",".join(map(str, peer.connector_jars(self.say))),
            "spark.driver.memory": "2g",
            "spark.sql.warehouse.dir": str(self.directory / "warehouse"),
            "spark.sql.streaming.numRecentProgressUpdates": "1000",
        }
        self.say("Starting Spark")
        return self._stack.enter_context(spark_session(self.directory / "spark", {}, conf))

    # -- topics -------------------------------------------------------------------------------------------------

    def topic(self, partitions: int, configs: Mapping[str, str] | None = None) -> str:
        """A new topic, by default one whose records are deleted soon."""
        name = f"bench-{uuid.uuid4().hex[:10]}"
        self.controller.create_topic(
            CreateTopicRequest(
                topic=name,
                partitions=partitions,
                replication_factor=1,
                configs=dict(_SOON_GONE if configs is None else configs),
            )
        )
        return name

    def grow(self, topic: str, partitions: int) -> None:
        """Change a topic's partition count, up or down, and wait until that is done."""
        change = TopicPartitionCount(topic=topic, partition_count=partitions)
        request = PartitionCountsRequest(topics=[change])
        (result,) = self.controller.alter_partition_counts(request, wait=_CHANGE_TIMEOUT).topics
        if result.error_code != ErrorCode.NONE:
            raise RequestError(ErrorCode(result.error_code), result.error_message or topic)
        last = self.controller.change(topic).last_change
        if last is None or last.id != result.change_id or last.outcome != "done":
            reason = "" if last is None or last.error is None else f": {last.error.error_message}"
            raise OrderedKafkaError(
                f"{topic} did not get {partitions} partitions in {_CHANGE_TIMEOUT:g} s{reason}"
            )

    def _filled(
        self, partitions: int, records: int, value_bytes: int, compression: str = "lz4", headers: int = 0
    ) -> str:
        self.say(f"writing {records:,} records of {value_bytes} bytes into {partitions} partitions")
        topic = self.topic(partitions, {})
        self.fill(topic, self.rows(records, value_bytes, headers), compression)
        return topic

    def fill(self, topic: str, frame: DataFrame, compression: str = "lz4") -> None:
        """Write rows with this package's sink, so that all keys lie where both sides look for them."""
        self.write(OURS, frame, topic, compression)

    def rows(self, records: int, value_bytes: int, headers: int = 0) -> DataFrame:
        """Rows to be written, by two tasks."""
        directory = self.directory / f"rows-{records}-{value_bytes}-{headers}"
        if not directory.exists():
            rows.write(directory, records, value_bytes, headers)
        return self.spark.read.parquet(str(directory))

    # -- reading and writing ------------------------------------------------------------------------------------

    def options(self, contender: str) -> dict[str, str]:
        """What both formats need to find the servers; records of aborted transactions are left out by both."""
        options = {f"kafka.{name}": value for name, value in self.connection.kafka.items()}
        if contender == OURS:
            return {**options, "controller.url": self.cluster.controller_url}
        return {**options, "kafka.isolation.level": "read_committed"}

    def read(self, contender: str, topic: str, options: Mapping[str, str] | None = None) -> DataFrame:
        """A batch read of a whole topic."""
        reader = self.spark.read.format(FORMATS[contender]).options(**self.options(contender))
        return reader.options(subscribe=topic, **(options or {})).load()

    def stream(self, contender: str, topic: str, options: Mapping[str, str] | None = None) -> DataFrame:
        """A stream from a topic's start."""
        reader = self.spark.readStream.format(FORMATS[contender]).options(**self.options(contender))
        return reader.options(subscribe=topic, startingOffsets="earliest", **(options or {})).load()

    def write(
        self,
        contender: str,
        frame: DataFrame,
        topic: str,
        compression: str = "lz4",
        options: Mapping[str, str] | None = None,
    ) -> None:
        """A batch write; both connectors with the same compression."""
        writer = frame.write.format(FORMATS[contender]).options(**self._sink(contender, compression))
        writer.options(topic=topic, **(options or {})).mode("append").save()

    def write_stream(self, contender: str, frame: DataFrame, topic: str) -> StreamingQuery:
        """Write a stream of what is there, with a new checkpoint, to its end."""
        return self.run(frame, FORMATS[contender], {**self._sink(contender, "lz4"), "topic": topic})

    def run(self, frame: DataFrame, sink: str, options: Mapping[str, str] | None = None) -> StreamingQuery:
        """Run a stream under Trigger.AvailableNow, with a new checkpoint, to its end."""
        checkpoint = self.directory / "checkpoints" / uuid.uuid4().hex
        writer = frame.writeStream.format(sink).options(**(options or {}))
        query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        query.awaitTermination()
        return query

    def _sink(self, contender: str, compression: str) -> dict[str, str]:
        options = {**self.options(contender), "kafka.compression.type": compression}
        options.pop("kafka.isolation.level", None)
        return options

    # -- comparing ----------------------------------------------------------------------------------------------

    def rates(
        self,
        part: str,
        title: str,
        contenders: Mapping[str, Callable[[], object]],
        records: int,
        goal: float | None = None,
        note: str = "",
    ) -> Measurement:
        """Records per second of contenders that each do the same work with so many records, by turns."""

        def timed(name: str) -> Sample:
            sample = self.usage.timed(contenders[name], records, workers=name != SPARKS)
            self.say(f"{part}: {name}: {sample.value:,.0f} records/s")
            return sample

        samples = alternate(contenders, timed, self.scale.rounds)
        return Measurement(part, title, "records/s", "more", samples, goal, note=note)

    def connectors(
        self,
        part: str,
        title: str,
        work: Callable[[str], object],
        records: int,
        goal: float | None = None,
        note: str = "",
    ) -> Iterator[Measurement]:
        """Records per second of the two connectors; ``work`` is told which."""
        contenders = {name: partial(work, name) for name in FORMATS}
        yield self.rates(part, title, contenders, records, goal, note)
