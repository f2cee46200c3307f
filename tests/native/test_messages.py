"""Messages as the kernel fetches them are confluent-kafka's own in all they do; both ways look at many alike."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import sys
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import pairwise
from threading import Thread
from typing import Any, cast

import psutil
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from spark_ordered_kafka.kafka.properties import consumer_properties
from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.native.messages import fetch, misrouted, runs
from spark_ordered_kafka.ordering import HASH_NAMES, bucket, key_hash
from spark_ordered_kafka.ordering.routing import Routing
from tests.native.columns import both_ways
from tests.servers import TIMEOUT, await_true, create_topic, unique_name

GETTERS = [name for name in dir(Message) if not name.startswith(("_", "set_"))]
SETTERS = [name for name in dir(Message) if name.startswith("set_")]
CONTENTS = (None, b"", b"\0", b"text", b"x" * 300)
COUNT = 1_000


@pytest.fixture(scope="module")
def log(kafka_cluster: LocalCluster) -> tuple[str, str]:
    """The brokers, and a topic of one partition with records of all kinds."""
    servers = kafka_cluster.bootstrap_servers
    topic = create_topic(servers, unique_name("messages"), config={"retention.ms": "-1"})
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5})
    for number in range(COUNT):
        headers = [("", None), ("ä€𝄞", b""), ("twice", b"1"), ("twice", b"\xff")][: number % 5]
        producer.produce(
            topic,
            CONTENTS[number // 5 % 5],
            CONTENTS[number % 5],
            headers=cast(Any, headers) or None,
            timestamp=1 + 1_700_000_000_000 * (number % 2),
        )
    assert producer.flush(TIMEOUT) == 0
    return servers, topic


@contextmanager
def reader(log: tuple[str, str]) -> Iterator[Consumer]:
    servers, topic = log
    consumer = Consumer(consumer_properties({"bootstrap.servers": servers}))
    with closing(consumer):
        consumer.assign([TopicPartition(topic, 0, 0)])
        yield consumer


def whole(consumer: Consumer, most: int = 2 * COUNT) -> list[Message]:
    """All of the log, and the event of its end."""
    found: list[Message] = []

    def at_end() -> bool:
        while (not found or found[-1].error() is None) and (some := fetch(consumer, most, 0.25)):
            found.extend(some)
        return bool(found) and found[-1].error() is not None

    await_true(at_end, "the end of the log")
    return found


def described(message: Message) -> dict[str, Any]:
    """All that a message tells."""
    told = {name: getattr(message, name)() for name in GETTERS}
    error = told.pop("error")
    return {
        **{name: (type(value), value) for name, value in told.items()},
        "error": None if error is None else (type(error), error.code(), error.str()),
        "length": len(message),
    }


@pytest.mark.parametrize("most", [1, 7, 2 * COUNT])
@pytest.mark.usefixtures("native")
def test_messages_tell_what_confluent_kafkas_own_tell(log: tuple[str, str], most: int) -> None:
    with reader(log) as consumer, reader(log) as other:
        found = whole(consumer, most)
        own = other.consume(COUNT + 1, TIMEOUT)
        assert len(own) == COUNT + 1 == len(found)
        pairs = list(zip(found, own, strict=True))
        assert all(type(one) is Message for one in own)
        assert all(isinstance(one, Message) and one == another for one, another in pairs)
        assert [described(one) for one in found] == [described(one) for one in own]
        (event,) = [one for one in found if one.error() is not None]
        assert event.error() == KafkaError(KafkaError._PARTITION_EOF)
    assert found[0] != found[1]
    assert cast(object, found[0]) != "another"
    with pytest.raises(TypeError, match="unhashable"):
        hash(found[0])
    for one in [*found[:25], event]:
        for made in [copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))]:
            assert described(made) == described(one)


@pytest.mark.long
@pytest.mark.usefixtures("native")
def test_messages_outlive_their_consumer(log: tuple[str, str]) -> None:
    with reader(log) as consumer:
        every = whole(consumer)
        before = [described(one) for one in every[:50]]
        kept = every[:50]
    del consumer, every
    gc.collect()
    assert [described(one) for one in kept] == before


@pytest.mark.long
@pytest.mark.usefixtures("native")
@pytest.mark.parametrize(
    "setter", [pytest.param(one, marks=[pytest.mark.long] * (one != "set_headers")) for one in SETTERS]
)
def test_a_setter_sets_and_a_cycle_is_collected(log: tuple[str, str], setter: str) -> None:
    class Holder:
        message: Message | None = None

    with reader(log) as consumer:
        message = whole(consumer)[0]
        getter = setter.removeprefix("set_")
        for _ in range(2):
            holder = Holder()
            getattr(message, setter)(holder)
            assert getattr(message, getter)() is holder
        holder.message = message
        lost = weakref.ref(holder)
        del holder, message
        gc.collect()
        assert lost() is None


def test_the_collector_is_told_of_no_message_and_left_as_it_was(
    log: tuple[str, str], the_kernel: Any
) -> None:
    with reader(log) as consumer:
        every = whole(consumer)
        assert {type(one) for one in every} == {the_kernel.Message}
        assert not any(map(gc.is_tracked, every))
        assert gc.isenabled()
        gc.disable()
        try:
            consumer.seek(TopicPartition(log[1], 0, 0))
            await_true(lambda: bool(the_kernel.fetch(consumer, 10, 0.25)), "records again")
            assert not gc.isenabled()
        finally:
            gc.enable()
    with pytest.raises(RuntimeError, match="closed"):
        the_kernel.fetch(consumer, 10, 0.0)
    assert gc.isenabled()


class Giving:
    """Gives as many messages as are asked for."""

    def poll(self, _: float) -> Message:
        return Message()

    def consume(self, count: int, _: float) -> list[Message]:
        return [Message() for _ in range(count)]


def test_the_collector_has_looked_before_it_knows_the_list(the_kernel: Any) -> None:
    """Else it would look next at each message of it."""
    found = the_kernel.fetch(Giving(), COUNT, 0.0)
    assert len(found) == COUNT
    assert gc.is_tracked(found)
    assert gc.get_count()[0] < COUNT // 2


class Refusing:
    """Gives a first message, and no more."""

    def poll(self, _: float) -> Message:
        return Message()

    def consume(self, *_: object) -> list[Message]:
        raise KafkaException(KafkaError(KafkaError._FAIL))


def test_the_collector_works_after_an_error(the_kernel: Any) -> None:
    with pytest.raises(KafkaException):
        the_kernel.fetch(Refusing(), 10, 0.0)
    assert gc.isenabled()


def test_threads_fetch_at_the_same_time(log: tuple[str, str], the_kernel: Any) -> None:
    counts: list[int] = []

    def read() -> None:
        with reader(log) as consumer:
            counts.append(len(whole(consumer, 20)))

    threads = [Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT)
    assert counts == [COUNT + 1] * 3
    assert gc.isenabled()


@pytest.mark.long
@pytest.mark.skipif("ASAN_OPTIONS" in os.environ, reason="AddressSanitizer keeps freed memory")
def test_fetching_takes_no_memory(log: tuple[str, str], the_kernel: Any) -> None:
    process = psutil.Process()
    routing = ("murmur3", 1, 2, 0)

    def some(rounds: int, consumer: Consumer) -> int:
        for _ in range(rounds):
            every = whole(consumer)
            assert len(the_kernel.runs(every)) == 2
            the_kernel.misrouted(*routing, every)
            every[0].set_value(every[1].value())
            del every
            consumer.assign([TopicPartition(log[1], 0, 0)])
        return process.memory_info().rss

    with reader(log) as consumer:
        resident = [some(30, consumer)]
        types, seen = sys.getrefcount(the_kernel.Message), len(gc.get_objects())
        # What a round makes has half a megabyte. The process does other things, too, but a leak shows in every part.
        resident += [some(20, consumer) for _ in range(4)]
        assert min(after - before for before, after in pairwise(resident)) < 2 * 2**20
        left = sys.getrefcount(the_kernel.Message)
        assert left == types
        assert len(gc.get_objects()) < seen + 100


# -- many at a time ----------------------------------------------------------------------------------------------------

events = st.none() | st.just(KafkaError(KafkaError._PARTITION_EOF))
messages: st.SearchStrategy[list[Message]] = st.lists(
    st.builds(
        cast(Any, Message),
        topic=st.sampled_from(["a", "ä", ""]) | st.none(),
        partition=st.integers(-1, 2),
        key=st.none() | st.binary(max_size=40),
        error=events,
    ),
    max_size=30,
)


@pytest.mark.usefixtures("native")
@both_ways
@given(messages)
def test_runs_are_of_one_partition_or_one_event(given_: list[Message]) -> None:
    found = runs(given_)
    assert [id(one) for run in found for one in run] == [id(one) for one in given_]
    kinds = []
    for run in found:
        assert len(run) == 1 or all(one.error() is None for one in run)
        (place,) = {(one.topic(), one.partition()) for one in run}
        kinds.append((place, run[0].error() is None))
    # As few as there can be: of two that follow each other one is an event, or they lie in two partitions.
    assert all(one != other or not one[1] for one, other in pairwise(kinds))


@pytest.mark.usefixtures("native")
@both_ways
@given(messages, st.sampled_from(HASH_NAMES), st.integers(1, 4), st.integers(0, 3), st.integers(0, 7))
def test_misrouted_are_those_whose_key_belongs_elsewhere(
    given_: list[Message], name: str, initial: int, more: int, partition: int
) -> None:
    keys = [one.key() for one in given_]
    places = [None if key is None else bucket(key_hash(name, key), initial, initial + more) for key in keys]
    expected = [row for row, place in enumerate(places) if place not in (None, partition)]
    assert misrouted(given_, partition, Routing(name, initial, initial + more)) == expected


def test_what_is_no_message_is_refused(the_kernel: Any) -> None:
    for wrong in [(Message(),), [None], [Message(), b"key"]]:
        with pytest.raises(TypeError, match="messages must"):
            the_kernel.runs(wrong)
        with pytest.raises(TypeError, match="messages must"):
            the_kernel.misrouted("murmur3", 1, 2, 0, wrong)
    with pytest.raises(TypeError, match="expected bytes, str found"):
        the_kernel.misrouted("murmur3", 1, 2, 0, [Message(key=cast(Any, "text"))])
    with pytest.raises(ValueError, match="hash must be"):
        the_kernel.misrouted("md5", 1, 2, 0, [])
    with pytest.raises(AttributeError):
        the_kernel.fetch(None, 1, 0.0)
    with pytest.raises(TypeError):
        the_kernel.Message.key = None
