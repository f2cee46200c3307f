"""Both ways to drain a partition give the same: records, positions and events."""

from __future__ import annotations

import gc
import os
import random
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from threading import Event, Thread
from typing import Any

import psutil
import pyarrow as pa
import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from kafka import KafkaProducer

from spark_ordered_kafka.kafka.clients import STALE_METADATA
from spark_ordered_kafka.kafka.properties import consumer_properties
from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.native.draining import Drain, Limits, drain_of, schema_of
from spark_ordered_kafka.native.loading import VARIABLE, kernel
from tests.servers import TIMEOUT, await_true, create_topic, unique_name

WAYS = ("require", "off")
PLENTY = Limits(records=100_000, bytes=2**30)
CONTENTS = (None, b"", b"\0", b"text", b"x" * 300)
NAMES = ("", "a", "ä€𝄞", "n" * 200)


@contextmanager
def way(name: str) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, name)
        kernel.cache_clear()
        yield
    kernel.cache_clear()


@dataclass
class Story:
    """What draining a range gave."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    events: list[tuple[int, int]] = field(default_factory=list)
    position: int = 0

    def table(self, headers: bool = True) -> pa.Table:
        return pa.Table.from_batches(self.batches, schema_of(headers))


@contextmanager
def drain(servers: str, topic: str, start: int, headers: bool = True, **more: str) -> Iterator[Drain]:
    properties = {name.replace("_", "."): value for name, value in more.items()}
    consumer = Consumer(consumer_properties({"bootstrap.servers": servers, **properties}))
    made = drain_of(consumer, topic, 0, headers=headers)
    consumer.assign([TopicPartition(topic, 0, start)])
    yield made
    consumer.unassign()
    made.close()
    consumer.close()


def told(
    name: str,
    servers: str,
    topic: str,
    start: int,
    end: int,
    limits: Limits = PLENTY,
    headers: bool = True,
    **more: str,
) -> Story:
    """Drain [start, end) until its end is reached, or that of the partition is met."""
    story = Story(position=start)

    def some() -> bool:
        found = made.take(story.position, end, limits, 0.25)
        story.position = found.position
        if found.batch is not None:
            found.batch.validate(full=True)
            story.batches.append(found.batch)
        if found.event is not None:
            story.events.append((found.event.code(), found.event_offset))
            if found.event.code() == KafkaError._PARTITION_EOF:
                story.position = min(max(story.position, found.event_offset), end)
        return story.position >= end or bool(story.events)

    with way(name), drain(servers, topic, start, headers, **more) as made:
        await_true(some, f"{topic} drained to {end}")
    return story


@dataclass
class Log:
    """A topic with one partition and its end."""

    servers: str
    topic: str
    end: int


@pytest.fixture(scope="module")
def log(kafka_cluster: LocalCluster) -> Log:
    """Transactions, committed and aborted, of records of all kinds; it ends with an aborted one."""
    servers, chance = kafka_cluster.bootstrap_servers, random.Random(13)
    topic = create_topic(servers, unique_name("drained"), config={"retention.ms": "-1"})
    producer = Producer({"bootstrap.servers": servers, "transactional.id": topic, "linger.ms": 0})
    producer.init_transactions(TIMEOUT)
    end = 0
    for commits in [True, False, False, True, True, True, False]:
        producer.begin_transaction()
        count = chance.randrange(1, 120)
        # The last is the control record.
        end += count + 1
        for _ in range(count):
            headers: list[tuple[str, str | bytes | None]] = [
                (chance.choice(NAMES), chance.choice(CONTENTS)) for _ in range(chance.randrange(4))
            ]
            producer.produce(
                topic,
                key=chance.choice(CONTENTS),
                value=chance.choice(CONTENTS),
                headers=headers or None,
                timestamp=chance.choice([1, 1_700_000_000_123]),
            )
        producer.flush(TIMEOUT)
        if commits:
            producer.commit_transaction(TIMEOUT)
        else:
            producer.abort_transaction(TIMEOUT)
    with closing(Consumer(consumer_properties({"bootstrap.servers": servers}))) as consumer:
        place = TopicPartition(topic, 0)
        await_true(
            lambda: consumer.get_watermark_offsets(place, TIMEOUT)[1] == end, "the last control record"
        )
    return Log(servers, topic, end)


@pytest.mark.parametrize(
    "limits",
    [
        pytest.param(PLENTY, id="all"),
        pytest.param(Limits(1, 2**30), id="1", marks=pytest.mark.long),
        pytest.param(Limits(7, 2**30), id="7"),
        pytest.param(Limits(100_000, 1), id="bytes"),
    ],
)
def test_both_ways_drain_the_same(log: Log, limits: Limits) -> None:
    native, plain = (told(name, log.servers, log.topic, 0, log.end, limits) for name in WAYS)
    assert native.table().equals(plain.table()), "the kernel drains other records than Python"
    assert native.table().num_rows > 50
    assert native.position == plain.position == log.end
    assert max(map(len, native.batches)) <= limits.records


def test_any_range_is_drained_alike(log: Log) -> None:
    chance = random.Random(7)
    for _ in range(12):
        start = chance.randrange(log.end)
        end = chance.randrange(start + 1, log.end + 1)
        limits = Limits(chance.randrange(1, 200), chance.randrange(1, 20_000))
        native, plain = (told(name, log.servers, log.topic, start, end, limits, False) for name in WAYS)
        assert native.table(False).equals(plain.table(False)), (start, end, limits)
        assert native.position == plain.position == end, (start, end, limits)
        offsets = native.table(False).column("offset").to_pylist()
        assert all(start <= offset < end for offset in offsets)


@pytest.mark.parametrize("name", WAYS)
def test_control_records_at_the_end_need_no_answer_of_the_broker(log: Log, name: str) -> None:
    """Their offset is known with the records before them; otherwise every transaction costs a fetch that comes back empty."""
    last = told(name, log.servers, log.topic, 0, log.end).table().column("offset")[-1].as_py()
    story = told(name, log.servers, log.topic, last, last + 2, fetch_wait_max_ms="20000")
    assert (story.position, story.events) == (last + 2, [])


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize(
    ("start", "code"), [(0, KafkaError._PARTITION_EOF), (10**9, KafkaError._AUTO_OFFSET_RESET)]
)
def test_an_event_comes_behind_the_records(log: Log, name: str, start: int, code: int) -> None:
    story = told(name, log.servers, log.topic, start, 10**12)
    assert [found for found, _ in story.events] == [code]
    assert (story.table().num_rows > 50) == (start == 0)
    if start == 0:
        assert story.events[0][1] == log.end


@pytest.mark.parametrize("name", WAYS)
def test_a_partition_that_does_not_exist(log: Log, name: str) -> None:
    """confluent-kafka does not tell of it, and must not be called for it."""
    with way(name), closing(Consumer(consumer_properties({"bootstrap.servers": log.servers}))) as consumer:
        consumer.list_topics(log.topic, TIMEOUT)
        made = drain_of(consumer, log.topic, 7, headers=False)
        consumer.assign([TopicPartition(log.topic, 7, 0)])
        found = [made.take(0, 1, PLENTY, 0.25) for _ in range(4)]
        consumer.unassign()
        made.close()
    assert {one.event.code() for one in found if one.event is not None} <= STALE_METADATA
    assert [(one.batch, one.position) for one in found] == [(None, 0)] * 4


def test_large_records_get_through_one_by_one(kafka_cluster: LocalCluster) -> None:
    size, servers = 10 * 2**20, kafka_cluster.bootstrap_servers
    topic = create_topic(servers, unique_name("large"), config={"max.message.bytes": str(2 * size)})
    producer = Producer({"bootstrap.servers": servers, "message.max.bytes": 2 * size, "linger.ms": 0})
    for number in range(4):
        producer.produce(topic, b"%d" % number * size, b"key")
        assert producer.flush(TIMEOUT) == 0
    for name in WAYS:
        story = told(name, servers, topic, 0, 4, Limits(1000, 8 * 2**20), headers=False)
        values = story.table(False).column("value").to_pylist()
        assert [(len(value), value[:1]) for value in values] == [(size, b"%d" % n) for n in range(4)]
        assert len(story.batches) == 4


@pytest.mark.parametrize("name", WAYS)
def test_other_threads_go_on_while_nothing_comes(log: Log, name: str) -> None:
    turns: list[int] = []
    done = Event()

    def turn() -> None:
        while not done.wait(0.001):
            turns.append(len(turns))

    with way(name), drain(log.servers, log.topic, log.end) as made:
        await_true(lambda: made.take(log.end, log.end + 1, PLENTY, 0.25).event is not None, "the end")

        def goes_on() -> bool:
            """Whether the other thread has had turns during one call, and not only before or after it."""
            before = len(turns)
            assert made.take(log.end, log.end + 1, PLENTY, 0.25).batch is None
            return len(turns) - before > 5

        other = Thread(target=turn)
        other.start()
        try:
            # It may have none in a quarter of a second in which other processes have all processors.
            await_true(goes_on, "turns of the other thread")
        finally:
            done.set()
            other.join()


def test_names_of_headers_that_are_no_utf8(kafka_cluster: LocalCluster) -> None:
    """As Java shows them: U+FFFD in their place. confluent-kafka cannot show such a record at all."""

    class Raw(str):
        def encode(self, *_: Any) -> bytes:
            return self.bytes

        bytes = b""

    names = [
        b"a\xffb",
        b"\xe2\x82",
        b"\xf0\x9f\x98z",
        b"\xed\xa0\x80",
        b"\xc0\xaf",
        "ä€𝄞".encode(),
        b"\x80" * 3,
    ]
    topic = create_topic(kafka_cluster.bootstrap_servers, unique_name("names"))
    headers = []
    for name in names:
        raw = Raw("name")
        raw.bytes = name
        headers.append((raw, b"value"))
    with closing(KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers)) as producer:
        producer.send(topic, b"value", headers=headers).get(TIMEOUT)
    story = told("require", kafka_cluster.bootstrap_servers, topic, 0, 1)
    (found,) = story.table().column("headers").to_pylist()
    assert [one["key"] for one in found] == [name.decode("utf-8", "replace") for name in names]


@pytest.mark.long
@pytest.mark.skipif("ASAN_OPTIONS" in os.environ, reason="AddressSanitizer keeps freed memory")
def test_many_drains_take_no_memory(log: Log) -> None:
    """Of a worker that lives for days; every drain opens its queue anew, some are given up with records in it."""
    process = psutil.Process()

    def give_up(consumer: Consumer) -> None:
        made = drain_of(consumer, log.topic, 0, headers=True)
        consumer.assign([TopicPartition(log.topic, 0, 0)])
        await_true(lambda: made.take(0, log.end, Limits(20, 2**20), 0.25).batch is not None, "records")
        consumer.unassign()
        made.close()

    def some() -> int:
        with closing(Consumer(consumer_properties({"bootstrap.servers": log.servers}))) as consumer:
            for _ in range(100):
                give_up(consumer)
        gc.collect()
        return process.memory_info().rss

    with way("require"):
        some()
        # The process does other things, too, but a leak shows in every part.
        resident = [some() for _ in range(3)]
        assert min(after - before for before, after in pairwise(resident)) < 4 * 2**20, resident


def test_wrong_arguments_are_refused(log: Log) -> None:
    with way("require"):
        native = kernel()
    consumer = Consumer(consumer_properties({"bootstrap.servers": log.servers}))
    capsule = native.open_partition(consumer, log.topic, 0)
    for wrong in [(0, 1, 0, 1, 0), (0, 1, 2**31, 1, 0), (0, 1, 1, 0, 0), (0, 1, 1, 1, -1)]:
        with pytest.raises(ValueError, match="a batch has"):
            native.drain(capsule, *wrong, False)
    with pytest.raises(ValueError, match="PyCapsule"):
        native.drain(log, 0, 1, 1, 1, 0, False)
    del capsule
    consumer.close()
    with pytest.raises(RuntimeError, match="closed"):
        native.open_partition(consumer, log.topic, 0)
