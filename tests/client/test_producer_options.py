"""Arguments of ``produce()``: what is wrong is refused in the caller's thread, before anything is asked or accepted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest

from spark_ordered_kafka import OrderedProducer
from spark_ordered_kafka.client.records import content, extras
from spark_ordered_kafka.errors import ClosedError, ConfigError, UnavailableError

NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "controller.url": "http://127.0.0.1:1"}


@pytest.fixture
def producer() -> Iterator[OrderedProducer]:
    with OrderedProducer(NOWHERE) as producer:
        yield producer


def test_contents_and_extras() -> None:
    assert [content("key", one) for one in (None, b"", "ключ", b"\xff")] == [
        None,
        b"",
        "ключ".encode(),
        b"\xff",
    ]
    assert extras(None, 0, None) == ({}, 0)
    assert extras(print, 17, {"a": b"xy", "b": None}) == (
        {"callback": print, "timestamp": 17, "headers": [("a", b"xy"), ("b", None)]},
        4 + 4,  # a byte for the length of each name and value
    )
    assert extras(None, 0, [("a", "x"), ("a", "y")])[0] == {"headers": [("a", "x"), ("a", "y")]}


@pytest.mark.parametrize(
    ("argument", "value", "hint"),
    [
        ("key", 17, "bytes, str or None, not int"),
        ("key", bytearray(b"k"), "serialize it first"),
        ("value", {"a": 1}, "bytes, str or None, not dict"),
    ],
)
def test_wrong_contents(argument: str, value: Any, hint: str) -> None:
    with pytest.raises(ConfigError, match=argument) as refused:
        content(argument, value)
    assert hint in str(refused.value)


@pytest.mark.parametrize(
    ("argument", "given", "hint"),
    [
        ("on_delivery", ("call me", 0, None), "(err, msg)"),
        ("timestamp", (None, 1.5, None), "milliseconds"),
        ("timestamp", (None, -1, None), "milliseconds"),
        ("timestamp", (None, True, None), "milliseconds"),
        ("timestamp", (None, 2**63, None), "milliseconds"),
        ("headers", (None, 0, "a=b"), "a list of (str, bytes, str or None)"),
        ("headers", (None, 0, [("a",)]), "a list of (str, bytes, str or None)"),
        ("headers", (None, 0, [(b"a", b"b")]), "a list of (str, bytes, str or None)"),
        ("headers", (None, 0, {"a": 3}), "a list of (str, bytes, str or None)"),
    ],
)
def test_wrong_extras(argument: str, given: tuple[Any, Any, Any], hint: str) -> None:
    with pytest.raises(ConfigError, match=argument) as refused:
        extras(*given)
    assert hint in str(refused.value)


@pytest.mark.parametrize("topic", [None, 5, "", "two words", "x" * 250])
def test_wrong_topics(producer: OrderedProducer, topic: Any) -> None:
    with pytest.raises(ConfigError, match="topic"):
        producer.produce(topic, b"v")


def test_the_arguments_are_confluent_kafkas_in_its_order() -> None:
    stated = (confluent_kafka.Producer.produce.__doc__ or "").split("produce(", 1)[1].split(")", 1)[0]
    names = [name.strip(" []") for name in stated.split(",")]
    code = OrderedProducer.produce.__code__
    assert list(code.co_varnames[1 : len(names) + 1]) == names


def test_a_controller_that_is_away_accepts_nothing(producer: OrderedProducer) -> None:
    with pytest.raises(UnavailableError, match=r"no controller answered.*orders"):
        producer.produce("orders", b"v", b"k")
    assert len(producer) == 0
    assert bool(producer)
    assert producer.flush() == 0


def test_use_after_close() -> None:
    producer = OrderedProducer(NOWHERE)
    producer.close()
    producer.close()
    for use in (
        lambda: producer.produce("orders", b"v"),
        producer.poll,
        producer.flush,
        producer.commit,
        producer.abort,
        lambda: producer.send_offsets(None),
    ):
        with pytest.raises(ClosedError, match="closed"):
            use()


def test_offsets_need_commits_by_the_caller(producer: OrderedProducer) -> None:
    with pytest.raises(ConfigError, match=r"commit\.interval\.ms.*'100'.*set commit\.interval\.ms to 0"):
        producer.send_offsets(object())
    with (
        OrderedProducer({**NOWHERE, "commit.interval.ms": 0}) as manual,
        pytest.raises(ConfigError, match="consumer"),
    ):
        manual.send_offsets("my-group")
