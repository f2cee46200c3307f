"""OrderedProducer by confluent-kafka's other methods: batches, purging, transactions under its names, callbacks, metadata."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Message

from spark_ordered_kafka import ControllerClient, OrderedConsumer, OrderedProducer
from spark_ordered_kafka.errors import (
    ClosedError,
    ConfigError,
    ConfigErrors,
    RequestError,
    UnavailableError,
)
from spark_ordered_kafka.local import LocalCluster
from tests.integration import members
from tests.integration.members import Member, Room, read_until
from tests.servers import TIMEOUT
from tests.streams import conf, create

# More than Python nests calls.
REPORTS = 3000


@pytest.fixture
def producer(cluster: LocalCluster) -> Iterator[OrderedProducer]:
    """Commits only when it is told to."""
    with OrderedProducer(conf(cluster, commit_interval_ms=0)) as made:
        yield made
        made.abort()


def values(room: Room, topic: str, count: int) -> list[bytes | None]:
    member = Member(OrderedConsumer(members.conf(room.cluster, f"{room.group}-{topic}")))
    with member.consumer:
        member.consumer.subscribe([topic])
        read_until([member], lambda: len(member.messages) >= count, f"{count} records")
        for _ in range(5):
            member.read()
    return [one.value() for one in member.messages]


def delete(cluster: LocalCluster, topic: str) -> None:
    with ControllerClient(cluster.controller_url) as controller:
        controller.delete_topic(topic)


def test_a_topic_that_is_created_again_needs_a_new_producer_and_the_error_says_so(
    room: Room, topic_name: str
) -> None:
    create(room.cluster, topic_name, 1)
    with OrderedProducer(conf(room.cluster)) as producer:
        producer.produce(topic_name, "old")
        producer.flush()
        delete(room.cluster, topic_name)
        producer.produce(topic_name, "lost")
        with pytest.raises(RequestError, match=topic_name):
            producer.flush()
        create(room.cluster, topic_name, 1)
        with pytest.raises(RequestError, match=topic_name) as caught:
            producer.produce(topic_name, "refused")
        assert "make a new one" in caught.value.__notes__[0]
    with OrderedProducer(conf(room.cluster)) as producer:
        producer.produce(topic_name, "new")
    assert values(room, topic_name, 1) == [b"new"]


def test_a_batch(room: Room, topic_name: str) -> None:
    create(room.cluster, topic_name, 1)
    told: list[tuple[str, bytes | None]] = []

    def note(who: str) -> Any:
        return lambda error, message: told.append((who, message.value()))

    messages: list[dict[str, Any]] = [
        {"key": "k", "value": "1", "callback": note("own")},
        {"key": "k", "value": b"2", "headers": {"a": b"b"}, "timestamp": 1_700_000_000_000},
        {"key": "k", "value": "3", "_error": "of an earlier attempt"},
        {},
    ]
    with OrderedProducer(conf(room.cluster)) as producer:
        assert producer.produce_batch(topic_name, messages, on_delivery=note("all")) == 4
        assert producer.produce_batch(topic_name, []) == 0
        assert producer.flush() == 0
    assert sorted(told, key=str) == [("all", None), ("all", b"2"), ("all", b"3"), ("own", b"1")]
    assert not any("_error" in one for one in messages)
    assert values(room, topic_name, 4) == [b"1", b"2", b"3", None]


def test_what_does_not_fit_of_a_batch_is_left_out_from_there_on(
    cluster: LocalCluster, topic_name: str
) -> None:
    create(cluster, topic_name, 1)
    with OrderedProducer(conf(cluster, commit_interval_ms=0, queue_buffering_max_messages=3)) as producer:
        messages: list[dict[str, Any]] = [{"key": "k", "value": str(n)} for n in range(5)]
        assert producer.produce_batch(topic_name, messages) == 3
        errors = [one.get("_error") for one in messages]
        assert errors[:3] == [None, None, None]
        assert [error.code() for error in errors[3:] if error is not None] == [KafkaError._QUEUE_FULL] * 2
        producer.commit()
        assert producer.produce_batch(topic_name, messages[3:]) == 2
        assert len(producer) == 2


def test_a_wrong_batch_is_refused_as_a_whole(producer: OrderedProducer, topic_name: str) -> None:
    wrong: list[dict[str, Any]] = [
        {"value": "fine"},
        {"value": 3},
        {"vlue": "x"},
        {"partition": 2},
        {"headers": 5},
    ]
    with pytest.raises(ConfigErrors) as caught:
        producer.produce_batch(topic_name, wrong)
    assert (
        caught.value.option
        == "messages[1].value, messages[2].vlue, messages[3].partition, messages[4].headers"
    )
    assert len(producer) == 0
    for messages in ("abc", [1], None):
        with pytest.raises(ConfigError, match="a list of dicts"):
            producer.produce_batch(topic_name, messages)  # type: ignore[arg-type]


def test_a_callback_may_call_what_calls_it(cluster: LocalCluster, topic_name: str) -> None:
    """Each of more reports than Python nests calls polls for the others; some produce and flush, some raise."""
    create(cluster, topic_name, 1)
    reported: list[int] = []
    errors: list[KafkaError | None] = []

    def report(error: KafkaError | None, message: Message) -> None:
        # An error that is raised here may be dropped: of several callbacks, flush() raises what the first has raised.
        errors.append(error)
        number = int(message.value() or b"")
        reported.append(number)
        writes = number % 500 == 0 and number < REPORTS
        if writes:
            # Before the calls that may raise what another report raises.
            writer.produce(topic_name, str(REPORTS + number), "k", on_delivery=report)
        writer.poll(0)
        if writes:
            writer.flush()
        if number % 700 == 0:
            raise ValueError(number)

    wanted = [*range(REPORTS), *range(REPORTS, 2 * REPORTS, 500)]
    deadline = time.monotonic() + 4 * TIMEOUT
    with OrderedProducer(conf(cluster)) as writer:
        for number in range(REPORTS):
            writer.produce(topic_name, str(number), "k", on_delivery=report)
        while len(reported) < len(wanted):
            assert time.monotonic() < deadline, set(wanted) - set(reported)
            assert not any(errors), errors
            with suppress(ValueError):
                writer.poll(0.1)
    assert sorted(reported) == wanted
    assert not any(errors)


@pytest.mark.parametrize("blocking", [True, False])
def test_purged_records_are_reported_and_not_written(room: Room, topic_name: str, blocking: bool) -> None:
    create(room.cluster, topic_name, 1)
    told: list[tuple[Any, bytes | None]] = []
    with OrderedProducer(conf(room.cluster, commit_interval_ms=0)) as producer:
        for number in range(3):
            producer.produce(
                topic_name, str(number), "k", on_delivery=lambda error, m: told.append((error, m.value()))
            )
        for name in ("in_queue", "in_flight"):
            with pytest.raises(ConfigError, match="dropped as a whole"):
                producer.purge(**{name: False})
        producer.purge(in_queue=False, in_flight=False)
        assert len(producer) == 3
        producer.purge(blocking=blocking)
        deadline = time.monotonic() + TIMEOUT
        while len(told) < 3 and time.monotonic() < deadline:
            producer.poll(0.1)
        assert [error.code() for error, _ in told] == [KafkaError._PURGE_QUEUE] * 3
        producer.produce(topic_name, "kept", "k")
        producer.commit()
    assert values(room, topic_name, 1) == [b"kept"]


@pytest.mark.parametrize("interval", [0, 10_000])
def test_what_follows_a_purge_is_kept(room: Room, topic_name: str, interval: int) -> None:
    create(room.cluster, topic_name, 1)
    told: list[tuple[KafkaError | None, bytes | None]] = []

    def report(error: KafkaError | None, message: Message) -> None:
        told.append((error, message.value()))

    with OrderedProducer(conf(room.cluster, commit_interval_ms=interval)) as producer:
        for number in range(3):
            producer.produce(topic_name, "dropped", "k", on_delivery=report)
            producer.purge(blocking=False)
            producer.produce(topic_name, f"kept {number}", "k", on_delivery=report)
            assert producer.flush() == 0
        producer.produce(topic_name, "dropped", "k", on_delivery=report)
        producer.purge(blocking=False)
        assert producer.flush() == 0
    dropped = [(error.code(), value) for error, value in told if error is not None]
    assert dropped == [(KafkaError._PURGE_QUEUE, b"dropped")] * 4
    kept = [b"kept 0", b"kept 1", b"kept 2"]
    assert [value for error, value in told if error is None] == kept
    assert values(room, topic_name, 3) == kept


def test_time_that_is_up(cluster: LocalCluster, topic_name: str, producer: OrderedProducer) -> None:
    create(cluster, topic_name, 1)
    producer.init_transactions()
    producer.begin_transaction()
    for number in range(20_000):
        producer.produce(topic_name, str(number), str(number))
    try:
        producer.commit_transaction(0)
    except UnavailableError:
        producer.commit_transaction()
    producer.begin_transaction()
    producer.produce(topic_name, "x", "k")
    try:
        producer.abort_transaction(0)
    except UnavailableError:
        producer.abort_transaction()
    assert len(producer) == 0


def test_a_timestamp_that_the_topic_does_not_take(cluster: LocalCluster, topic_name: str) -> None:
    create(cluster, topic_name, 1, **{"message.timestamp.after.max.ms": "1000"})
    producer = OrderedProducer(conf(cluster))
    told: list[KafkaError | None] = []
    tomorrow = int(time.time() * 1000) + 86_400_000
    producer.produce(
        topic_name, "v", "k", timestamp=tomorrow, on_delivery=lambda error, _: told.append(error)
    )
    with pytest.raises(RequestError, match=r"^INVALID_TIMESTAMP: "):
        producer.flush()
    assert [error.code() for error in told if error is not None] == [KafkaError.INVALID_TIMESTAMP]
    producer.close()


def test_metadata_callbacks_and_keyword_options(cluster: LocalCluster, topic_name: str) -> None:
    create(cluster, topic_name, 3)
    said: list[logging.LogRecord] = []
    logger = logging.getLogger(f"mine.{topic_name}")
    logger.addFilter(lambda record: not said.append(record))  # type: ignore[func-returns-value]
    options: dict[str, Any] = conf(cluster) | {"logger": logger, "debug": "generic"}
    with OrderedProducer(**options) as producer:
        assert len(producer.list_topics(topic_name).topics[topic_name].partitions) == 3
        assert producer.cluster_id(TIMEOUT) == producer.list_topics(timeout=TIMEOUT).cluster_id
        with pytest.raises(RequestError, match="make one with the new"):
            producer.set_sasl_credentials("me", "secret")
        producer.produce(topic_name, "v", "k")
        producer.flush()
        assert said
    for call in (producer.list_topics, producer.cluster_id, producer.purge, producer.init_transactions):
        with pytest.raises(ClosedError):
            call()
    errors: list[KafkaError] = []
    with (
        OrderedProducer(
            conf(cluster) | {"bootstrap.servers": "127.0.0.1:1"}, error_cb=errors.append
        ) as nowhere,
        pytest.raises(KafkaException),
    ):
        nowhere.list_topics(timeout=0.05)


def test_the_order_of_the_calls_is_checked(
    producer: OrderedProducer, topic_name: str, cluster: LocalCluster
) -> None:
    create(cluster, topic_name, 1)
    other = create(cluster, f"{topic_name}-other", 1)
    with pytest.raises(RequestError, match=r"init_transactions\(\) first"):
        producer.begin_transaction()
    producer.init_transactions()
    ends: list[Callable[[], None]] = [producer.commit_transaction, producer.abort_transaction]
    ends.append(partial(producer.send_offsets_to_transaction, [], b""))
    for call in ends:
        with pytest.raises(RequestError, match=r"begin_transaction\(\) first"):
            call()
    producer.produce(topic_name, "early", "k")
    with pytest.raises(RequestError, match="1 records were produced before"):
        producer.begin_transaction()
    producer.abort()
    producer.begin_transaction()
    with pytest.raises(RequestError, match=r"end it by commit_transaction\(\)"):
        producer.begin_transaction()
    producer.produce(topic_name, "a", "k")
    producer.produce(other, "b", "k")
    with pytest.raises(RequestError, match="spans one topic"):
        producer.commit_transaction()
    producer.abort_transaction()
    producer.begin_transaction()
    producer.commit_transaction()
    with (
        OrderedProducer(conf(cluster)) as automatic,
        pytest.raises(ConfigError, match=r"commit\.interval\.ms.*'100'.*set it to 0"),
    ):
        automatic.init_transactions()
