"""Configuration of the plain clients: what is wrong is refused at once, naming option, value and what would be right."""

from __future__ import annotations

from typing import Any

import pytest

from spark_ordered_kafka.client.options import consumer_options, producer_options
from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.kafka.property_checks import check_writer

BASE: dict[str, Any] = {"bootstrap.servers": "127.0.0.1:9092", "controller.url": "http://127.0.0.1:8090"}
GROUP = BASE | {"group.id": "g"}


def test_a_producer_by_default() -> None:
    options = producer_options(BASE)
    assert (options.commit_interval, options.commit_records) == (0.1, 100_000)
    assert (options.max_messages, options.max_bytes) == (100_000, 2**30)
    assert (options.max_message_bytes, options.message_timeout) == (1_000_000, 300.0)
    assert options.connection.kafka == {"bootstrap.servers": "127.0.0.1:9092"}


def test_a_producer_with_everything_set() -> None:
    options = producer_options(
        BASE
        | {
            "commit.interval.ms": 0,
            "commit.max.records": "7",
            "queue.buffering.max.messages": 9,
            "queue.buffering.max.kbytes": 2,
            "message.max.bytes": 100_000,
            "delivery.timeout.ms": "5000",
            "linger.ms": 3.5,
            "enable.idempotence": True,
            "acks": "all",
            "client.id": None,
        }
    )
    assert (options.commit_interval, options.commit_records) == (None, 7)
    assert (options.max_messages, options.max_bytes) == (9, 2048)
    assert (options.max_message_bytes, options.message_timeout) == (100_000, 5.0)
    assert options.connection.kafka["linger.ms"] == "3.5"
    assert "client.id" not in options.connection.kafka


def test_a_consumer_by_default() -> None:
    options = consumer_options(GROUP)
    assert (options.group, options.reset, options.commit_interval, options.show_ends) == (
        "g",
        "latest",
        5.0,
        False,
    )


@pytest.mark.parametrize(
    ("given", "reset"),
    [("smallest", "earliest"), ("END", "latest"), ("error", "error"), ("latest", "latest")],
)
def test_resets_have_librdkafkas_aliases(given: str, reset: str) -> None:
    assert consumer_options(GROUP | {"auto.offset.reset": given}).reset == reset


def test_commits_of_a_consumer_can_be_left_to_the_caller() -> None:
    assert consumer_options(GROUP | {"enable.auto.commit": False}).commit_interval is None


@pytest.mark.parametrize(
    ("option", "value", "hint"),
    [
        ("bootstrap.servers", None, "host:port"),
        ("bootstrap.servers", "nowhere", "host:port"),
        ("controller.url", None, "http://host:8090"),
        ("controller.url", "host:8090", "http://host:8090"),
        ("no.such.name", "1", "No such configuration property"),
        ("key.serializer", str, "serialize keys"),
        ("interceptor.classes", "mine.Interceptor", "a class of Java's clients"),
        ("error_cb", "print", "a callable"),
    ],
)
@pytest.mark.parametrize("parse", [producer_options, consumer_options])
def test_wrong_for_both(parse: Any, option: str, value: Any, hint: str) -> None:
    with pytest.raises(ConfigError, match=option.replace(".", r"\.")) as refused:
        parse({**GROUP, option: value} if parse is consumer_options else {**BASE, option: value})
    assert hint in str(refused.value)
    if value is not None:
        assert repr(value) in str(refused.value)


@pytest.mark.parametrize(
    ("option", "value", "hint"),
    [
        ("transactional.id", "mine", "derived from the topic"),
        ("partitioner", "random", "the layout decides"),
        ("on_delivery", print, "give on_delivery to produce()"),
        ("statistics.interval.ms", 100, "take ClientMetrics"),
        ("stats_cb", print, "take ClientMetrics"),
        ("max.block.ms", 5, "raises BufferError"),
        ("enable.idempotence", False, "only true"),
        ("acks", 1, "only all or -1"),
        ("commit.interval.ms", "soon", "a whole number, 0 or greater"),
        ("commit.interval.ms", -1, "a whole number, 0 or greater"),
        ("commit.max.records", 0, "at least 1"),
        ("queue.buffering.max.messages", "many", "a whole number"),
        ("queue.buffering.max.kbytes", 0, "at least 1"),
        ("message.max.bytes", -5, "at least 1"),
        ("message.timeout.ms", 0, "at least 1"),
        ("compression.type", "rar", "librdkafka says"),
        ("delivery.report.only.error", True, "look at its err"),
        # What librdkafka refuses a transactional producer only, and a producer's consumers.
        ("max.in.flight.requests.per.connection", 6, "must be set <= 5"),
        ("retries", 0, "must be set >= 1"),
        ("queuing.strategy", "lifo", "must be set to `fifo`"),
        ("queue.buffering.backpressure.threshold", 2, "must be set to 1"),
        ("linger.ms", 900_000, "must be greater than `linger.ms`"),
        ("message.timeout.ms", 1, "must be greater than `linger.ms`"),
        ("receive.message.max.bytes", 1000, "must be >= `fetch.max.bytes`"),
    ],
)
def test_wrong_for_a_producer(option: str, value: Any, hint: str) -> None:
    with pytest.raises(ConfigError, match=option.replace(".", r"\.")) as refused:
        producer_options(BASE | {option: value})
    assert hint in str(refused.value)


@pytest.mark.parametrize(
    ("option", "value", "hint"),
    [
        ("group.id", None, "the name of the consumer group"),
        ("group.id", "", "the name of the consumer group"),
        ("partition.assignment.strategy", "range", "only roundrobin"),
        ("group.protocol", "consumer", "KIP-848"),
        ("max.poll.records", 5, "give the number to consume()"),
        ("on_commit", 3, "a callable"),
        ("topic.metadata.refresh.interval.ms", "soon", "at least 1"),
        ("isolation.level", "dirty", "read_committed"),
        ("auto.offset.reset", "yesterday", "earliest"),
        ("auto.commit.interval.ms", 0, "at least 1"),
        ("enable.auto.commit", "perhaps", "true"),
        ("enable.partition.eof", 3, "true"),
        ("session.timeout.ms", "long", "librdkafka says"),
    ],
)
def test_wrong_for_a_consumer(option: str, value: Any, hint: str) -> None:
    with pytest.raises(ConfigError, match=option.replace(".", r"\.")) as refused:
        consumer_options(GROUP | {option: value})
    assert hint in str(refused.value)


def test_a_name_of_java_is_said_beside_librdkafkas() -> None:
    with pytest.raises(
        ConfigError, match=r"socket\.timeout\.ms has the value '900000'.*Java's name of it is request"
    ):
        consumer_options(GROUP | {"request.timeout.ms": 900_000})


@pytest.mark.parametrize(
    "more",
    [
        {"request.timeout.ms": 120_000},
        {"socket.timeout.ms": "300000"},
        {"delivery.timeout.ms": 120_000},
        {"message.timeout.ms": 2**31 - 1},
        {"delivery.timeout.ms": 120_000, "transaction.timeout.ms": 1000},
    ],
)
def test_a_timeout_may_outlast_a_transaction(more: dict[str, Any]) -> None:
    assert (
        producer_options(BASE | more).connection.kafka.items()
        > {"bootstrap.servers": "127.0.0.1:9092"}.items()
    )
    check_writer({"bootstrap.servers": "127.0.0.1:9092"} | more)


@pytest.mark.parametrize("conf", [None, "bootstrap.servers=x", [("a", 1)], {1: 2}])
def test_no_configuration_at_all(conf: Any) -> None:
    with pytest.raises(ConfigError, match="conf"):
        producer_options(conf)
