"""Clients that are called in wrong ways: they say so, go on, and take no process with them."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from spark_ordered_kafka import OrderedConsumer, OrderedProducer, PartitionKeyRebalanceListener
from spark_ordered_kafka.errors import ClosedError, ConfigError, RequestError
from tests.integration.members import Room, all_of, at, partitions_of, read_until, settle
from tests.streams import NumberedWriter, conf, create

WRONG: dict[str, Callable[[Any], object]] = {
    "timeout": lambda consumer: consumer.poll("1"),
    "timeout of no number": lambda consumer: consumer.consume(1, float("nan")),
    "offsets": lambda consumer: consumer.commit(offsets="offsets"),
    "message": lambda consumer: consumer.commit(5),
    "on_assign": lambda consumer: consumer.subscribe(["topic"], on_assign=5),
    "partition_key_listener": lambda consumer: consumer.subscribe(
        ["topic"], partition_key_listener=PartitionKeyRebalanceListener
    ),
    "timeout of a question": lambda consumer: consumer.list_topics(timeout="1"),
}
NO_PARTITIONS: tuple[Any, ...] = (
    "topic",
    5,
    ["topic"],
    [("topic", 0)],
    [TopicPartition("topic", 0), None],
    [TopicPartition("topic")],
    TopicPartition("topic", 0),
)
NO_PARTITION: tuple[Any, ...] = ("topic", 5, None, [TopicPartition("topic", 0)], TopicPartition("topic"))
# The name of the argument, what it cannot be, and what takes it.
OF_PARTITIONS: list[tuple[str, tuple[Any, ...], Callable[[Any, Any], object]]] = [
    ("partitions", NO_PARTITIONS, OrderedConsumer.position),
    ("partitions", NO_PARTITIONS, OrderedConsumer.pause),
    ("partitions", NO_PARTITIONS, OrderedConsumer.resume),
    ("partitions", NO_PARTITIONS, OrderedConsumer.assign),
    ("partitions", NO_PARTITIONS, OrderedConsumer.incremental_assign),
    ("partitions", NO_PARTITIONS, OrderedConsumer.incremental_unassign),
    ("partitions", NO_PARTITIONS, OrderedConsumer.committed),
    ("partitions", NO_PARTITIONS, OrderedConsumer.offsets_for_times),
    ("offsets", NO_PARTITIONS, lambda consumer, wrong: consumer.commit(offsets=wrong)),
    ("offsets", NO_PARTITIONS, lambda consumer, wrong: consumer.store_offsets(offsets=wrong)),
    ("partition", NO_PARTITION, OrderedConsumer.seek),
    ("partition", NO_PARTITION, OrderedConsumer.get_watermark_offsets),
]
CALLS: dict[str, Callable[[OrderedConsumer], object]] = {
    "poll": lambda consumer: consumer.poll(0),
    "consume": lambda consumer: consumer.consume(1, 0),
    "subscribe": lambda consumer: consumer.subscribe(["topic"]),
    "unsubscribe": OrderedConsumer.unsubscribe,
}


def test_wrong_arguments_do_not_end_a_consumer(room: Room, topic_name: str) -> None:
    create(room.cluster, topic_name, 1)
    writer = NumberedWriter(room.cluster, topic_name)
    writer.write()
    member = room.member(topic_name)
    all_of(member, writer.written)
    for name, call in WRONG.items():
        with pytest.raises(ConfigError, match=f"^{name.split()[0]} has the value"):
            call(member.consumer)
    writer.write()
    all_of(member, writer.written)
    assert member.consumer.commit() is not None


def test_what_is_no_list_of_partitions_is_named_and_ends_no_consumer(room: Room, topic_name: str) -> None:
    create(room.cluster, topic_name, 1)
    writer = NumberedWriter(room.cluster, topic_name)
    writer.write()
    more = {"enable_auto_commit": False, "enable_auto_offset_store": False}
    member = room.member(topic_name, **more)
    all_of(member, writer.written)
    for name, wrong_ones, call in OF_PARTITIONS:
        for wrong in wrong_ones:
            with pytest.raises(ConfigError, match=f"^{name} (has the value|is missing).* TopicPartition"):
                call(member.consumer, wrong)
    with OrderedProducer(conf(room.cluster, commit_interval_ms=0)) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for group in (b"of another consumer", member.consumer.consumer_group_metadata()):
            for wrong in NO_PARTITIONS:
                with pytest.raises(ConfigError, match=r"^positions has the value .* TopicPartition"):
                    producer.send_offsets_to_transaction(wrong, group)
        producer.abort_transaction()
    writer.write()
    all_of(member, writer.written)


def test_partitions_may_come_from_any_iterable(room: Room, topic_name: str) -> None:
    """An iterator, which is empty at the second look, did nothing and said nothing."""
    create(room.cluster, topic_name, 2)
    writer = NumberedWriter(room.cluster, topic_name)
    writer.write()
    member = room.member(enable_auto_commit=False)
    once: Any = iter
    member.consumer.assign(once(partitions_of(topic_name, 0)))
    member.consumer.incremental_assign(once(partitions_of(topic_name, 1)))
    all_of(member, writer.written)
    done = member.consumer.commit(offsets=once([at(topic_name, 0, 1)]))
    assert done is not None
    assert [one.offset for one in done] == [1]


def test_timeouts_of_a_producer(room: Room, topic_name: str) -> None:
    create(room.cluster, topic_name, 1)
    with OrderedProducer(conf(room.cluster, commit_interval_ms=0)) as producer:
        producer.produce(topic_name, "v", "k")
        wrong: Any
        for wrong in ("1", float("nan")):
            for call in (producer.poll, producer.flush, producer.commit):
                with pytest.raises(ConfigError, match=r"^timeout has the value"):
                    call(wrong)
        producer.commit(float("inf"))
        # There is nothing to wait for.
        producer.commit(0)
        assert producer.flush(0) == 0


@pytest.mark.parametrize("call", CALLS)
def test_callbacks_of_a_consumer_that_is_closed_are_refused_what_keeps_it_in_its_group(
    room: Room, topic_name: str, call: str
) -> None:
    """librdkafka, and confluent-kafka, abort the process."""
    create(room.cluster, topic_name, 2)
    refused: list[str] = []

    def revoked(consumer: OrderedConsumer, _: list[TopicPartition]) -> None:
        with pytest.raises(ClosedError, match="is being closed"):
            CALLS[call](consumer)
        refused.append(call)

    member = room.member()
    member.consumer.subscribe([topic_name], on_revoke=revoked)
    settle([member], 2)
    member.consumer.close()
    assert refused == [call]


@pytest.mark.parametrize("call", ["poll", "consume"])
def test_a_rebalance_cannot_be_waited_for_in_its_callback(room: Room, topic_name: str, call: str) -> None:
    create(room.cluster, topic_name, 2)
    refused: list[str] = []

    def told(consumer: OrderedConsumer, _: list[TopicPartition]) -> None:
        with pytest.raises(RequestError, match="cannot be called by a callback"):
            CALLS[call](consumer)
        refused.append(call)

    first, second = room.member(), room.member()
    first.consumer.subscribe([topic_name], on_assign=told, on_revoke=told)
    settle([first], 2)
    second.consumer.subscribe([topic_name])
    settle([first, second], 2)
    assert len(refused) >= 3
    # Where the callback does not catch it, it ends the consumer.
    second.consumer.close()
    first.consumer.subscribe([topic_name], on_assign=lambda consumer, _: CALLS[call](consumer))
    with pytest.raises(RequestError, match="cannot be called by a callback"):
        read_until([first], lambda: False, "the error")
    with suppress(RequestError):
        first.consumer.close()


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy, pickle.dumps])
def test_clients_are_neither_pickled_nor_copied(room: Room, make: Callable[[Any], object]) -> None:
    with OrderedProducer(conf(room.cluster)) as producer:
        for client in (producer, room.member().consumer):
            with pytest.raises(TypeError, match="can neither be pickled nor copied: make one"):
                make(client)
