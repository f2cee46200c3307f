"""Transactions of OrderedProducer by the names of confluent-kafka, and what ends them."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from spark_ordered_kafka import OrderedConsumer, OrderedProducer
from spark_ordered_kafka.errors import (
    ConfigError,
    RebalancedError,
    RequestError,
)
from tests.integration import members
from tests.integration.members import Room, read_until
from tests.integration.producing import ReportError, failing_reports
from tests.integration.test_confluent_producer import delete, values
from tests.servers import TIMEOUT
from tests.streams import NumberedWriter, conf, create


def test_transactions_by_confluent_kafkas_names(room: Room, topic_name: str) -> None:
    create(room.cluster, topic_name, 1)
    with OrderedProducer(conf(room.cluster, commit_interval_ms=0)) as producer:
        producer.init_transactions()
        producer.init_transactions(10)
        for end in ("commit", "abort", "commit"):
            producer.begin_transaction()
            producer.produce(topic_name, end, "k")
            if end == "commit":
                producer.commit_transaction(TIMEOUT)
            else:
                producer.abort_transaction(TIMEOUT)
        producer.begin_transaction()
        producer.commit_transaction()
        producer.begin_transaction()
        producer.abort_transaction()
    assert values(room, topic_name, 2) == [b"commit", b"commit"]


@pytest.mark.parametrize("error", [(), (None,), (AssertionError,)], ids=["close", "end", "exception"])
def test_callbacks_that_raise_at_the_end_commit_nothing(
    room: Room, topic_name: str, error: tuple[type[BaseException] | None, ...]
) -> None:
    """All reports are served all the same."""
    create(room.cluster, topic_name, 1)
    producer = OrderedProducer(conf(room.cluster, commit_interval_ms=0))
    producer.init_transactions()
    reported = failing_reports(producer, topic_name)
    producer.begin_transaction()
    producer.produce(topic_name, "dropped", "k")

    def finish() -> None:
        if error:
            producer.__exit__(error[0], None, None)
        else:
            producer.close()

    with pytest.raises(ReportError, match="1"):
        finish()
    assert reported == [0, 1, 2]
    with OrderedProducer(conf(room.cluster)) as producer:
        producer.produce(topic_name, "kept", "k")
    assert values(room, topic_name, 1) == [b"kept"]


@pytest.mark.parametrize("end", ["abort_transaction", "close", "with"])
def test_what_commit_transaction_has_not_ended_is_not_committed(
    room: Room, topic_name: str, end: str
) -> None:
    create(room.cluster, topic_name, 1)
    with OrderedProducer(conf(room.cluster, commit_interval_ms=0)) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.produce(topic_name, "dropped", "k")
        assert producer.flush(1.0) == 1
        if end != "with":
            getattr(producer, end)()
    with OrderedProducer(conf(room.cluster)) as producer:
        producer.produce(topic_name, "kept", "k")
    assert values(room, topic_name, 1) == [b"kept"]


def test_a_topic_that_has_ended_fails_no_transaction_of_another(room: Room, topic_name: str) -> None:
    gone = create(room.cluster, f"{topic_name}-gone", 1)
    create(room.cluster, topic_name, 1)
    source = create(room.cluster, f"{topic_name}-in", 1)
    NumberedWriter(room.cluster, source).write()
    member = room.member(source, enable_auto_commit=False)
    read_until([member], lambda: len(member.messages) > 0, "records")
    with OrderedProducer(conf(room.cluster, commit_interval_ms=0)) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.produce(gone, "x", "k")
        delete(room.cluster, gone)
        for _ in range(2):
            # Until it is aborted: its record is lost.
            with pytest.raises(RequestError, match="UNKNOWN_TOPIC"):
                producer.commit_transaction()
        producer.abort_transaction()
        for value in ("1", "2"):
            producer.begin_transaction()
            producer.produce(topic_name, value, "k")
            producer.commit_transaction()
        # Offsets alone go with any topic that has not ended.
        producer.begin_transaction()
        producer.send_offsets(member.consumer)
        producer.commit_transaction()
        assert members.committed(room, source, 1)[0] > 0
        with pytest.raises(RequestError, match="UNKNOWN_TOPIC"):
            producer.produce(gone, "x", "k")
    assert values(room, topic_name, 2) == [b"1", b"2"]


def test_offsets_are_not_committed_without_the_records_that_an_ended_topic_lost(
    room: Room, topic_name: str
) -> None:
    gone = create(room.cluster, f"{topic_name}-gone", 1)
    source = create(room.cluster, f"{topic_name}-in", 1)
    NumberedWriter(room.cluster, source).write()
    member = room.member(source, enable_auto_commit=False)
    read_until([member], lambda: len(member.messages) > 0, "records")
    before = members.committed(room, source, 1)
    producer = OrderedProducer(conf(room.cluster, commit_interval_ms=0))
    # The first topic takes the offsets where no records wait.
    producer.produce(create(room.cluster, topic_name, 1), "first", "k")
    producer.commit()
    producer.produce(gone, "x", "k")
    delete(room.cluster, gone)
    with pytest.raises(RequestError, match="UNKNOWN_TOPIC"):
        producer.commit()
    producer.send_offsets(member.consumer)
    with pytest.raises(RequestError, match="UNKNOWN_TOPIC"):
        producer.commit()
    with pytest.raises(RequestError, match="UNKNOWN_TOPIC"):
        producer.close()
    assert members.committed(room, source, 1) == before


def test_a_callback_that_raises_leaves_no_committed_transaction_open(room: Room, topic_name: str) -> None:
    create(room.cluster, topic_name, 1)

    def report(error: KafkaError | None, _: Message) -> None:
        assert error is None
        raise ReportError

    with OrderedProducer(conf(room.cluster, commit_interval_ms=0)) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.produce(topic_name, "1", "k", on_delivery=report)
        with pytest.raises(ReportError):
            producer.commit_transaction()
        with pytest.raises(RequestError, match="no transaction is open"):
            producer.abort_transaction()
    assert values(room, topic_name, 1) == [b"1"]


@pytest.mark.parametrize("plain", [False, True], ids=["OrderedConsumer", "Consumer"])
def test_a_read_transform_write_loop_by_confluent_kafkas_names(
    room: Room, topic_name: str, plain: bool
) -> None:
    source = create(room.cluster, f"{topic_name}-in", 1)
    create(room.cluster, topic_name, 1)
    writer = NumberedWriter(room.cluster, source)
    writer.write()
    options = members.conf(room.cluster, room.group, enable_auto_commit=False)
    if plain:
        del options["controller.url"]
    consumer: Any = Consumer(options) if plain else OrderedConsumer(options)
    with OrderedProducer(conf(room.cluster, commit_interval_ms=0)) as producer:
        producer.init_transactions()
        consumer.subscribe([source])
        copied = 0
        while copied < writer.written:
            messages = [one for one in consumer.consume(30, 1.0) if one.error() is None]
            if not messages:
                continue
            producer.begin_transaction()
            for one in messages:
                producer.produce(topic_name, one.value(), one.key())
            positions = consumer.position(consumer.assignment())
            if not plain:
                early = [TopicPartition(source, 0, positions[0].offset - 1)]
                with pytest.raises(ConfigError, match="commits all that was delivered"):
                    producer.send_offsets_to_transaction(early, consumer.consumer_group_metadata())
            producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), TIMEOUT)
            producer.commit_transaction()
            copied += len(messages)
        (committed,) = consumer.committed([TopicPartition(source, 0)])
        assert committed.offset >= writer.written
        producer.begin_transaction()
        with pytest.raises(ConfigError, match=r"consumer_group_metadata\(\)"):
            producer.send_offsets_to_transaction([], "group")
        producer.abort_transaction()
    consumer.close()
    assert len(values(room, topic_name, writer.written)) == writer.written


def test_offsets_of_others_end_a_transaction_that_is_aborted_then(room: Room, topic_name: str) -> None:
    source = create(room.cluster, f"{topic_name}-in", 2)
    create(room.cluster, topic_name, 1)
    writer = NumberedWriter(room.cluster, source)
    writer.write()
    member = room.member(source, enable_auto_commit=False)
    read_until([member], lambda: len(member.messages) >= writer.written, "records")
    with OrderedProducer(conf(room.cluster, commit_interval_ms=0)) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.produce(topic_name, "made of what others have by then", "k")
        positions = member.consumer.position(member.consumer.assignment())
        metadata = member.consumer.consumer_group_metadata()
        other = room.member(source, enable_auto_commit=False)
        members.settle([member, other], 2)
        with pytest.raises((RebalancedError, ConfigError)):
            producer.send_offsets_to_transaction(positions, metadata)
        producer.abort_transaction()
        producer.begin_transaction()
        producer.produce(topic_name, "again", "k")
        producer.commit_transaction()
    assert values(room, topic_name, 1) == [b"again"]
