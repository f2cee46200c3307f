"""Programs that read by position, on real servers: batches and streams that start and end anywhere in topics that change.

They are judged by what a plain consumer reads between the offsets that Kafka itself gives for what was asked.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from spark_ordered_kafka import OrderedProducer
from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.local import LocalCluster
from tests.integration.driven import Records, Stream, batch
from tests.programs.read_steps import (
    EARLIEST,
    LATEST,
    Batch,
    Change,
    Cut,
    Follow,
    Foreign,
    Next,
    Position,
    ReadStep,
    Write,
)
from tests.programs.running import BrokenPromiseError
from tests.queries import await_stable
from tests.servers import TIMEOUT, unique_name
from tests.streams import CHANGE_TIMEOUT, conf, create, delete_records, options, raw_records

TOPICS = 2
_SECONDS_AGO = 3600
_Place = tuple[str, int, int]
_Bounds = dict[tuple[str, int], int]


class _RefusedError(Exception):
    """What was asked must be refused."""


class ReadsRun:
    """Runs the steps, and judges each read."""

    def __init__(self, cluster: LocalCluster, steps: Iterable[ReadStep]) -> None:
        self._cluster = cluster
        self._steps = list(steps)
        self._topics = [create(cluster, unique_name(f"read{number}"), 2) for number in range(TOPICS)]
        self._began = int(time.time()) - _SECONDS_AGO
        self._numbers: Counter[tuple[int, int]] = Counter()
        self._foreign = 0
        self._held: dict[_Place, str] = {}
        self._deleted: set[_Place] = set()
        self._stream: Stream | None = None
        self._followed: tuple[Follow, _Bounds] | None = None
        self._producer = OrderedProducer(conf(cluster, commit_interval_ms=0))
        self._oracle = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "oracle"})
        self.reads = 0
        self.refused = 0

    def __str__(self) -> str:
        return (
            f"{len(self._steps)} steps, {len(self._held)} records, {self.reads} reads, {self.refused} refused"
        )

    def go(self) -> ReadsRun:
        """Raises BrokenPromiseError with the steps that broke a promise."""
        taken = 0
        try:
            for step in self._steps:
                taken += 1
                self._take(step)
            self._end_stream()
        except BrokenPromiseError as error:
            raise BrokenPromiseError(f"{error}\n\n{self._steps[:taken]}") from error
        finally:
            if self._stream is not None:
                self._stream.reader.stop()
            self._producer.close()
            self._oracle.close()
            with ControllerClient(self._cluster.controller_url) as controller:
                controller.delete_topics(schemas.DeleteTopicsRequest(topics=self._topics))
        return self

    def _take(self, step: ReadStep) -> None:
        match step:
            case Write():
                self._write(step)
            case Foreign():
                self._write_foreign(step)
            case Change():
                self._change(step)
            case Cut():
                self._cut(step)
            case Batch():
                self._batch(step)
            case Follow():
                self._end_stream()
                self._follow(step)
            case Next():
                self._next(step)

    # -- topics -------------------------------------------------------------------------------------------------

    def _write(self, step: Write) -> None:
        topic = self._topics[step.topic]
        when = 0 if step.at is None else self._milliseconds(step.at)
        for _ in range(step.times):
            for key in step.keys:
                number = self._numbers[step.topic, key]
                self._numbers[step.topic, key] += 1
                self._producer.produce(topic, f"{key}:{number}", f"k{key}", timestamp=when)
        self._producer.commit()
        await_stable(self._cluster, topic)

    def _write_foreign(self, step: Foreign) -> None:
        topic = self._topics[step.topic]
        if step.partition >= self._partitions(topic):
            return
        producer = Producer(
            {
                "bootstrap.servers": self._cluster.bootstrap_servers,
                "transactional.id": unique_name("foreign"),
                "log_level": 4,
            }
        )
        producer.init_transactions(TIMEOUT)
        producer.begin_transaction()
        for _ in range(step.records):
            self._foreign += 1
            value = f"foreign{self._foreign}:0"
            producer.produce(topic, value.encode(), b"foreign", step.partition)
        producer.flush(TIMEOUT)
        if step.aborted:
            producer.abort_transaction(TIMEOUT)
        else:
            producer.commit_transaction(TIMEOUT)
        await_stable(self._cluster, topic)

    def _change(self, step: Change) -> None:
        topic = self._topics[step.topic]
        with ControllerClient(self._cluster.controller_url) as controller:
            now = controller.topic(topic)
            if step.count == now.undeleted_partition_count or step.count < now.initial_partition_count:
                return
            # The other tool's transaction is over; that it may have written since is what a change asks about.
            counts = [schemas.TopicPartitionCount(topic=topic, partition_count=step.count)]
            request = schemas.PartitionCountsRequest(topics=counts, force=True)
            (result,) = controller.alter_partition_counts(request, wait=CHANGE_TIMEOUT).topics
            assert result.error == "NONE", result

    def _cut(self, step: Cut) -> None:
        if self._stream is not None and self._followed is not None and self._followed[0].fail:
            self._stream.catch_up()
        topic = self._topics[step.topic]
        self._look(topic)
        before = {}
        for partition in range(self._partitions(topic)):
            low, high = self._held_by(topic, partition)
            before[partition] = low + (high - low) * step.percent // 100
        delete_records(self._cluster, topic, before)
        self._deleted |= {place for place in self._held if place[0] == topic and place[2] < before[place[1]]}

    def _partitions(self, topic: str) -> int:
        return len(self._oracle.list_topics(timeout=TIMEOUT).topics[topic].partitions)

    def _held_by(self, topic: str, partition: int) -> tuple[int, int]:
        low, high = self._oracle.get_watermark_offsets(TopicPartition(topic, partition), TIMEOUT)
        return low, high

    def _look(self, topic: str) -> None:
        """Note the records that the topic holds."""
        for one in raw_records(self._cluster, topic, self._partitions(topic)):
            self._held[topic, one.partition() or 0, one.offset() or 0] = (one.value() or b"").decode()

    def _milliseconds(self, at: int) -> int:
        """Kafka's timestamp of a second of the program."""
        return (self._began + at) * 1000

    # -- positions ----------------------------------------------------------------------------------------------

    def _option(self, position: Position, topics: Sequence[str], side: str) -> dict[str, str]:
        """Spark's options for the position."""
        if position.kind in ("earliest", "latest"):
            return {f"{side}Offsets": position.kind}
        found: dict[str, Any] = {}
        if position.kind == "time":
            found[f"{side}Timestamp"] = self._milliseconds(position.of(0))
        else:
            suffix = "Offsets" if position.kind == "offsets" else "OffsetsByTimestamp"
            found[f"{side}{suffix}"] = json.dumps(
                {
                    topic: {str(p): self._given(position, topic, p) for p in range(self._partitions(topic))}
                    for topic in topics
                }
            )
        if side == "starting":
            found["startingOffsetsByTimestampStrategy"] = "latest" if position.latest else "error"
        return found

    def _given(self, position: Position, topic: str, partition: int) -> int:
        at = position.of(partition)
        if position.kind == "times":
            return self._milliseconds(at)
        if at in (EARLIEST, LATEST):
            return at
        low, high = self._held_by(topic, partition)
        return low + (high - low) * at // 100

    def _bounds(self, position: Position, topics: Sequence[str], side: str) -> _Bounds:
        """The offset of each partition. Raises _RefusedError where there is none."""
        found: _Bounds = {}
        for topic in topics:
            for partition in range(self._partitions(topic)):
                found[topic, partition] = self._bound(position, topic, partition, side)
        return found

    def _bound(self, position: Position, topic: str, partition: int, side: str) -> int:
        low, high = self._held_by(topic, partition)
        if position.kind in ("earliest", "latest"):
            return low if position.kind == "earliest" else high
        if position.kind == "offsets":
            given = self._given(position, topic, partition)
            return {EARLIEST: low, LATEST: high}.get(given, given)
        asked = TopicPartition(topic, partition, self._milliseconds(position.of(partition)))
        (answer,) = self._oracle.offsets_for_times([asked], TIMEOUT)
        if answer.offset >= 0:
            return max(low, answer.offset)
        if side == "starting" and not position.latest:
            raise _RefusedError
        return high

    # -- reads --------------------------------------------------------------------------------------------------

    def _batch(self, step: Batch) -> None:
        topics = [self._topics[number] for number in step.topics]
        source = options(self._cluster, subscribe=",".join(topics))
        source |= self._option(step.start, topics, "starting") | self._option(step.end, topics, "ending")
        source = {name: str(value) for name, value in source.items()}
        if step.unordered:
            source |= {"ordering": "none", "maxRecordsPerPartition": "3"}
        for topic in topics:
            self._look(topic)
        refused = ""
        try:
            start, end = (
                self._bounds(step.start, topics, "starting"),
                self._bounds(step.end, topics, "ending"),
            )
            if any(end[place] < start[place] or _is_earlier(step, place[1]) for place in start):
                refused = "it would end before it starts"
        except _RefusedError:
            refused = "it has no start"
        try:
            found = batch(source)
        except ConfigError as error:
            if not refused:
                raise BrokenPromiseError(f"refused: {error}") from error
            self.refused += 1
            return
        if refused:
            raise BrokenPromiseError(f"not refused: {refused}")
        there = {place for place in self._held.keys() - self._deleted if _is_between(place, start, end)}
        self._judge(found, there, unordered=step.unordered)

    def _follow(self, step: Follow) -> None:
        topics = [self._topics[number] for number in step.topics]
        option = self._option(step.start, topics, "starting")
        try:
            start = self._bounds(step.start, topics, "starting")
        except _RefusedError:
            start = {}
        try:
            stream = Stream(self._source(step, option))
            stream.step()
        except ConfigError as error:
            if start:
                raise BrokenPromiseError(f"refused: {error}") from error
            self.refused += 1
            return
        self._stream = stream
        if not start:
            raise BrokenPromiseError("not refused: it has no start")
        self._followed = step, start

    def _source(self, step: Follow, option: Mapping[str, str]) -> dict[str, str]:
        more = {"maxOffsetsPerTrigger": step.limit, "minRecordsPerPartition": step.share}
        topics = ",".join(self._topics[number] for number in step.topics)
        given = {name: value for name, value in more.items() if value is not None}
        fail = str(step.fail).lower()
        return options(self._cluster, subscribe=topics, failOnDataLoss=fail, **option, **given)

    def _next(self, step: Next) -> None:
        if self._stream is None or self._followed is None:
            return
        if step.again:
            found, checkpoint = self._stream.found, self._stream.start
            self._stream.reader.stop()
            self._stream = Stream(self._source(self._followed[0], {}), checkpoint)
            self._stream.found = found
        for _ in range(step.batches):
            self._stream.step()

    def _end_stream(self) -> None:
        if self._stream is None or self._followed is None:
            return
        step, start = self._followed
        self._stream.catch_up()
        topics = [self._topics[number] for number in step.topics]
        for topic in topics:
            self._look(topic)
        # A partition that a change has made since is read from its first record.
        expected = {
            place for place in self._held if place[0] in topics and place[2] >= start.get(place[:2], 0)
        }
        self._judge(self._stream.found, expected, may_lack=frozenset() if step.fail else self._deleted)
        self._stream.reader.stop()
        self._stream = self._followed = None

    def _judge(
        self,
        found: Records,
        expected: set[_Place],
        *,
        may_lack: Collection[_Place] = (),
        unordered: bool = False,
    ) -> None:
        self.reads += 1
        times = Counter(found.places)
        expected = expected.difference(may_lack) | (expected & times.keys())
        lost, strange = expected - times.keys(), times.keys() - expected
        twice = [place for place, count in times.items() if count > 1]
        wrong = [
            place
            for place, key, number in zip(found.places, found.keys, found.numbers, strict=True)
            if self._held.get(place) != f"{key.split(' ')[1]}:{number}"
        ]
        report = found.report()
        late = [] if unordered or report.out_of_order == 0 else [*report.examples]
        if lost or strange or twice or wrong or late:
            raise BrokenPromiseError(
                f"lost {sorted(lost)}, should not have come {sorted(strange)}, twice {twice}, wrong {wrong}, out of order {late}"
            )


def _is_between(place: _Place, start: _Bounds, end: _Bounds) -> bool:
    partition = place[:2]
    return partition in start and start[partition] <= place[2] < end[partition]


def _is_earlier(step: Batch, partition: int) -> bool:
    """Whether of two times, given in one way, that of the end is earlier: refused whatever offsets they have."""
    if step.start.kind != step.end.kind or step.start.kind not in ("time", "times"):
        return False
    return step.end.of(partition) < step.start.of(partition)


def check_reads(cluster: LocalCluster, steps: Iterable[ReadStep]) -> ReadsRun:
    """Run a program and return its run; raises BrokenPromiseError with its steps if it broke a promise."""
    return ReadsRun(cluster, steps).go()
