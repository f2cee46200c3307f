"""Waiting for offsets that librdkafka takes in a thread of their own."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from spark_ordered_kafka.errors import UnavailableError
from spark_ordered_kafka.kafka.sent_offsets import SentOffsets, TransactionOffsets

_OFFSETS = TransactionOffsets([], None)


class Sleeping:
    """Takes offsets once it was woken, as librdkafka does that is to repeat a request (D-493)."""

    def __init__(self) -> None:
        self._awake = threading.Event()

    def send_offsets_to_transaction(self, offsets: Any, group: Any, timeout: float) -> None:
        self._awake.wait()

    def wake(self) -> None:
        self._awake.set()


def test_who_waits_wakes_librdkafka() -> None:
    producer: Any = Sleeping()
    sending = SentOffsets(producer, "id", [_OFFSETS], 300.0)
    assert sending.wait_for(300.0, producer.wake)
    assert not sending.is_late()
    sending.result()


def test_the_wait_ends_with_the_time_that_was_given() -> None:
    producer: Any = Sleeping()
    sending = SentOffsets(producer, "id", [_OFFSETS], 0.1)
    woken: list[bool] = []
    try:
        assert not sending.wait_for(300.0, lambda: woken.append(True))
        with pytest.raises(UnavailableError, match=r"transaction of 'id' took no offsets within 0\.1 s"):
            sending.result()
        assert sending.is_late()
        assert woken
    finally:
        producer.wake()


def test_what_waking_raises_is_raised() -> None:
    producer: Any = Sleeping()
    sending = SentOffsets(producer, "id", [_OFFSETS], 300.0)

    def fail() -> None:
        raise UnavailableError("fenced")

    try:
        with pytest.raises(UnavailableError, match="fenced"):
            sending.wait_for(300.0, fail)
    finally:
        producer.wake()
